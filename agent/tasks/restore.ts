import { pipeline } from 'node:stream/promises';
import type { Readable } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import type { TaskResult } from '../../agent-protocol/task-types.ts';
import type { RestoreByCommand } from '../../databases/engine.ts';
import { DumpFault, restoreInput, wholeDump } from '../../databases/whole-dump.ts';
import { diskGuard, watchDisk } from '../disk/disk-guard.ts';
import type { Uploads } from '../imports/uploads.ts';
import { download } from '../transfer/download.ts';
import { dumpOf, runningIn } from './data-engine.ts';
import { importDump } from './import.ts';
import { endOf } from './program-end.ts';
import { bytesOf, putBase, putLog } from './physical.ts';
import { asFiles, check, failed, requireSpace } from './restore-steps.ts';
import type { RestoreDeps, RestoreItem } from './restore-steps.ts';
import type { TaskProgress, TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

/** Carries out one attempt of a restore. */
export type RunRestore = TaskWork<'restore'>['run'];

/**
 * Restores: from the bucket into an empty volume, by the engine's own program, as files before the engine starts, or as the
 * files that a volume had. It succeeds only if the object and the dump in it were whole, nothing of it was refused, and all can be read.
 */
export function runRestore(deps: RestoreDeps): RunRestore {
  return (item, progress, signal) => carryOut(deps, item, progress, signal);
}

/** Restores as tasks. What was sent for one is removed once it is not read again. */
export function restoreTask(
  { run, uploads }: { run: RunRestore; uploads: Pick<Uploads, 'remove'> },
  turns: Turns,
): TaskWork<'restore'> {
  return {
    turns,
    turnOf: ({ id }) => id,
    async recorded({ spec: { source } }) {
      if (source?.by === 'upload') await uploads.remove(source.name);
    },
    run,
  };
}

async function carryOut(
  deps: RestoreDeps,
  item: RestoreItem,
  { at }: TaskProgress<'restore'>,
  signal: AbortSignal,
): Promise<TaskResult<'restore'>> {
  const { spec } = item;
  if (spec.source !== undefined) return { dump_bytes: await importDump(deps, item, spec.source, { at }, signal) };
  await requireSpace(deps, spec.dump_bytes + (spec.log === undefined ? 0 : bytesOf(spec.log)));
  const begun = deps.clock.monotonic();
  let count = 0;
  const counted = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      count += chunk.length;
      const per_second = Math.round((count * 1000) / Math.max(deps.clock.monotonic() - begun, 1));
      at({ step: 'restoring', done: count, total: spec.dump_bytes, unit: 'bytes', per_second });
      yield chunk;
    }
  };
  const stop = new AbortController();
  // as files it may take more than as a dump, and others write as well
  using watched = watchDisk(diskGuard(deps.disk), deps.clock, 'go on with the restore');
  const either = AbortSignal.any([signal, watched.signal, stop.signal]);
  const plain = createZstdDecompress();
  const fetching = pipeline(objectOf(deps, item, either), plain, { signal: either });
  fetching.catch(() => undefined); // whoever reads what it decompresses finds it
  try {
    if (spec.log !== undefined) {
      await putBase(deps, item, spec.log, counted(plain), either);
      await fetching;
      await putLog(deps, item, spec.log, at, either);
    } else if (spec.format === 'tar') {
      await deps.archiver.unpack(spec.volume, counted(plain), either);
      await fetching;
    } else await asDump(deps, item, counted(plain), fetching, either);
    return { dump_bytes: count };
  } catch (error) {
    signal.throwIfAborted();
    watched.signal.throwIfAborted();
    if (error instanceof DumpFault) throw failed(`What the bucket has is no whole dump: ${error.message}`);
    throw error;
  } finally {
    stop.abort(new Error('The restore has ended'));
    await fetching.catch(() => undefined);
  }
}

/** Restores a dump, once the object that it is read from was whole, and reads what was restored. */
async function asDump(
  deps: RestoreDeps,
  item: RestoreItem,
  bytes: AsyncIterable<Uint8Array>,
  fetching: Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const dump = dumpOf(item.spec.engine ?? '');
  if (dump.restore.by === 'files') await asFiles(deps, item, dump.restore, wholeDump(bytes, dump.end), signal);
  else await byProgram(deps, item, dump.restore, restoreInput(bytes, dump.end, dump.restore), signal);
  await fetching;
  if (dump.restore.by === 'command') await check(deps, item, dump, signal);
}

function objectOf({ control, clock, random }: RestoreDeps, { id, spec }: RestoreItem, signal: AbortSignal): Readable {
  const { size_bytes: bytes, checksum_sha256: sha256, ca } = spec;
  const address = async (during: AbortSignal): Promise<string> => {
    const [only = ''] = await control.addresses({ about: 'download', assignment: id }, during);
    return only;
  };
  return download({ address, ca, bytes, sha256, clock, random }, signal);
}

/** Gives the dump to the program of the engine. @throws RuntimeFailure with the words of the program */
async function byProgram(
  deps: RestoreDeps,
  { spec }: RestoreItem,
  how: RestoreByCommand,
  input: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const container = runningIn(deps.observer, spec.instance ?? '');
  if (how.prepare !== undefined) {
    const end = await endOf(deps.runtime, container, how.prepare, signal);
    if (end.exitCode !== 0) throw failed(`The new instance could not be prepared: ${end.errors.trim()}`);
  }
  const end = await endOf(deps.runtime, container, how.command, signal, input);
  const fault = how.fault(end);
  if (fault !== undefined) throw failed(fault);
}
