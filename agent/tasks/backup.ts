import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { createZstdCompress } from 'node:zlib';
import type { TaskResult } from '../../agent-protocol/task-types.ts';
import type { Dump, Query } from '../../databases/engine.ts';
import { DumpFault, wholeDump } from '../../databases/whole-dump.ts';
import type { Clock } from '../../time/clock.ts';
import type { Observer } from '../engine/observer.ts';
import type { Packing, VolumeArchiver } from '../engine/volume-archiver.ts';
import type { ExecOptions } from '../runtime/exec.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { upload } from '../transfer/upload.ts';
import { answerIn, archiveOf, dumpOf, runningIn } from './data-engine.ts';
import type { AddressSource } from './data-engine.ts';
import { lastWords } from './last-words.ts';
import type { TaskItem, TaskProgress, TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

export interface BackupDeps {
  runtime: Pick<ContainerRuntime, 'exec' | 'run'>;
  observer: Pick<Observer, 'of'>;
  archiver: VolumeArchiver;
  control: AddressSource;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
}

type BackupItem = TaskItem<'backup'>;

/** Carries out one attempt of a backup. */
export type RunBackup = TaskWork<'backup'>['run'];

/**
 * Backups: the dump of a database by the engine's own program, or an archive of a volume, compressed, in parts to the bucket.
 * It succeeds only after the program ended well, the end of its format was seen, and the bucket took every part as it was sent.
 */
export function runBackup(deps: BackupDeps): RunBackup {
  return (item, progress, signal) => carryOut(deps, item, progress, signal);
}

export function backupTask(run: RunBackup, turns: Turns): TaskWork<'backup'> {
  return {
    turns,
    turnOf: ({ id }) => id,
    run,
  };
}

async function carryOut(
  deps: BackupDeps,
  { id, spec }: BackupItem,
  { at }: TaskProgress<'backup'>,
  signal: AbortSignal,
): Promise<TaskResult<'backup'>> {
  const physical = spec.method === 'physical' ? archiveOf(spec.engine ?? '') : undefined;
  const first = physical && (await asked(deps, spec.instance ?? '', physical.baseBegin, signal));
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const begun = deps.clock.monotonic();
  const rate = (bytes: number): number => Math.round((bytes * 1000) / Math.max(deps.clock.monotonic() - begun, 1));
  const shown = (done: number): void => at({ step: 'sending', done, unit: 'bytes', per_second: rate(done) });
  const read =
    spec.volume === undefined
      ? new Dumping(deps, spec.instance ?? '', physical?.base ?? dumpOf(spec.engine ?? ''), shown)
      : new Archiving(deps, spec.volume, shown);
  const compressed = createZstdCompress();
  const compressing = pipeline(Readable.from(read.bytes(either), { objectMode: false }), compressed, {
    signal: either,
  });
  compressing.catch(() => undefined); // the upload finds it in what it reads
  try {
    const addresses = (parts: readonly number[], during: AbortSignal) =>
      deps.control.addresses({ about: 'upload.parts', assignment: id, parts: [...parts] }, during);
    const { clock, random } = deps;
    const { part_bytes: partBytes, ca } = spec;
    const sent = await upload(compressed, { addresses, partBytes, ca, clock, random }, either);
    await compressing;
    const { bytes, sha256, parts, etag } = sent;
    const last = physical && (await asked(deps, spec.instance ?? '', physical.baseEnd, signal));
    return {
      size_bytes: bytes,
      dump_bytes: read.count,
      checksum_sha256: sha256,
      parts,
      ...(etag !== undefined && { etag }),
      ...read.told,
      ...(first !== undefined && { first_segment: first }),
      ...(last !== undefined && { last_segment: last.segment, stopped_at: new Date(last.at).toISOString() }),
    };
  } catch (error) {
    signal.throwIfAborted();
    // what ended the reading says more than the upload that it ended
    throw read.failure ?? error;
  } finally {
    stop.abort(new Error('The backup has ended'));
    await compressing.catch(() => undefined);
    await read.ended;
  }
}

/** What one attempt sends, read as far as it is taken. */
interface Reading {
  readonly count: number;
  /** Why it is not whole. */
  readonly failure: RuntimeFailure | undefined;
  /** Resolves when its program is gone, if that was begun. */
  readonly ended: Promise<unknown>;
  /** What is to be said of it beside that it is whole. */
  readonly told: Pick<TaskResult<'backup'>, 'changed_files' | 'left_out' | 'notes'>;
  /** @throws RuntimeFailure after all of it, unless it is whole */
  bytes(signal: AbortSignal): AsyncGenerator<Uint8Array>;
}

/** The archive of a volume. */
class Archiving implements Reading {
  readonly #archiver: VolumeArchiver;
  readonly #volume: string;
  readonly #progress: (bytes: number) => void;
  #packing: Packing | undefined;
  count = 0;
  failure: RuntimeFailure | undefined;

  constructor({ archiver }: BackupDeps, volume: string, progress: (bytes: number) => void) {
    this.#archiver = archiver;
    this.#volume = volume;
    this.#progress = progress;
  }

  get ended(): Promise<unknown> {
    return this.#packing?.ended ?? Promise.resolve();
  }

  get told(): Reading['told'] {
    const { changed = 0, leftOut = 0, named = [] } = this.#packing?.notes ?? {};
    if (changed === 0 && leftOut === 0) return {};
    return { changed_files: changed, left_out: leftOut, notes: named.join('\n') };
  }

  async *bytes(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      this.#packing = await this.#archiver.pack(this.#volume, signal);
      for await (const chunk of this.#packing.bytes) {
        this.count += chunk.length;
        this.#progress(this.count);
        yield chunk;
      }
    } catch (error) {
      signal.throwIfAborted();
      this.failure = error instanceof RuntimeFailure ? error : failed('The volume could not be read', String(error));
      throw this.failure;
    }
  }
}

