import type { FileHandle } from 'node:fs/promises';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { LogName } from './places.ts';

/** How far a log was read: `file` tells its files apart, also if a later one has the place of a removed one on the disk. */
export interface LogPosition {
  file: string;
  offset: number;
}

export interface LogReader {
  take: (line: string) => void;
  lost: () => void;
}

const chunkBytes = 256 * 1024;
/** A longer line is passed over. None of a host that leads to an application is as long. */
const maxLineBytes = 64 * 1024;
const headBytes = 64;
const newline = 10;

/**
 * Reads what a log of the proxy has got since the last time, also in files that were rolled meanwhile. It keeps no file
 * open and never makes the proxy wait.
 */
export class LogTail {
  readonly #folder: string;
  readonly #name: LogName;
  #position: LogPosition | undefined;

  /** Without a position it begins with the oldest line. */
  constructor(folder: string, name: LogName, position?: LogPosition) {
    this.#folder = folder;
    this.#name = name;
    this.#position = position;
  }

  get position(): LogPosition | undefined {
    return this.#position;
  }

  /** Passes over all that the log has now. */
  async skip(): Promise<void> {
    await using stack = new AsyncDisposableStack();
    const current = await this.#open(`${this.#name}.log`, stack);
    if (current !== undefined) this.#position = { file: current.id, offset: current.size };
  }

  /**
   * Calls `take` with each new line, in order, and `lost` where lines are missing: their file was removed before it was
   * read. @throws Error if the disk cannot be read
   */
  async read({ take, lost }: LogReader, signal: AbortSignal): Promise<void> {
    await using stack = new AsyncDisposableStack();
    const current = await this.#open(`${this.#name}.log`, stack);
    const before = this.#position;
    if (before !== undefined && before.file === current?.id) {
      const isEmptied = current.size < before.offset;
      if (isEmptied) lost();
      await this.#readFile(current, isEmptied ? 0 : before.offset, take, signal);
      return;
    }
    const rolled = await this.#rolled(current?.id, stack);
    const known = rolled.findIndex(({ id }) => id === before?.file);
    const isLost = before !== undefined && known === -1;
    if (isLost && current === undefined) return; // it is being rolled
    if (isLost) lost();
    const files = [...rolled.slice(Math.max(0, known)), ...(current === undefined ? [] : [current])];
    for (const one of files) await this.#readFile(one, one.id === before?.file ? before.offset : 0, take, signal);
  }

  /** The files that were rolled, the oldest first. */
  async #rolled(current: string | undefined, stack: AsyncDisposableStack): Promise<OpenLog[]> {
    const names = (await readdir(this.#folder)).filter(
      (name) => name.startsWith(`${this.#name}-`) && name.endsWith('.log'),
    );
    const found: OpenLog[] = [];
    for (const name of names.toSorted()) {
      const one = await this.#open(name, stack);
      if (one !== undefined && one.id !== current) found.push(one);
    }
    return found;
  }

  async #readFile({ id, handle, size }: OpenLog, from: number, take: (line: string) => void, signal: AbortSignal) {
    const chunk = Buffer.allocUnsafe(chunkBytes);
    let start = from;
    /** The begin of a line that is not whole yet; `undefined`: of one that is too long. */
    let rest: Buffer | undefined = Buffer.alloc(0);
    this.#position = { file: id, offset: start };
    for (let at = from; at < size;) {
      signal.throwIfAborted();
      const { bytesRead } = await handle.read(chunk, 0, Math.min(chunkBytes, size - at), at);
      if (bytesRead === 0) break;
      let begin = 0;
      for (let end = chunk.indexOf(newline); end !== -1 && end < bytesRead; end = chunk.indexOf(newline, begin)) {
        const part = chunk.subarray(begin, end);
        if (rest !== undefined) take((rest.length === 0 ? part : Buffer.concat([rest, part])).toString());
        rest = Buffer.alloc(0);
        begin = end + 1;
        start = at + begin;
      }
      rest = rest && Buffer.concat([rest, chunk.subarray(begin, bytesRead)]);
      if (rest !== undefined && rest.length > maxLineBytes) rest = undefined;
      at += bytesRead;
      this.#position = { file: id, offset: start };
      await setImmediate(); // many lines are taken in several turns
    }
  }

  /** Returns `undefined` if there is no such file, or no line in it. */
  async #open(name: string, stack: AsyncDisposableStack): Promise<OpenLog | undefined> {
    try {
      const handle = stack.use(await open(join(this.#folder, name), 'r'));
      const { ino, size } = await handle.stat();
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(headBytes), 0, headBytes, 0);
      return bytesRead < headBytes ? undefined : { handle, size, id: `${ino}-${crc32(buffer)}` };
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw error;
    }
  }
}

interface OpenLog {
  id: string;
  handle: FileHandle;
  /** When it was opened. */
  size: number;
}
