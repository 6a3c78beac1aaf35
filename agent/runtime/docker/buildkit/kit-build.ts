import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { ContextEntry } from '../../build-context.ts';
import { imageReference } from '../../image-reference.ts';
import { RuntimeFailure, type ImageInfo, type KitOptions } from '../../runtime.ts';
import type { BuildLimits } from '../build.ts';
import type { Engine } from '../engine.ts';
import { fail } from '../failure.ts';
import { inspectImage } from '../images.ts';
import { jsonLines } from '../json-lines.ts';
import { buildHost } from './build-host.ts';
import { hiding } from './hiding.ts';
import { limitSteps } from './kit-cgroup.ts';
import { fallback, kitFailure } from './kit-failure.ts';
import { serveSession, sessionHeaders, type SessionContent } from './session.ts';
import { StepLog } from './step-log.ts';
import { readTrace } from './trace.ts';

/** Deadline for the first word of the engine. */
const beginMs = 60_000;
const cancelMs = 10_000;
const dockerfileName = 'Dockerfile';

const Output = z.object({ id: z.string().optional(), aux: z.unknown().optional(), error: z.string().optional() });
const Made = z.object({ ID: z.string() });

/**
 * Builds with the BuildKit of the engine. The engine asks for Dockerfile, files and secrets on a connection of its own
 * (`POST /session`), which ends with the build. Secrets are hidden in all that it writes. @throws RuntimeFailure
 */
export async function kitBuild(
  engine: Engine,
  limits: BuildLimits,
  options: KitOptions,
  line: (text: string) => void,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const tag = imageReference(options.tag);
  await using limit = await limitSteps(engine, limits.group, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    if (error instanceof RuntimeFailure) throw error;
    line('The steps run without a common limit: the agent cannot make a control group for builds on this server');
    return undefined;
  });
  const [session, build] = [randomBytes(16).toString('hex'), randomBytes(16).toString('hex')];
  const content = new Content(options);
  const upgrade = { protocol: 'h2c', headers: sessionHeaders(session, session) };
  const connection = await engine.hijack({ method: 'POST', path: ['session'], upgrade }, signal);
  const serving = serveSession(connection, content);
  const hidden = hiding(Object.values(options.secrets));
  const log = new StepLog(line, options.steps ?? (() => undefined), hidden);
  const query = {
    version: 2,
    remote: 'client-session',
    session,
    buildid: build,
    t: tag,
    dockerfile: dockerfileName,
    buildargs: JSON.stringify({ ...options.buildArgs, BUILDKIT_CACHE_MOUNT_NS: options.scope }),
    labels: JSON.stringify(options.labels),
    // The names of further hosts are part of the key of each step in the cache, and no Dockerfile can set them.
    extrahosts: `${buildHost(options.scope)}:127.0.0.1`,
  };
  try {
    const output = await engine.open({ method: 'POST', path: ['build'], query, timeoutMs: beginMs }, signal);
    let made: string | undefined;
    for await (const value of jsonLines(output)) {
      const { id, aux, error } = Output.parse(value);
      if (error !== undefined) {
        if (content.failure instanceof RuntimeFailure) throw content.failure;
        throw kitFailure(hidden.hide(error), log.failed, (await limit?.reachedMemory()) === true, options.source);
      }
      if (id === 'moby.buildkit.trace' && typeof aux === 'string') log.add(readTrace(Buffer.from(aux, 'base64')));
      if (id === 'moby.image.id') made = Made.parse(aux).ID;
    }
    log.end();
    const built = made === undefined ? undefined : await inspectImage(engine, tag, signal);
    if (built !== undefined) return built;
    throw new RuntimeFailure('build_failed', 'Build failed: the engine ended without an image', { retryable: true });
  } catch (error) {
    log.end();
    if (signal.aborted) await cancel(engine, build);
    fail(error, fallback);
  } finally {
    serving.destroy();
    connection.destroy();
  }
}

/** The closed connection cancels the build, too; this also waits until the engine knows it. */
async function cancel(engine: Engine, id: string): Promise<void> {
  const call = { method: 'POST', path: ['build', 'cancel'], query: { id } } as const;
  await engine.call(call, AbortSignal.timeout(cancelMs)).catch(() => undefined); // it ended meanwhile
}

/** What the engine may ask for in the session of one build. */
class Content implements SessionContent {
  readonly #options: KitOptions;
  /** Why the files could not be sent. */
  failure: unknown;

  constructor(options: KitOptions) {
    this.#options = options;
  }

  folder(name: string, wanted: readonly string[]): ReturnType<SessionContent['folder']> {
    const { dockerfile, context } = this.#options;
    if (name === 'dockerfile') return [fileOf(dockerfile)];
    if (name !== 'context') return undefined;
    // The agent has applied the list of what to ignore, and sends none.
    const isIgnoreFile = wanted.length > 0 && wanted.every((path) => path.endsWith('.dockerignore'));
    return isIgnoreFile ? [] : context;
  }

  secret(id: string): Uint8Array | undefined {
    const { secrets } = this.#options;
    const value = Object.hasOwn(secrets, id) ? secrets[id] : undefined;
    return value === undefined ? undefined : Buffer.from(value);
  }

  failed(error: unknown): void {
    this.failure ??= error;
  }
}

function fileOf(dockerfile: Uint8Array): ContextEntry {
  return {
    type: 'file',
    path: dockerfileName,
    modifiedAt: new Date(0),
    mode: 0o644,
    size: dockerfile.length,
    async *read() {
      yield dockerfile;
    },
  };
}
