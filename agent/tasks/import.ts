import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { TaskSpec } from '../../agent-protocol/task-types.ts';
import type { DatabaseType, ImportProgram } from '../../databases/engine.ts';
import { compressionOf, endingWithLine, headBytes, recognised } from '../../databases/dump-format.ts';
import { engines } from '../../databases/engines.ts';
import { DumpFault, wholeDump } from '../../databases/whole-dump.ts';
import { diskGuard, watchDisk } from '../disk/disk-guard.ts';
import { fetchDump } from '../imports/fetch-dump.ts';
import { ImportFault } from '../imports/import-fault.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { answerIn, dumpOf, runningIn } from './data-engine.ts';
import { endOf } from './program-end.ts';
import { asFiles, check, failed, requireSpace } from './restore-steps.ts';
import type { RestoreDeps, RestoreItem } from './restore-steps.ts';
import type { TaskProgress } from './task.ts';

type Source = NonNullable<TaskSpec<'restore'>['source']>;

interface OpenedDump extends AsyncDisposable {
  /** Bytes of it, compressed as it is; absent: its host does not say. */
  size?: number;
  bytes: AsyncIterable<Uint8Array>;
}

/**
 * Imports a dump that was made elsewhere into the empty instance of a restore. It succeeds only if all of the dump came, the
 * engine refused nothing of it, and all can be read. Returns the bytes of the dump once it was decompressed.
 */
export async function importDump(
  deps: RestoreDeps,
  item: RestoreItem,
  source: Source,
  { at }: Pick<TaskProgress<'restore'>, 'at'>,
  signal: AbortSignal,
): Promise<number> {
  const watched = watchDisk(diskGuard(deps.disk), deps.clock, 'import the dump');
  const stop = new AbortController();
  const either = AbortSignal.any([signal, watched.signal, stop.signal]);
  try {
    await using dump = await opened(deps, item, source, either);
    await requireSpace(deps, dump.size ?? 0);
    const begun = deps.clock.monotonic();
    let count = 0;
    const counted = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of dump.bytes) {
        count += chunk.length;
        const per_second = Math.round((count * 1000) / Math.max(deps.clock.monotonic() - begun, 1));
        const total = dump.size === undefined ? {} : { total: dump.size };
        at({ step: 'restoring', done: count, ...total, unit: 'bytes', per_second });
        yield chunk;
      }
    };
    return await read(deps, item, source, counted(), either);
  } catch (error) {
    signal.throwIfAborted();
    watched.signal.throwIfAborted();
    if (error instanceof DumpFault) throw failed(`The dump cannot be imported: ${error.message}`);
    if (error instanceof ImportFault)
      throw error.code === 'no_space'
        ? new RuntimeFailure('no_space', error.message, { retryable: false, cause: error })
        : failed(error.message);
    throw error;
  } finally {
    stop.abort(new Error('The import has ended'));
    watched[Symbol.dispose]();
  }
}

async function opened(
  { imports, control }: RestoreDeps,
  { id }: RestoreItem,
  { by, name }: Source,
  signal: AbortSignal,
): Promise<OpenedDump> {
  if (by === 'url') {
    const [address = ''] = await control.addresses({ about: 'download', assignment: id }, signal);
    const { bytes, size } = await fetchDump(address, { allowed: imports.networks }, signal);
    return { bytes, ...(size !== undefined && { size }), [Symbol.asyncDispose]: async () => undefined };
  }
  const file = await (by === 'path' ? imports.folder.file(name) : imports.uploads.file(name));
  const { size } = await file.stat();
  return {
    size,
    bytes: file.createReadStream({ autoClose: false, signal }),
    [Symbol.asyncDispose]: async () => file.close(),
  };
}

