import { constants } from 'node:fs';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { ImportStreamParams } from '../../agent-protocol/messages.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { Clock } from '../../time/clock.ts';
import { floorBytes } from '../disk/disk-guard.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { ImportFault } from './import-fault.ts';
import { judgedBytes, judgeHead } from './judge-head.ts';

/** Most uploads that come in at once. */
const mostAtOnce = 4;
/** Between two looks at the disk. */
const lookBytes = 64 * 1024 * 1024;
/** For so long an upload may wait for the restore that reads it, or for another attempt of that. In milliseconds. */
const waitingMs = 60 * 60_000;

const upload = /^[0-9a-f-]{36}$/;

export interface UploadsDeps {
  folder: string;
  disk: () => Promise<DiskSpace>;
  clock: Clock;
}

/** Dumps that users have sent, each in a file until its restore has ended. One that did not come whole is removed at once. */
export class Uploads {
  readonly #deps: UploadsDeps;
  readonly #coming = new Set<string>();
  readonly #openedAt: number;
  /** When a restore last wanted each, in milliseconds since the epoch. Those of which no file is left are forgotten. */
  #wantedAt = new Map<string, number>();

  private constructor(deps: UploadsDeps) {
    this.#deps = deps;
    this.#openedAt = deps.clock.now().getTime();
  }

  /** Makes the folder if it is not there. */
  static async open(deps: UploadsDeps): Promise<Uploads> {
    await mkdir(deps.folder, { recursive: true, mode: 0o700 });
    return new Uploads(deps);
  }

  /**
   * Takes a dump in, and yields nothing: the end of the output means that all of it is on the disk. The end of what comes in
   * is that of the dump, and its failure leaves nothing.
   *
   * @throws CallError `too_many`, `no_space`, `invalid_dump`, or that of what comes in
   */
  async *receive(
    { id, engine, size_bytes: size }: ImportStreamParams,
    incoming: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    if (this.#coming.size >= mostAtOnce)
      throw new CallError('too_many', `At most ${mostAtOnce} dumps are sent to one server at once: wait for one`);
    if (this.#coming.has(id)) throw new CallError('in_use', 'The dump is being sent already');
    this.#coming.add(id);
    try {
      await this.requireSpace(size ?? 0);
      await this.#write(id, engine, incoming, signal);
    } catch (error) {
      await this.remove(id);
      signal.throwIfAborted();
      if (error instanceof ImportFault) throw new CallError(error.code, error.message, { cause: error });
      throw error;
    } finally {
      this.#coming.delete(id);
    }
    yield* [];
  }

  /** @throws ImportFault `no_space` if so many bytes more would fill the disk */
  async requireSpace(bytes: number): Promise<void> {
    const { freeBytes, totalBytes } = await this.#deps.disk();
    if (freeBytes - bytes >= floorBytes(totalBytes)) return;
    const inMiB = (count: number): string => `${Math.ceil(count / 1024 / 1024)} MiB`;
    const what = bytes === 0 ? 'More of the dump would fill' : `The dump has ${inMiB(bytes)}, too much for`;
    throw new ImportFault(
      'no_space',
      `${what} the disk of the server, which has ${inMiB(freeBytes)} free: free some, and begin again`,
    );
  }

  /** @throws ImportFault `source_failed` if it is not there */
  async file(id: string): Promise<FileHandle> {
    try {
      return await open(this.#path(id), constants.O_RDONLY);
    } catch (error) {
      throw new ImportFault('source_failed', 'The dump that was sent is not on the server any more: send it again', {
        cause: error,
      });
    }
  }

  async remove(id: string): Promise<void> {
    await rm(this.#path(id), { force: true });
  }

  /**
   * Removes all but these, those that are being sent, and those that came or were wanted within the last hour: between two attempts
   * of a restore none wants its dump. What came before the agent started may have been wanted until then.
   */
  async retain(wanted: ReadonlySet<string>): Promise<void> {
    const now = this.#deps.clock.now().getTime();
    const kept = new Map<string, number>();
    for (const name of await readdir(this.#deps.folder)) {
      if (this.#coming.has(name) || !upload.test(name)) continue;
      const wantedAt = wanted.has(name) ? now : (this.#wantedAt.get(name) ?? this.#openedAt);
      const found = await stat(this.#path(name)).catch(() => undefined); // it was removed meanwhile
      if (found === undefined) continue;
      if (now - Math.max(found.mtimeMs, wantedAt) > waitingMs) await this.remove(name);
      else kept.set(name, wantedAt);
    }
    this.#wantedAt = kept;
  }

  async #write(
    id: string,
    engine: ImportStreamParams['engine'],
    incoming: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    let head: Buffer | undefined = Buffer.alloc(0);
    let looked = 0;
    let written = 0;
    await using file = await open(this.#path(id), 'wx', 0o600);
    for await (const chunk of incoming) {
      signal.throwIfAborted();
      if (head !== undefined) {
        head = Buffer.concat([head, chunk]);
        if (head.length >= judgedBytes) {
          judgeHead(head, engine);
          head = undefined;
        }
      }
      await file.writeFile(chunk);
      written += chunk.length;
      if (written - looked < lookBytes) continue;
      looked = written;
      await this.requireSpace(0);
    }
    if (head !== undefined) judgeHead(head, engine);
    await file.sync();
  }

  #path(id: string): string {
    if (!upload.test(id)) throw new CallError('invalid', 'The dump has no valid id');
    return join(this.#deps.folder, id);
  }
}
