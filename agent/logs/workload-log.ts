import type { FileHandle } from 'node:fs/promises';
import { open, rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import { syncDirectory, writeAtomically } from '../disk/atomic-file.ts';
import type { Arrivals } from './arrivals.ts';
import type { Entry, StoredLine } from './record.ts';
import { encodeLine } from './record.ts';
import type { KeptSegment, Segment } from './segments.ts';
import {
  blockBytes,
  keptPath,
  linesOf,
  offsetAfter,
  openKept,
  openSegments,
  readExactly,
  segmentPath,
} from './segments.ts';

/** Position of a reader: before the line at `offset` (bytes) of the segment that begins with line `first`. */
export interface Cursor {
  first: number;
  offset: number;
  /** Present in a file of kept lines. */
  version?: number;
  /** Number of the last line before it, if that is known. */
  seq?: number;
}

export interface WorkloadLogOptions {
  folder: string;
  segmentBytes: number;
  clock: Clock;
  log: Logger;
  arrivals: Arrivals;
  /** Whether the line stays when its segment is removed; `undefined`: none does. */
  keeps: () => ((line: StoredLine) => boolean) | undefined;
  /** A segment was completed. */
  rotated: () => void;
  /** The disk is full: removes the oldest lines of any workload. Resolves with whether that gave room. */
  makeRoom: () => Promise<boolean>;
}

const pendingBytesMost = 8 * 1024 * 1024;
/** Callers that can wait should wait while more is pending; see `drained`. */
const pendingBytesMuch = 1024 * 1024;
const retryMs = 1_000;
const entryOverhead = 80;
/** A file without a write for this time is closed: there may be thousands of logs. */
const idleMs = 10_000;
const batchBytesMost = 1024 * 1024;
/** Longer than the longest stored line. */
const firstBytes = 32 * 1024;

/**
 * The lines of one workload on disk, numbered without gaps. Appending never waits: lines that cannot be written in time
 * are dropped, and one line with their count takes their place. A crash of the process loses no written line; a power
 * cut may lose the last ones. A line that is half written is cut off.
 */
export class WorkloadLog {
  readonly #options: WorkloadLogOptions;
  readonly #segments: Segment[];
  /** Lines of removed segments; all are before the first segment. */
  readonly #kept: KeptSegment[];
  readonly #batchBytes: number;
  #file: FileHandle | undefined;
  #cancelIdle: () => void = () => undefined;
  #next: number;
  #lastArrived: number;
  #removedArrived: number | undefined;
  #pending: Entry[] = [];
  #pendingBytes = 0;
  /** Lines that were to be written since the log was opened, and those of them that were written or dropped. */
  #counts = { appended: 0, settled: 0 };
  #dropped = 0;
  #flushing: Promise<void> | undefined;
  #written = Promise.withResolvers<void>();
  #last: Promise<unknown> = Promise.resolve();
  readonly #closing = new AbortController();

  private constructor(
    options: WorkloadLogOptions,
    { segments, next, last }: Awaited<ReturnType<typeof openSegments>>,
    kept: KeptSegment[],
  ) {
    this.#options = options;
    this.#segments = segments;
    this.#kept = kept;
    this.#next = next;
    this.#lastArrived = last?.arrived ?? 0;
    options.arrivals.seen(this.#lastArrived);
    this.#batchBytes = Math.min(batchBytesMost, options.segmentBytes);
  }

  static async open(options: WorkloadLogOptions): Promise<WorkloadLog> {
    const opened = await openSegments(options.folder);
    const kept = await openKept(options.folder, opened.segments[0]?.first ?? opened.next);
    return new WorkloadLog(options, opened, kept);
  }

  /** Number of the oldest line that is still there; if there is none, number of the next line. */
  get firstSeq(): number {
    return this.#segments[0]?.first ?? this.#next;
  }

  /** Number of the last line on disk; one less than that of the next line. */
  get lastSeq(): number {
    return this.#next - 1;
  }

  /** When the last line arrived, also if it was removed; 0 if that is not known. See {@link StoredLine.arrived}. */
  get lastArrived(): number {
    return this.#lastArrived;
  }

  /** Of the segments and of the lines that were kept of removed ones. */
  get bytes(): number {
    return sum(this.#segments) + sum(this.#kept);
  }

  /** Of the lines that were kept of removed segments. */
  get keptBytes(): number {
    return sum(this.#kept);
  }

  /** Whether lines about the making of images stay when their segment is removed. */
  get keepsLines(): boolean {
    return this.#options.keeps() !== undefined;
  }

  /** Oldest first. */
  get segments(): readonly Readonly<Segment>[] {
    return this.#segments;
  }

  /** The files of lines that were kept of removed segments, oldest first. */
  get kept(): readonly Readonly<KeptSegment>[] {
    return this.#kept;
  }

  /** Before the oldest line that is there. */
  get beginning(): Cursor {
    return cursorIn(this.#kept[0] ?? this.#segments[0] ?? { first: this.#next }, 0);
  }

  /** How many lines are there. */
  async lines(): Promise<number> {
    let count = this.lastSeq - this.firstSeq + 1;
    for (const kept of this.#kept.slice()) count += kept.lines ??= (await this.#linesOf(kept)).length;
    return count;
  }

  /** Whether it was disposed: no line comes any more. */
  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  append(entries: readonly Entry[]): void {
    for (const entry of entries) {
      if (this.#pendingBytes > pendingBytesMost) {
        this.#dropped += 1;
        continue;
      }
      this.#pending.push(entry);
      this.#pendingBytes += sizeOf(entry);
      this.#counts.appended += 1;
    }
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
  }

  /** Resolves when all lines that were appended before the call are on disk or were dropped. */
  async flushed(): Promise<void> {
    const { appended } = this.#counts;
    while (this.#counts.settled < appended) await this.#written.promise;
  }

  /** Resolves when what is being written now is on disk or was refused by it. */
  async written(): Promise<void> {
    await this.#last;
  }

  /** Resolves when at most `pendingBytesMuch` bytes wait for the disk, or the signal aborts. */
  async drained(signal: AbortSignal): Promise<void> {
    while (this.#pendingBytes > pendingBytesMuch && !signal.aborted) await this.#afterWrite(signal);
  }

  /** Resolves when there may be lines after number `seq`, when the reader is woken, or when the signal aborts. */
  async reached(seq: number, signal: AbortSignal): Promise<void> {
    if (this.lastSeq <= seq && !signal.aborted) await this.#afterWrite(signal);
  }

  /** Wakes all readers and waiting callers. */
  nudge(): void {
    this.#written.resolve();
    this.#written = Promise.withResolvers();
  }

  /** Returns the position before the first remaining line after number `seq`. */
  async seek(seq: number): Promise<Cursor> {
    const all = this.#all();
    const segment = all.findLast((it) => it.first <= seq + 1) ?? all[0];
    if (segment === undefined) return { first: this.#next, offset: 0, seq };
    const offset = await this.#reading(segment, (file) => offsetAfter(file, segment.bytes, (line) => line.seq > seq));
    return { ...cursorIn(segment, offset ?? 0), seq };
  }

  /**
   * Returns the position before the first line that `isAfter` holds for: it must hold for every line after one that it
   * holds for. `lost`: such lines may have been removed.
   */
  async seekTo(
    isAfter: (line: Pick<StoredLine, 'arrived' | 'seq'>) => boolean,
  ): Promise<{ cursor: Cursor; lost: boolean }> {
    const segments = [...this.#segments];
    let low = 0;
    let high = segments.length;
    let oldest: StoredLine | undefined;
    while (low < high) {
      const middle = (low + high) >> 1;
      const segment = segments[middle];
      const line = segment && (await this.#firstOf(segment));
      if (middle === 0) oldest = line;
      if (line !== undefined && isAfter(line)) high = middle;
      else low = middle + 1;
    }
    const segment = (low === 0 ? await this.#keptBefore(isAfter) : undefined) ?? segments[Math.max(0, low - 1)];
    if (segment === undefined) return { cursor: { first: this.#next, offset: 0 }, lost: false };
    const offset = await this.#reading(segment, (file) => offsetAfter(file, segment.bytes, isAfter));
    const cursor = cursorIn(segment, offset ?? 0);
    if (this.firstSeq === 1 || (low > 0 && (segments[0]?.bytes ?? 0) > 0)) return { cursor, lost: false };
    // Earlier lines were removed, and all lines that are left are after the position.
    const arrived = this.#removedArrived ?? oldest?.arrived ?? this.#lastArrived;
    return { cursor, lost: isAfter({ arrived, seq: this.firstSeq - 1 }) };
  }

  /** Returns some lines from the cursor on, and no line at the end. */
  async forward(cursor: Cursor, block: number = blockBytes): Promise<{ lines: StoredLine[]; cursor: Cursor }> {
    for (let at = cursor; ;) {
      const all = this.#all();
      let segment = all.find((it) => it.first === at.first && versionOf(it) === at.version);
      if (segment === undefined) {
        // Of a segment that is gone some lines may have stayed.
        const { seq } = at;
        if (seq !== undefined && this.#kept.some((it) => it.first === at.first)) {
          at = await this.seek(seq);
          continue;
        }
        segment = all.find((it) => it.first > at.first || (it.first === at.first && versionOf(it) === undefined));
        if (segment === undefined) return { lines: [], cursor: at };
        at = { ...cursorIn(segment, 0), ...(seq !== undefined && { seq }) };
      }
      const { offset } = at;
      const length = Math.min(block, segment.bytes - offset);
      const known = segment;
      const read = length <= 0 ? undefined : await this.#reading(known, (file) => readExactly(file, offset, length));
      if (read !== undefined && read.length > 0) {
        const end = read.lastIndexOf(0x0a) + 1;
        const lines = linesOf(read);
        const seq = lines.at(-1)?.seq ?? at.seq;
        const next = cursorIn(known, offset + (end === 0 ? read.length : end));
        return { lines, cursor: { ...next, ...(seq !== undefined && { seq }) } };
      }
      if (length > 0 && this.#all().every((it) => it !== known)) continue;
      const present = this.#all();
      const following = present[present.findIndex((it) => it === known) + 1];
      if (following === undefined) return { lines: [], cursor: at };
      at = { ...cursorIn(following, 0), ...(at.seq !== undefined && { seq: at.seq }) };
    }
  }

  /**
   * Yields blocks of lines, the last block first; lines within a block are in order. `wanted`: which segments to read.
   */
  async *backward(
    wanted: (segment: Readonly<Segment>, following: Readonly<Segment> | undefined) => boolean,
    blockLength: number = blockBytes,
  ): AsyncGenerator<StoredLine[]> {
    const segments = [...this.#kept, ...this.#segments.map((it) => ({ ...it }))];
    for (const [index, segment] of [...segments.entries()].toReversed()) {
      if (!wanted(segment, segments[index + 1])) continue;
      let rest = Buffer.alloc(0);
      for (let end = segment.bytes; end > 0;) {
        const start = Math.max(0, end - blockLength);
        const length = end - start;
        const read = await this.#reading(segment, (file) => readExactly(file, start, length));
        if (read === undefined) return;
        const block = Buffer.concat([read, rest]);
        const cut = start === 0 ? 0 : block.indexOf(0x0a) + 1;
        rest = block.subarray(0, cut);
        end = start;
        yield linesOf(block.subarray(cut));
      }
    }
  }

  /**
   * Removes the oldest segment, even the one that is being written; its lines that are to stay go into a file of their
   * own. Resolves with the number of bytes freed, and with `undefined` if there is no line in any segment.
   */
  dropOldest(): Promise<number | undefined> {
    return this.#exclusively(async () => {
      const [oldest] = this.#segments;
      if (oldest === undefined) return undefined;
      // The name of an empty segment keeps the number of the next line.
      if (this.#segments.length === 1) {
        if (oldest.bytes === 0) return undefined;
        await this.#rotate();
      }
      const keeps = this.#options.keeps();
      const kept = keeps === undefined ? [] : await this.#linesOf(oldest, keeps);
      const following = this.#segments[1];
      this.#removedArrived = (following && (await this.#firstOf(following)))?.arrived ?? this.#lastArrived;
      const bytes = await this.#replace(oldest, kept);
      return oldest.bytes - bytes;
    });
  }

  /** Removes the kept lines that are not to stay any more. */
  trimKept(): Promise<void> {
    return this.#exclusively(async () => {
      const keeps = this.#options.keeps() ?? (() => false);
      for (const segment of this.#kept.slice()) {
        const all = await this.#linesOf(segment);
        const left = all.filter(keeps);
        if (left.length < all.length) await this.#replace(segment, left);
      }
    });
  }

  /**
   * Removes the oldest lines that were kept of a segment, but for one line of each build that says how many they were.
   * Where only such lines are left, the oldest of these go. Resolves with the number of bytes freed, and with `undefined`
   * if no lines are kept.
   */
  dropKept(): Promise<number | undefined> {
    return this.#exclusively(async () => {
      for (const segment of this.#kept) {
        const groups = Map.groupBy(await this.#linesOf(segment), ({ instance }) => instance);
        const notes = [...groups.values()].flatMap(noteOf).toSorted((a, b) => a.seq - b.seq);
        if (Buffer.byteLength(notes.map(encoded).join('')) < segment.bytes)
          return segment.bytes - (await this.#replace(segment, notes));
      }
      const [oldest] = this.#kept;
      return oldest && oldest.bytes - (await this.#replace(oldest, []));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The log is being closed'));
    await this.#flushing;
    await this.#last;
    this.#cancelIdle();
    await this.#close();
    this.nudge();
  }

  async #flush(): Promise<void> {
    while (this.#pending.length > 0 || this.#dropped > 0) {
      const entries = this.#pending.splice(0, this.#batchLength());
      const dropped = this.#dropped;
      try {
        const all = dropped === 0 ? entries : [this.#gap(dropped, entries), ...entries];
        await this.#exclusively(() => this.#write(all));
        this.#dropped -= dropped;
        this.#settle(entries);
      } catch (error) {
        if (isFull(error) && (await this.#options.makeRoom())) {
          this.#pending.unshift(...entries);
          continue;
        }
        if (dropped === 0)
          this.#options.log.error(
            { err: error, folder: this.#options.folder },
            'Cannot write the output of an instance: lines are dropped until the disk takes them',
          );
        this.#dropped += entries.length;
        this.#settle(entries);
        if (this.#closing.signal.aborted) return;
        await wait(this.#options.clock, retryMs, this.#closing.signal).catch(() => undefined);
      }
    }
  }

  /** Number of waiting entries that go into one write. */
  #batchLength(): number {
    if (this.#pendingBytes <= this.#batchBytes) return this.#pending.length;
    let bytes = 0;
    const end = this.#pending.findIndex((entry) => (bytes += sizeOf(entry)) >= this.#batchBytes);
    return end === -1 ? this.#pending.length : end + 1;
  }

  /** These entries were written or dropped, and do not wait any more. */
  #settle(entries: readonly Entry[]): void {
    for (const entry of entries) this.#pendingBytes -= sizeOf(entry);
    this.#counts.settled += entries.length;
    this.nudge();
  }

  #gap(dropped: number, entries: readonly Entry[]): Entry {
    const message = `${dropped} ${dropped === 1 ? 'line was' : 'lines were'} dropped as the disk did not take them`;
    const instance = entries[0]?.instance ?? '-';
    return { at: this.#options.clock.now().getTime(), stream: 'system', level: 'warn', instance, message };
  }

  async #write(entries: readonly Entry[]): Promise<void> {
    const segment = await this.#active();
    let text = '';
    let seq = this.#next;
    let arrived = this.#lastArrived;
    for (const entry of entries) {
      arrived = this.#options.arrivals.of(entry);
      text += encodeLine(seq++, entry, arrived);
    }
    const data = Buffer.from(text);
    try {
      for (let done = 0; done < data.length;) {
        const file = this.#file;
        if (file === undefined) throw new Error('The segment is not open');
        const { bytesWritten } = await file.write(data, done, data.length - done, segment.bytes + done);
        done += bytesWritten;
      }
    } catch (error) {
      await this.#file?.truncate(segment.bytes).catch(() => undefined);
      throw error;
    }
    segment.bytes += data.length;
    segment.writtenAt = this.#options.clock.now().getTime();
    this.#next = seq;
    this.#lastArrived = arrived;
  }

  /** Runs one change of the files at a time. */
  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #active(): Promise<Segment> {
    const newest = this.#segments.at(-1);
    if (newest === undefined || newest.bytes >= this.#options.segmentBytes) return this.#rotate();
    this.#file ??= await open(newest.path, 'r+');
    this.#closeWhenIdle();
    return newest;
  }

  #closeWhenIdle(): void {
    this.#cancelIdle();
    this.#cancelIdle = this.#options.clock.timer(idleMs, () => {
      this.#exclusively(() => this.#close()).catch((error: unknown) => {
        this.#options.log.error({ err: error, folder: this.#options.folder }, 'Cannot close the log of a workload');
      });
    });
  }

  async #close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.datasync().catch(() => undefined);
    await file?.close();
  }

  async #rotate(): Promise<Segment> {
    const path = segmentPath(this.#options.folder, this.#next);
    const file = await open(path, 'w+', 0o600);
    await syncDirectory(this.#options.folder);
    await this.#close();
    this.#file = file;
    this.#closeWhenIdle();
    const segment = { first: this.#next, path, bytes: 0, writtenAt: this.#options.clock.now().getTime() };
    this.#segments.push(segment);
    if (this.#segments.length > 1) this.#options.rotated();
    return segment;
  }

  /** Kept lines and segments, oldest first. */
  #all(): readonly (Segment | KeptSegment)[] {
    return [...this.#kept, ...this.#segments];
  }

  /** The last file of kept lines that begins before the first line that `isAfter` holds for; else the first file. */
  async #keptBefore(isAfter: (line: Pick<StoredLine, 'arrived' | 'seq'>) => boolean): Promise<KeptSegment | undefined> {
    for (const segment of this.#kept.toReversed()) {
      const first = await this.#firstOf(segment);
      if (first !== undefined && !isAfter(first)) return segment;
    }
    return this.#kept[0];
  }

  /** The lines of a segment, or those of them that `wanted` holds for. */
  async #linesOf(
    segment: Readonly<Segment>,
    wanted: (line: StoredLine) => boolean = () => true,
  ): Promise<StoredLine[]> {
    const found: StoredLine[] = [];
    await this.#reading(segment, async (file) => {
      for (let offset = 0; offset < segment.bytes;) {
        const block = await readExactly(file, offset, Math.min(blockBytes, segment.bytes - offset));
        if (block.length === 0) return;
        const end = block.lastIndexOf(0x0a) + 1;
        for (const line of linesOf(block)) if (wanted(line)) found.push(line);
        offset += end === 0 ? block.length : end;
      }
    });
    return found;
  }

  /**
   * Removes a segment, or a file of kept lines, but for these lines. Resolves with their size in bytes. On a full disk
   * they are written once the segment is gone, so that a crash in between loses them.
   */
  async #replace(segment: Segment | KeptSegment, lines: readonly StoredLine[]): Promise<number> {
    const version = (isKept(segment) ? segment.version : 0) + 1;
    const path = keptPath(this.#options.folder, segment.first, version);
    const text = lines.map(encoded).join('');
    const bytes = Buffer.byteLength(text);
    const { first, writtenAt } = segment;
    const replaced = lines.length === 0 ? [] : [{ first, path, bytes, writtenAt, version, lines: lines.length }];
    try {
      if (lines.length > 0) await writeAtomically(path, text);
    } catch (error) {
      if (!isFull(error)) throw error;
      await rm(segment.path, { force: true });
      await writeAtomically(path, text);
    }
    if (isKept(segment)) this.#kept.splice(this.#kept.indexOf(segment), 1, ...replaced);
    else {
      this.#segments.splice(this.#segments.indexOf(segment), 1);
      this.#kept.push(...replaced);
    }
    await rm(segment.path, { force: true });
    return bytes;
  }

  async #firstOf(segment: Readonly<Segment>): Promise<StoredLine | undefined> {
    const length = Math.min(firstBytes, segment.bytes);
    const block = await this.#reading(segment, (file) => readExactly(file, 0, length));
    return block && linesOf(block)[0];
  }

  /** Resolves with `undefined` if retention removed the segment meanwhile. */
  async #reading<T>(segment: Readonly<Segment>, read: (file: FileHandle) => Promise<T>): Promise<T | undefined> {
    try {
      await using file = await open(segment.path, 'r');
      return await read(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // errors of open have a code
      throw error;
    }
  }

  async #afterWrite(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<void>();
    const abort = (): void => aborted.resolve();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    await Promise.race([this.#written.promise, aborted.promise]);
    signal.removeEventListener('abort', abort);
  }
}

function isFull(error: unknown): boolean {
  const { code, cause } = error as NodeJS.ErrnoException; // errors of files have a code
  return code === 'ENOSPC' || code === 'EDQUOT' || (cause !== undefined && isFull(cause));
}

function isKept(segment: Readonly<Segment>): segment is KeptSegment {
  return 'version' in segment;
}

function versionOf(segment: Readonly<Segment>): number | undefined {
  return isKept(segment) ? segment.version : undefined;
}

function cursorIn(segment: Pick<Segment, 'first'> & { version?: number }, offset: number): Cursor {
  const { first, version } = segment;
  return { first, offset, ...(version !== undefined && { version }) };
}

function encoded(line: StoredLine): string {
  return encodeLine(line.seq, line, line.arrived);
}

const noted = /^(\d+) lines? (?:was|were) removed, as the logs of builds take more than the server keeps of them$/;

/** What stays of lines of one instance that are removed: a line that says how many they were, in place of the last one. */
function noteOf(lines: readonly StoredLine[]): StoredLine[] {
  const last = lines.at(-1);
  if (last === undefined) return [];
  const countOf = ({ stream, message }: StoredLine): number =>
    stream === 'system' ? Number(noted.exec(message)?.[1] ?? 1) : 1;
  const count = lines.reduce((all, line) => all + countOf(line), 0);
  const message = `${count} ${count === 1 ? 'line was' : 'lines were'} removed, as the logs of builds take more than the server keeps of them`;
  return [{ ...last, level: 'warn', stream: 'system', message }];
}

function sum(segments: readonly Segment[]): number {
  return segments.reduce((bytes, it) => bytes + it.bytes, 0);
}

/** Approximate size of an entry in memory and on disk, in bytes. */
function sizeOf(entry: Entry): number {
  return entry.message.length + entryOverhead;
}
