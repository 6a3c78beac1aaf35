import { z } from 'zod';
import { RuntimeFailure, type BuildOptions, type ImageInfo } from '../runtime.ts';
import { imageReference } from '../image-reference.ts';
import { buildCgroup, type BuildGroup } from './build-cgroup.ts';
import type { Engine } from './engine.ts';
import { fail, failureOf, type Fallback } from './failure.ts';
import { inspectImage } from './images.ts';
import { jsonLines } from './json-lines.ts';

/** Limits of each container that a build runs in, and of all of them together. */
export interface BuildLimits {
  group: BuildGroup;
  memoryBytes: number;
  /** Weight against the 1024 of a running workload. */
  cpuShares: number;
}

/** Deadline for the upload of the context: the engine answers with the first line only after it has read it. */
const uploadMs = 600_000;
/** A longer line is passed on in pieces of this length. */
const maxLineChars = 16_384;

const Progress = z.object({
  stream: z.string().optional(),
  status: z.string().optional(),
  id: z.string().optional(),
  error: z.string().optional(),
});

/** An id of no image. If the cache list is empty, the engine uses steps of every image that it has. */
const noImage = `sha256:${'0'.repeat(64)}`;

const fallback: Fallback = { code: 'build_failed', attempted: 'Build failed', codes: ['no_space'] };

/** Builds with the engine's classic builder, which all supported engines have. @throws RuntimeFailure */
export async function build(
  engine: Engine,
  limits: BuildLimits,
  options: BuildOptions,
  line: (text: string) => void,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const tag = imageReference(options.tag);
  const cgroupparent = await buildCgroup(engine, limits.group, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    if (error instanceof RuntimeFailure) throw error;
    line('The steps run without a common limit: the agent cannot make a control group for builds on this server');
    return undefined;
  });
  const query = {
    t: tag,
    dockerfile: options.dockerfile,
    buildargs: JSON.stringify(options.buildArgs),
    labels: JSON.stringify(options.labels),
    // The classic builder: the agent knows how it reads a Dockerfile.
    version: 1,
    cachefrom: JSON.stringify([noImage, ...(options.cacheFrom ?? [])]),
    networkmode: options.network,
    cgroupparent,
    rm: true,
    forcerm: true,
    memory: limits.memoryBytes,
    memswap: limits.memoryBytes,
    cpushares: limits.cpuShares,
  };
  const upload = watched(options.context);
  const call = { method: 'POST', path: ['build'], query, body: upload.bytes, timeoutMs: uploadMs } as const;
  try {
    const output = lines(line);
    for await (const value of jsonLines(await engine.open(call, signal))) {
      const { stream, status, id, error } = Progress.parse(value);
      if (error !== undefined) throw failureOf(error, false, fallback);
      if (stream !== undefined) output.write(stream);
      else if (status !== undefined && isMilestone(status))
        output.write(`${id === undefined ? '' : `${id}: `}${status}\n`);
    }
    output.end();
  } catch (error) {
    // A failed upload shows only as a lost connection, so that its own error comes first.
    fail(upload.failure() ?? error, fallback);
  }
  const built = await inspectImage(engine, tag, signal);
  if (built) return built;
  throw new RuntimeFailure('build_failed', 'Build failed: the engine ended without an image', { retryable: true });
}

/** Passes the bytes on and remembers the error that ended them early. */
function watched(source: AsyncIterable<Uint8Array>): { bytes: AsyncIterable<Uint8Array>; failure: () => unknown } {
  let failure: unknown;
  const read = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* source;
    } catch (error) {
      failure = error;
      throw error;
    }
  };
  return { bytes: read(), failure: () => failure };
}

/** True for a status to show: those for the progress of downloads come many times a second and are left out. */
function isMilestone(status: string): boolean {
  return !['Downloading', 'Extracting', 'Waiting', 'Verifying Checksum', 'Pulling fs layer', 'Preparing'].includes(
    status,
  );
}

/** Joins pieces of text into lines. */
function lines(line: (text: string) => void): { write(text: string): void; end(): void } {
  let rest = '';
  const flush = (text: string): void => {
    for (let at = 0; at < text.length; at += maxLineChars) line(text.slice(at, at + maxLineChars));
  };
  return {
    write(text) {
      const parts = (rest + text).split('\n');
      rest = parts.pop() ?? '';
      for (const part of parts) flush(part.replace(/\r$/, ''));
      if (rest.length <= maxLineChars) return;
      flush(rest);
      rest = '';
    },
    end: () => flush(rest),
  };
}
