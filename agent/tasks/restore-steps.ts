import { createWriteStream } from 'node:fs';
import { chown, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Dump, RestoreByFiles } from '../../databases/engine.ts';
import type { Clock } from '../../time/clock.ts';
import { floorBytes } from '../disk/disk-guard.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { Observer } from '../engine/observer.ts';
import type { VolumeArchiver } from '../engine/volume-archiver.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { runningIn } from './data-engine.ts';
import type { AddressSource } from './data-engine.ts';
import type { ImportSources } from '../imports/import-sources.ts';
import { endOf } from './program-end.ts';
import type { TaskItem } from './task.ts';

export interface RestoreDeps {
  runtime: Pick<ContainerRuntime, 'exec' | 'volume' | 'run'>;
  observer: Pick<Observer, 'of'>;
  archiver: Pick<VolumeArchiver, 'unpack'>;
  control: AddressSource;
  imports: ImportSources;
  disk: () => Promise<DiskSpace>;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
}

export type RestoreItem = TaskItem<'restore'>;

/** @throws RuntimeFailure if the dump would fill the disk */
export async function requireSpace({ disk }: RestoreDeps, dumpBytes: number): Promise<void> {
  const { freeBytes, totalBytes } = await disk();
  if (freeBytes - dumpBytes >= floorBytes(totalBytes)) return;
  const inMiB = (bytes: number): string => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
  const message = `The dump has ${inMiB(dumpBytes)}, and the disk of the server has only ${inMiB(freeBytes)} free: free some, and begin the restore again`;
  throw new RuntimeFailure('no_space', message, { retryable: false });
}

/** Puts the dump where the engine reads it at its first start. */
export async function asFiles(
  { runtime }: RestoreDeps,
  { spec }: RestoreItem,
  { files, owner }: RestoreByFiles,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const folder = (await runtime.volume(spec.volume, signal))?.path;
  if (folder === undefined) throw failed(`Volume ${spec.volume} is not in a folder of the server`);
  for (const { path, content } of files) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    if (dirname(file) !== folder) await chown(dirname(file), owner, owner);
    // nothing that is there is written over
    const source = content.by === 'dump' ? bytes : [Buffer.from(content.text)];
    await pipeline(
      Readable.from(source, { objectMode: false }),
      createWriteStream(file, { flags: 'wx', mode: 0o600 }),
      {
        signal,
      },
    );
    await using written = await open(file, 'r+');
    await written.chown(owner, owner);
    await written.sync();
  }
}

/** Reads all that was restored. */
export async function check(deps: RestoreDeps, { spec }: RestoreItem, dump: Dump, signal: AbortSignal): Promise<void> {
  const { exitCode, errors } = await endOf(
    deps.runtime,
    runningIn(deps.observer, spec.instance ?? ''),
    dump.check,
    signal,
  );
  if (exitCode !== 0) throw failed(`What was restored cannot be read: ${errors.trim().slice(-1000)}`);
}

export function failed(message: string): RuntimeFailure {
  return new RuntimeFailure('restore_failed', message, { retryable: false });
}
