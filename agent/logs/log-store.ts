import { access, constants, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { z } from 'zod';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { Clock } from '../../time/clock.ts';
import { retentionClock } from '../../agent-protocol/retention-clock.ts';
import { agentSource } from '../../agent-protocol/logs.ts';
import type {
  LogChunk,
  LogFollow,
  LogPage,
  LogQuery,
  LogStorage,
  LogsToKeep,
  ServerLogPage,
  ServerLogQuery,
} from '../../agent-protocol/logs.ts';
import { writeAtomically } from '../disk/atomic-file.ts';
import { Arrivals } from './arrivals.ts';
import { KeptLogs } from './kept-logs.ts';
import { followLines, readPage } from './query.ts';
import type { Entry, StoredLine } from './record.ts';
import { readServerPage } from './server-query.ts';
import { WorkloadLog } from './workload-log.ts';

export interface LogStoreOptions {
  folder: string;
  /** Most bytes of all segments together. Beyond it the oldest segments of the largest workload are removed. */
  maxBytes: number;
  segmentBytes: number;
  /** Until {@link LogStore.retain} was called once; its value is kept on disk. */
  retentionDays: number;
  /** Most bytes of the lines that stay whatever their age, of all workloads together; a quarter of all by default. */
  keptBytes?: number;
  /** Bytes of all segments together that a full disk leaves; 64 MiB by default. */
  leastBytes?: number;
  clock: Clock;
  log: Logger;
}

const dayMs = 86_400_000;
/** A folder without a write for this time is removed, and with it the number of its last line. */
const forgottenDays = 400;
const workloadId = /^[0-9A-Za-z-]{1,64}$/;
/** Beside the folders of workloads, none of which can have this name. */
const retentionFile = 'retention.json';
const Retention = z.object({ days: z.number().positive() });
/** Most workloads that are listed one by one. */
const listedMost = 5000;
/** A full disk removes no more lines once the logs take no more than this: something else fills it. */
const leastBytes = 64 * 1024 * 1024;
/** Longer than the longest stored line. */
const firstBlockBytes = 32 * 1024;

/** Share of all bytes for lines that stay whatever their age. */
const keptShare = 1 / 4;
/**
 * A log of a workload that is not in the list of the control plane stays until nothing was written for this time: a
 * replica that is behind may not know a new workload yet.
 */
const absentMs = 3_600_000;

/**
 * The logs of all workloads of this server. Lines are removed by retention, not together with their containers; those
 * about the making of images stay as long as {@link KeptLogs} says.
 */
export class LogStore {
  readonly #options: LogStoreOptions;
  readonly #logs: Map<string, WorkloadLog>;
  readonly #keptLogs: KeptLogs;
  /** How many readers follow a workload. */
  readonly #followers = new Map<string, number>();
  readonly #opening = new Map<string, Promise<WorkloadLog>>();
  #retentionDays: number;
  /** The retention that this process wrote to the disk. */
  #keptDays: number | undefined;
  #keeping: Promise<void> = Promise.resolve();
  #time: () => number;
  #pruning: Promise<void> = Promise.resolve();
  #reading: Promise<unknown> = Promise.resolve();
  #makingRoom: Promise<unknown> = Promise.resolve();
  readonly #arrivals: Arrivals;
  #closed = false;

  private constructor(options: LogStoreOptions, kept: KeptLogs) {
    this.#options = options;
    this.#keptLogs = kept;
    this.#retentionDays = options.retentionDays;
    this.#logs = new Map();
    this.#arrivals = new Arrivals(options.clock);
    this.#time = () => options.clock.now().getTime();
  }

  static async open(options: LogStoreOptions): Promise<LogStore> {
    await mkdir(options.folder, { recursive: true, mode: 0o700 });
    const store = new LogStore(options, await KeptLogs.open(options.folder));
    store.#retentionDays = (await keptRetention(options.folder)) ?? options.retentionDays;
    const names = (await readdir(options.folder)).filter((name) => workloadId.test(name));
    for (const name of names) await store.#of(name);
    const written = [...store.#logs.values()].flatMap(({ segments }) => segments.map(({ writtenAt }) => writtenAt));
    const newest = written.reduce<number | undefined>((most, at) => Math.max(most ?? at, at), undefined);
    store.#time = retentionClock(options.clock, newest);
    await store.prune();
    return store;
  }

  /** Appends lines of one workload in order. Resolves when more lines can be appended without being dropped. */
  async append(workload: string, entries: readonly Entry[], signal: AbortSignal): Promise<void> {
    if (entries.length === 0) return;
    const log = this.#logs.get(workload) ?? (await this.#of(workload));
    log.append(entries);
    await log.drained(signal);
  }

  /** Resolves when everything that was appended is on disk or was dropped. */
  async flushed(workload: string): Promise<void> {
    await this.#logs.get(workload)?.flushed();
  }

  async read(query: LogQuery, signal: AbortSignal): Promise<LogPage> {
    const log = this.#logs.get(query.workload_id);
    if (log === undefined) return { lines: [], truncated: false };
    return readPage(log, query, signal);
  }

  /** Reads lines of all workloads, or of some; see {@link ServerLogQuery}. One read runs at a time. */
  readServer(query: ServerLogQuery, signal: AbortSignal): Promise<ServerLogPage> {
    const page = this.#reading.then(async () => {
      signal.throwIfAborted();
      const { workload_ids: ids } = query;
      const wanted = ids === undefined ? undefined : new Set(ids);
      const logs = [...this.#logs].filter(([id]) => wanted?.has(id) !== false);
      // A line that arrives from now on is after the cut, so that no line comes in before one that was read.
      const cut = this.#arrivals.cut();
      await Promise.all(logs.map(([, log]) => log.written()));
      return readServerPage(logs, query, cut, signal);
    });
    this.#reading = page.catch(() => undefined);
    return page;
  }

  /** See {@link followLines}. Also follows a workload that has not written yet. */
  async *follow(follow: LogFollow, ended: () => boolean, signal: AbortSignal): AsyncGenerator<LogChunk> {
    const id = follow.workload_id;
    const log = await this.#of(id);
    this.#followers.set(id, (this.#followers.get(id) ?? 0) + 1);
    try {
      yield* followLines(log, follow, ended, signal);
    } finally {
      const left = (this.#followers.get(id) ?? 1) - 1;
      if (left === 0) this.#followers.delete(id);
      else this.#followers.set(id, left);
    }
  }

  /** Wakes the readers of that workload, so that they check again whether it ended. */
  nudge(workload: string): void {
    this.#logs.get(workload)?.nudge();
  }

  /** Returns the last lines of stdout and stderr of one instance, oldest first. */
  async lastOutput(workload: string, instance: string, count: number): Promise<StoredLine[]> {
    const log = this.#logs.get(workload);
    if (log === undefined) return [];
    await log.flushed();
    const found: StoredLine[] = [];
    for await (const block of log.backward(() => true)) {
      for (const line of block.toReversed()) {
        if (line.instance !== instance || (line.stream !== 'stdout' && line.stream !== 'stderr')) continue;
        found.push(line);
        if (found.length === count) return found.toReversed();
      }
    }
    return found.toReversed();
  }

  /** Bytes of all segments, and how many there may be. */
  get size(): { bytes: number; maxBytes: number } {
    return { bytes: this.#bytes(), maxBytes: this.#options.maxBytes };
  }

  /** @throws Error of the file system if lines cannot be stored */
  async probe(): Promise<void> {
    await access(this.#options.folder, constants.W_OK | constants.X_OK);
  }

  async storage(): Promise<LogStorage> {
    const all = [...this.#logs].map(async ([id, log]) => ({ id, bytes: log.bytes, lines: await log.lines() }));
    const workloads = (await Promise.all(all)).filter((it) => it.lines > 0).toSorted((a, b) => b.bytes - a.bytes);
    let oldest = Infinity;
    for (const log of this.#logs.values()) oldest = Math.min(oldest, (await firstLine(log))?.at ?? Infinity);
    const unlisted = workloads.length - listedMost;
    return {
      total_bytes: workloads.reduce((sum, it) => sum + it.bytes, 0),
      retention_days: this.#retentionDays,
      max_bytes: this.#options.maxBytes,
      ...(oldest === Infinity ? {} : { oldest_at: new Date(oldest).toISOString() }),
      workloads: workloads.slice(0, listedMost),
      ...(unlisted > 0 && { unlisted }),
    };
  }

  /** Lines are kept so long from now on, also after a restart. @throws Error if that cannot be written to the disk */
  async retain(days: number): Promise<void> {
    if (days !== this.#retentionDays) {
      this.#retentionDays = days;
      await this.prune();
    }
    // one after another: the welcome and the settings may come at once
    const done = this.#keeping.then(() => this.#keep(days));
    this.#keeping = done.catch(() => undefined);
    await done;
  }

  async #keep(days: number): Promise<void> {
    if (days === this.#keptDays) return;
    await writeAtomically(join(this.#options.folder, retentionFile), JSON.stringify({ days }));
    this.#keptDays = days;
  }

  /** Applies the limits of age and size. */
  prune(): Promise<void> {
    const done = this.#pruning.then(() => this.#prune());
    this.#pruning = done.catch(() => undefined);
    return done;
  }

  /**
   * Takes what the control plane wants to be kept, and removes the lines that need not be kept any more. {@link forget}
   * removes the logs of workloads that are gone. @throws Error if that cannot be written to the disk
   */
  async keep(keep: LogsToKeep): Promise<void> {
    const changed = await this.#keptLogs.learn(keep);
    const done = this.#pruning.then(async () => {
      for (const id of changed) await this.#logs.get(id)?.trimKept();
    });
    this.#pruning = done.catch(() => undefined);
    await done;
  }

  /**
   * Removes the logs of workloads that are not in `wanted` and have no line left, or are gone. One that is followed stays
   * until its workload was deleted: its lines may be to come.
   */
  async forget(wanted: ReadonlySet<string>): Promise<void> {
    const done = this.#pruning.then(async () => {
      for (const [id, log] of this.#logs)
        if (!wanted.has(id) && id !== agentSource && this.#isForgettable(id, log)) await this.#forget(id, log);
    });
    this.#pruning = done.catch(() => undefined);
    await done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#pruning;
    await Promise.allSettled(this.#opening.values());
    for (const log of this.#logs.values()) await log[Symbol.asyncDispose]();
  }

  async #prune(): Promise<void> {
    const now = this.#time();
    for (const [id, log] of this.#logs) {
      for (let oldest = log.segments[0]; oldest !== undefined; [oldest] = log.segments) {
        if (now - oldest.writtenAt < this.#retentionDays * dayMs || (await log.dropOldest()) === undefined) break;
      }
      const [only] = log.segments;
      if (only?.bytes === 0 && log.keptBytes === 0 && now - only.writtenAt > forgottenDays * dayMs)
        await this.#forget(id, log);
    }
    const { maxBytes, keptBytes = maxBytes * keptShare } = this.#options;
    for (;;) {
      const all = [...this.#logs.values()];
      const ofKept = total(all, (log) => log.keptBytes);
      const isOverKept = ofKept > keptBytes;
      if (!isOverKept && this.#bytes() <= maxBytes) return;
      const largest = isOverKept ? most(all, (log) => log.keptBytes) : most(all, (log) => log.bytes - log.keptBytes);
      if ((await (isOverKept ? largest?.dropKept() : largest?.dropOldest())) === undefined) return;
    }
  }

  #isForgettable(id: string, log: WorkloadLog): boolean {
    if (this.#followers.has(id)) return this.#keptLogs.stateOf(id) === 'named';
    return log.bytes === 0 || this.#isGone(id, log);
  }

  /** Whether the workload was deleted. */
  #isGone(id: string, log: WorkloadLog): boolean {
    const state = this.#keptLogs.stateOf(id);
    if (state !== 'absent') return state === 'named';
    return this.#options.clock.now().getTime() - (log.segments.at(-1)?.writtenAt ?? 0) > absentMs;
  }

  /** Removes the oldest segment of all as the disk is full. Resolves with whether that gave room. Never rejects. */
  #makeRoom(): Promise<boolean> {
    const done = this.#makingRoom.then(async () => {
      if (this.#bytes() <= (this.#options.leastBytes ?? leastBytes)) return false;
      const all = [...this.#logs.values()];
      // Lines that are to stay go last.
      const freed = (await freedOf(all, 'segments')) || (await freedOf(all, 'kept'));
      if (freed > 0) this.#options.log.warn({ bytes: freed }, 'The disk is full: the oldest lines were removed');
      return freed > 0;
    });
    this.#makingRoom = done.catch(() => undefined);
    return done.catch((error: unknown) => {
      this.#options.log.error({ err: error }, 'The disk is full, and the oldest lines cannot be removed');
      return false;
    });
  }

  async #forget(id: string, log: WorkloadLog): Promise<void> {
    this.#logs.delete(id);
    this.#keptLogs.removed(id);
    await log[Symbol.asyncDispose]();
    await rm(join(this.#options.folder, id), { recursive: true, force: true });
  }

  #bytes(): number {
    return total([...this.#logs.values()], (log) => log.bytes);
  }

  #of(workload: string): Promise<WorkloadLog> {
    const known = this.#logs.get(workload);
    if (known !== undefined) return Promise.resolve(known);
    const already = this.#opening.get(workload);
    if (already !== undefined) return already;
    const opening = this.#open(workload).finally(() => this.#opening.delete(workload));
    this.#opening.set(workload, opening);
    return opening;
  }

  async #open(workload: string): Promise<WorkloadLog> {
    // The id becomes the name of a folder.
    if (!workloadId.test(workload)) throw new CallError('malformed', `Invalid workload id: ${workload.slice(0, 64)}`);
    if (this.#closed) throw new Error('The log store is closed');
    const { folder, segmentBytes, clock, log } = this.#options;
    const opened = await WorkloadLog.open({
      folder: join(folder, workload),
      segmentBytes,
      clock,
      log,
      arrivals: this.#arrivals,
      keeps: () => (this.#keptLogs.keepsOf(workload) ? (line) => this.#keptLogs.keeps(workload, line) : undefined),
      makeRoom: () => this.#makeRoom(),
      rotated: () =>
        void this.prune().catch((error: unknown) =>
          log.error({ err: error }, 'Cannot remove old logs: the disk may fill up'),
        ),
    });
    this.#logs.set(workload, opened);
    return opened;
  }
}

/** The retention of the process before; `undefined` if there is none, or if it cannot be read. */
async function keptRetention(folder: string): Promise<number | undefined> {
  try {
    return Retention.parse(JSON.parse(await readFile(join(folder, retentionFile), 'utf8'))).days;
  } catch {
    return undefined;
  }
}

async function firstLine(log: WorkloadLog): Promise<StoredLine | undefined> {
  const { lines } = await log.forward(log.beginning, firstBlockBytes);
  return lines[0];
}

/** Removes the oldest segments, or files of kept lines, until that gave room. Resolves with the number of bytes freed. */
async function freedOf(logs: readonly WorkloadLog[], what: 'segments' | 'kept'): Promise<number> {
  for (;;) {
    const age = (log: WorkloadLog): number => log[what][0]?.writtenAt ?? Infinity;
    const bytesOf = (log: WorkloadLog): number => (what === 'kept' ? log.keptBytes : log.bytes - log.keptBytes);
    const [oldest] = logs.filter((log) => bytesOf(log) > 0).toSorted((a, b) => age(a) - age(b));
    const freed = await (what === 'kept' ? oldest?.dropKept() : oldest?.dropOldest());
    if (freed === undefined || freed > 0) return freed ?? 0;
  }
}

function total(logs: readonly WorkloadLog[], bytesOf: (log: WorkloadLog) => number): number {
  return logs.reduce((sum, log) => sum + bytesOf(log), 0);
}

function most(logs: readonly WorkloadLog[], bytesOf: (log: WorkloadLog) => number): WorkloadLog | undefined {
  return logs.reduce<WorkloadLog | undefined>(
    (found, log) => (bytesOf(log) > (found === undefined ? 0 : bytesOf(found)) ? log : found),
    undefined,
  );
}
