import { stripVTControlCharacters } from 'node:util';
import { contextArchive, dockerfileName } from './build-context.ts';
import { buildNetwork } from './build-network.ts';
import type { BuildProgress } from './build-progress.ts';
import { buildSteps, ClassicSteps } from './build-steps.ts';
import type { ImageStore } from '../engine/image-store.ts';
import { inWords } from '../runtime/dockerfile-source.ts';
import type { ContainerRuntime, ImageInfo } from '../runtime/runtime.ts';
import { labels, RuntimeFailure, stageType } from '../runtime/runtime.ts';
import { imageLabels, judgedDockerfile, ownerOf, projectLabels, type Prepared } from './prepared-build.ts';

interface Deps {
  runtime: ContainerRuntime;
  images: ImageStore;
  server: string;
}

const removeMs = 30_000;
const keptLines = 8;
const maxTailChars = 1500;
/** Lines of the engine between the steps; they never have the reason of a failure. */
const engineNote = /^( ---> |Removing intermediate container )/;

/** Builds with the classic builder, for an engine without BuildKit. @throws RuntimeFailure */
export async function buildClassic(
  prepared: Prepared,
  platform: string | undefined,
  deps: Deps,
  { line, at }: Pick<BuildProgress, 'line' | 'at'>,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const { item, context } = prepared;
  const { spec } = item;
  if (spec.build_secrets !== undefined) {
    const message = 'The container engine of the server has no BuildKit, which build secrets need';
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
  // The same for all builds of the project: a label that differs would keep them from sharing their steps. Stages that
  // begin with the same image must differ: the cache finds only the later one of two steps that are the same.
  const labelsOf = (stage: number): string =>
    labelLine({
      ...projectLabels(prepared, deps.server),
      [labels.type]: stageType,
      [labels.stage]: String(stage),
    });
  const { text, source } = await judgedDockerfile(prepared, { labelsOf, platform }, deps.images, { line, at }, signal);
  const given = Buffer.from(`${labelLine(imageLabels(prepared, deps.server))}\n`, 'latin1');
  await using network = await ownNetwork(item.id, deps, signal);
  const options = {
    context: contextArchive({ ...context, dockerfile: Buffer.concat([text, given]) }, line, signal),
    dockerfile: dockerfileName,
    tag: spec.image,
    buildArgs: spec.build_args,
    labels: {},
    cacheFrom: await deps.images.builtFor(ownerOf(prepared), signal),
    network: network.name,
  };
  let last: string[] = [];
  const progressOf = buildSteps(at);
  const steps = new ClassicSteps(source.instructions);
  const keep = (said: string): void => {
    progressOf(said);
    const before = steps.current;
    const shown = steps.shown(said);
    if (steps.current !== before) last = [];
    if (shown === undefined) return;
    line(shown);
    const plain = stripVTControlCharacters(said);
    if (plain.trim() === '' || engineNote.test(plain) || shown !== said) return;
    last.push(plain);
    if (last.length > keptLines) last.shift();
  };
  at({ step: 'uploading' });
  try {
    return await deps.runtime.build(options, keep, signal);
  } catch (error) {
    if (!(error instanceof RuntimeFailure) || error.code !== 'build_failed') throw error;
    const step = steps.current;
    const why = step === undefined ? error.message : `Build failed: ${inWords(step)}: ${reasonOf(error.message)}`;
    const tail = last.join('\n').slice(-maxTailChars);
    const message = tail === '' ? why : `${why}\n${tail}`;
    throw new RuntimeFailure('build_failed', message, { retryable: error.retryable, cause: error });
  }
}

/** What the engine says of a step that failed, without the words of the step. */
function reasonOf(message: string): string {
  const code = /^Build failed: The command '.*' returned a non-zero code: (\d+)$/s.exec(message)?.[1];
  return code === undefined ? message.replace(/^Build failed: /, '') : `exit code: ${code}`;
}

/** Makes a network for this build alone. If a crash leaves it behind, the housekeeping removes it. */
async function ownNetwork(
  id: string,
  { runtime, server }: Deps,
  signal: AbortSignal,
): Promise<{ name: string } & AsyncDisposable> {
  const name = buildNetwork(id);
  await runtime.ensureNetwork(name, { [labels.server]: server }, signal);
  return {
    name,
    async [Symbol.asyncDispose]() {
      // If the network is in use or the engine does not answer, the housekeeping removes it later.
      await runtime.removeNetwork(name, AbortSignal.timeout(removeMs)).catch(() => undefined);
    },
  };
}

/** Makes one instruction for all labels: the engine makes a layer for each label that is not in the Dockerfile. */
function labelLine(given: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(given).map(([name, value]) => {
    if (!/^[A-Za-z0-9_.-]+$/.test(value)) throw new TypeError(`Not a plain word for label ${name}`);
    return `${name}=${value}`;
  });
  return `LABEL ${pairs.join(' ')}`;
}
