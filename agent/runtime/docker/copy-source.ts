import { dirname } from 'node:path';
import PQueue from 'p-queue';
import { z } from 'zod';
import { copyRefusals } from '../copy-refusals.ts';
import { isVolumeOfAgent } from '../foreign.ts';
import type { CopySource } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import { State, Texts, Time } from './inspection.ts';

/** Containers that are inspected at once. */
const atOnce = 4;

/** What the engine takes as the name of a volume of its own driver. */
const isVolumeName = /^[a-zA-Z0-9][\w.-]*$/;

const Labels = z
  .record(z.string(), z.string())
  .nullish()
  .transform((labels) => labels ?? {});
const Volume = z.object({
  Name: z.string(),
  Driver: z.string(),
  Labels,
  Mountpoint: z.string(),
  Options: z
    .record(z.string(), z.unknown())
    .nullish()
    .transform((options) => Object.keys(options ?? {})),
});
const Mount = z.object({ Type: z.string(), Name: z.string().nullish(), Source: z.string().nullish(), RW: z.boolean() });
const Listed = z.array(
  z.object({
    Id: z.string(),
    Mounts: z
      .array(Mount)
      .nullish()
      .transform((mounts) => mounts ?? []),
    Names: Texts,
  }),
);
const Inspected = z.object({ Id: z.string(), Name: z.string(), State: z.object({ Status: State, StartedAt: Time }) });

/** See `ContainerRuntime.copySource`. */
export async function copySource(engine: Engine, name: string, signal: AbortSignal): Promise<CopySource | undefined> {
  if (!isVolumeName.test(name)) return undefined; // it would be another path of the engine
  const volume = await optional(engine.call({ method: 'GET', path: ['volumes', name] }, signal));
  if (volume === undefined) return undefined;
  const { Driver: driver, Labels: labels, Options: options, Mountpoint: path } = Volume.parse(volume);
  const refusal = refusalOf(name, { driver, labels, options });
  if (refusal !== undefined) return { refusal, writers: [] };
  const all = await engine.call({ method: 'GET', path: ['containers', 'json'], query: { all: true } }, signal);
  const users = Listed.parse(all).filter(({ Mounts }) => Mounts.some((mount) => writes(mount, name, path)));
  const queue = new PQueue({ concurrency: atOnce });
  const writers = await queue.addAll(
    users.map(
      ({ Id }) =>
        () =>
          writerOf(engine, Id, signal),
    ),
  );
  return { writers: writers.filter((one) => one !== undefined) };
}

function refusalOf(
  name: string,
  volume: { driver: string; labels: Readonly<Record<string, string>>; options: readonly string[] },
): string | undefined {
  const hasLabel = Object.keys(volume.labels).some((label) => label.startsWith('setpoint.'));
  if (hasLabel || isVolumeOfAgent(name, volume.labels)) return copyRefusals.ofAgent;
  if (volume.driver !== 'local') return copyRefusals.driver(volume.driver);
  // a limit of its size leaves it in a folder of the engine
  return volume.options.some((option) => option !== 'size') ? copyRefusals.options : undefined;
}

/** Whether a mount is the volume, or its folder under another name, and can be written to. */
function writes({ Type, Name, Source, RW }: z.infer<typeof Mount>, volume: string, path: string): boolean {
  if (!RW) return false;
  if (Type === 'volume') return Name === volume;
  if (Type !== 'bind' || Source === null || Source === undefined) return false;
  return Source === path || Source === dirname(path) || Source.startsWith(`${path}/`);
}

async function writerOf(
  engine: Engine,
  id: string,
  signal: AbortSignal,
): Promise<CopySource['writers'][number] | undefined> {
  const found = await optional(engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal));
  if (found === undefined) return undefined;
  const { Name, State: state } = Inspected.parse(found);
  const isLive = ['running', 'paused', 'restarting'].includes(state.Status);
  return { id, name: Name.replace(/^\//, ''), isLive, startedAt: state.StartedAt };
}

/** The answer; `undefined` for what is not there. */
async function optional(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}