async function read(
  deps: RestoreDeps,
  item: RestoreItem,
  { database }: Source,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<number> {
  const type = engineOf(item.spec.engine);
  const packed = await peeked(bytes, headBytes);
  const compression = compressionOf(packed.head);
  const plain = await peeked(
    compression === undefined ? packed.all : decompressed(packed.all, compression, signal),
    headBytes,
  );
  const is = recognised(plain.head, type);
  let count = 0;
  const all = (async function* () {
    for await (const chunk of endingWithLine(plain.all, is)) {
      count += chunk.length;
      yield chunk;
    }
  })();
  const dump = dumpOf(type);
  if (is.format === 'rdb') {
    if (dump.restore.by !== 'files') throw new DumpFault('It is a file, which the engine does not read');
    await asFiles(deps, item, dump.restore, wholeDump(all, dump.end), signal);
    return count;
  }
  const program = await programOf(deps, item, { type, isCustom: is.format === 'custom', database }, signal);
  await run(deps, item, program, all, signal);
  await check(deps, item, dump, signal);
  return count;
}

/** What reads the dump in the container. */
async function programOf(
  deps: RestoreDeps,
  { spec }: RestoreItem,
  { type, isCustom, database }: { type: DatabaseType; isCustom: boolean; database: string },
  signal: AbortSignal,
): Promise<ImportProgram> {
  const how = engines[type].imports;
  if (how === undefined) throw new DumpFault(`No dump goes into a database of ${type}`);
  if (isCustom) {
    if (how.custom === undefined) throw new DumpFault(`A database of ${type} has no such format`);
    return how.custom(database);
  }
  const release = how.release === undefined ? '' : await answerIn(deps, spec.instance ?? '', how.release, signal);
  return how.sql(database, { release, key: randomBytes(32).toString('hex') });
}

async function run(
  deps: RestoreDeps,
  { spec }: RestoreItem,
  program: ImportProgram,
  dump: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const container = runningIn(deps.observer, spec.instance ?? '');
  if (program.prepare !== undefined) {
    const end = await endOf(deps.runtime, container, program.prepare, signal);
    if (end.exitCode !== 0) throw failed(`The new instance could not be prepared: ${end.errors.trim()}`);
  }
  const input = (async function* () {
    if (program.before !== '') yield Buffer.from(program.before);
    yield* program.safe(dump);
    if (program.after !== '') yield Buffer.from(program.after);
  })();
  const fault = program.fault(await endOf(deps.runtime, container, program.command, signal, input));
  if (fault !== undefined) throw failed(fault);
}

function engineOf(type: string | undefined): DatabaseType {
  const found = Object.values(engines).find((it) => it.type === type);
  if (found !== undefined) return found.type;
  const message = `The agent of the server knows no databases of ${type ?? 'no type'}: upgrade the agent`;
  throw new RuntimeFailure('agent_outdated', message, { retryable: false });
}

/** The first bytes of a source, and all of it. */
async function peeked(
  source: AsyncIterable<Uint8Array>,
  bytes: number,
): Promise<{ head: Buffer; all: AsyncGenerator<Uint8Array> }> {
  const chunks = source[Symbol.asyncIterator]();
  let head = Buffer.alloc(0);
  while (head.length < bytes) {
    const { done, value } = await chunks.next();
    if (done === true) break;
    head = Buffer.concat([head, value]);
  }
  const all = (async function* () {
    yield head;
    yield* { [Symbol.asyncIterator]: () => chunks };
  })();
  return { head, all };
}

/** @throws ImportFault if the file is cut or damaged; what the source throws */
async function* decompressed(
  source: AsyncIterable<Uint8Array>,
  compression: 'gzip' | 'zstd',
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const plain = compression === 'gzip' ? createGunzip() : createZstdDecompress();
  let fault: Error | undefined;
  const noted = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* source;
    } catch (error) {
      fault = error instanceof Error ? error : new Error(String(error));
      throw error;
    }
  };
  const filling = pipeline(Readable.from(noted(), { objectMode: false }), plain, { signal });
  filling.catch(() => undefined); // whoever reads finds it
  try {
    yield* plain as AsyncIterable<Buffer>;
    await filling;
  } catch (error) {
    signal.throwIfAborted();
    if (fault !== undefined) throw fault;
    throw new DumpFault(`It is cut or damaged, as it cannot be decompressed (${compression})`, { cause: error });
  }
}