/** @throws RuntimeFailure with the words of the engine */
async function asked<Answer>(
  deps: BackupDeps,
  instance: string,
  query: Query<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    return await answerIn(deps, instance, query, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RuntimeFailure) throw error;
    throw failed('The place of the backup in the log of the database is not known', String(error));
  }
}

/** The dump of one attempt, read from its program as far as it is taken. */
class Dumping implements Reading {
  readonly told = {};
  readonly #deps: BackupDeps;
  readonly #instance: string;
  readonly #dump: Pick<Dump, 'command' | 'end'>;
  readonly #progress: (bytes: number) => void;
  #ended: Promise<unknown> = Promise.resolve();
  count = 0;
  /** Why the dump is not whole. */
  failure: RuntimeFailure | undefined;

  constructor(
    deps: BackupDeps,
    instance: string,
    dump: Pick<Dump, 'command' | 'end'>,
    progress: (bytes: number) => void,
  ) {
    this.#deps = deps;
    this.#instance = instance;
    this.#dump = dump;
    this.#progress = progress;
  }

  /** Resolves when the program is gone, if it was begun. */
  get ended(): Promise<unknown> {
    return this.#ended;
  }

  /** Yields the dump. @throws RuntimeFailure after all of it, unless it is whole */
  async *bytes(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const errors = lastWords();
    try {
      const [program = '', ...rest] = this.#dump.command;
      const container = runningIn(this.#deps.observer, this.#instance);
      const options = { command: [program, ...rest], errors: (data) => errors.add(data) } satisfies ExecOptions;
      const process = await this.#deps.runtime.exec(container, options, signal);
      this.#ended = process.exited;
      process.input.end();
      for await (const chunk of wholeDump(process.output, this.#dump.end)) {
        this.count += chunk.length;
        this.#progress(this.count);
        yield chunk;
      }
      const code = await process.exited;
      if (code !== 0) throw failed(`${program} ended with ${code ?? 'no known code'}`, errors.text);
    } catch (error) {
      signal.throwIfAborted();
      this.failure = this.#failureOf(error, errors.text);
      throw this.failure;
    }
  }

  #failureOf(error: unknown, errors: string): RuntimeFailure {
    if (error instanceof RuntimeFailure) return error;
    if (error instanceof DumpFault) return failed(error.message, errors);
    return failed('The dump could not be read from the database', errors === '' ? String(error) : errors);
  }
}

function failed(what: string, errors: string): RuntimeFailure {
  const words = errors.trim();
  const said = words === '' ? '' : `. It said: ${words}`;
  return new RuntimeFailure('backup_failed', `${what}${said}`, { retryable: true });
}
