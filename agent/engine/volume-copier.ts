import { mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { dirname, join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { diskSpace } from '../disk/disk-guard.ts';
import { syncDirectory } from '../disk/atomic-file.ts';
import { ownerVariable } from '../machine/orphans.ts';
import { OutputLimitError, run } from '../machine/process.ts';
import type { FolderContent } from '../runtime/docker/folder-usage.ts';
import { folderContent } from '../runtime/docker/folder-usage.ts';
import { folderAdvice } from '../runtime/folder-advice.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** Copies the content of volumes of one engine. All volumes that are named must be there. */
export interface VolumeCopier {
  /** Walks all that is in a volume. */
  content(volume: string, signal: AbortSignal): Promise<FolderContent>;
  /** The room of the disk that the volume is on. */
  space(volume: string, signal: AbortSignal): Promise<DiskSpace>;
  isEmpty(volume: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Puts a copy of what is in `from` beside the content of `to`, a new volume. Resolves when it is on the disk. Calls
   * `copied` with the bytes that are copied, at intervals.
   * @throws RuntimeFailure `no_space`, `copy_failed`; the signal's reason, once nothing copies any more
   */
  copy(from: string, to: string, copied: (bytes: number) => void, signal: AbortSignal): Promise<void>;
  /** Makes what was copied into the volume `from` the content of `to`, an empty volume, in one step. */
  move(from: string, to: string, signal: AbortSignal): Promise<void>;
}

const maxOutputBytes = 64 * 1024;
const progressMs = 2_000;
/** Time within which a program that copies must do something. */
const stallMinutes = 10;
const reasonChars = 300;

/**
 * Copies folders of this machine by `cp`, with owners, modes, times, extended attributes, hard links and holes.
 *
 * @param owner names the agent in the environment of `cp`, so that its next process ends one that outlived it
 */
export function folderCopier(runtime: Pick<ContainerRuntime, 'volume'>, owner: string, clock: Clock): VolumeCopier {
  const folderOf = async (name: string, signal: AbortSignal): Promise<string> => {
    const path = (await runtime.volume(name, signal))?.path;
    if (path === undefined) throw failed(`Volume ${name} is not there any more`);
    return path;
  };

  const tool = async (
    program: string,
    args: readonly string[],
    signal: AbortSignal,
    started?: (pid: number) => void,
  ): Promise<void> => {
    const env = { [ownerVariable]: owner };
    const options = { args, env, maxOutputBytes, ...(started !== undefined && { started }) };
    const { code, stderr } = await run(program, options, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      // it writes a line for each file that it cannot copy, and goes on
      if (error instanceof OutputLimitError) return { code: undefined, stderr: error.stderr };
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      throw failed(`Program ${program} is not on the server: install coreutils of GNU`, error);
    });
    if (code === 0) return;
    const reason = stderr.split('\n')[0]?.slice(0, reasonChars) ?? '';
    if (/no space left on device|disk quota exceeded/i.test(stderr))
      throw new RuntimeFailure('no_space', `The disk of the server is full (${reason}): free space on it`, {
        retryable: true,
      });
    if (/unrecognized option|invalid option/i.test(stderr))
      throw failed(`Program ${program} of the server is not that of GNU coreutils: install them (${reason})`);
    throw failed(`Program ${program} failed: ${reason === '' ? `exit code ${code ?? 'by a signal'}` : reason}`);
  };

  return {
    async content(volume, signal) {
      const path = await folderOf(volume, signal);
      return attempt(`read ${path}`, () => folderContent(path, signal), signal);
    },

    async space(volume, signal) {
      const path = await folderOf(volume, signal);
      return attempt(`measure the disk of ${path}`, () => diskSpace([path]), signal);
    },

    async isEmpty(volume, signal) {
      const path = await folderOf(volume, signal);
      return (await attempt(`read ${path}`, () => readdir(path), signal)).length === 0;
    },

    async copy(from, to, copied, signal) {
      const [source, target] = [await folderOf(from, signal), await folderOf(to, signal)];
      const content = contentIn(target);
      await attempt(`write ${target}`, () => mkdir(content), signal);
      using watch = new Watch(clock, copied);
      const how = ['--archive', '--sparse=auto', '--reflink=auto'];
      const ends = AbortSignal.any([signal, watch.signal]);
      await tool('cp', [...how, '--', `${source}/.`, content], ends, (pid) => watch.start(pid));
      await tool('sync', ['--file-system', target], signal);
    },

    async move(from, to, signal) {
      const [source, target] = [await folderOf(from, signal), await folderOf(to, signal)];
      const place = async (): Promise<void> => {
        await rename(contentIn(source), target);
        await syncDirectory(source);
        await syncDirectory(dirname(target));
      };
      await attempt(`move the copy to ${target}`, place, signal);
    },
  };
}

/** Watches a program that copies: how far it is, and whether it does anything. */
class Watch implements Disposable {
  readonly #clock: Clock;
  readonly #copied: (bytes: number) => void;
  readonly #stalled = new AbortController();
  #cancel: () => void = () => undefined;
  #isOver = false;
  /** What it had done at the last look, and since when it has done no more. */
  #last: { work: string; since: number } | undefined;

  constructor(clock: Clock, copied: (bytes: number) => void) {
    this.#clock = clock;
    this.#copied = copied;
  }

  /** Aborted with a RuntimeFailure `copy_failed` once the program has done nothing for too long. */
  get signal(): AbortSignal {
    return this.#stalled.signal;
  }

  start(pid: number): void {
    lower(pid);
    this.#lookLater(pid);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#cancel();
  }

  #lookLater(pid: number): void {
    this.#cancel = this.#clock.timer(progressMs, () => void this.#look(pid));
  }

  async #look(pid: number): Promise<void> {
    const done = await doneBy(pid);
    if (this.#isOver || done === undefined) return;
    this.#copied(done.bytes);
    const now = this.#clock.monotonic();
    if (this.#last?.work !== done.work) this.#last = { work: done.work, since: now };
    if (now - this.#last.since < stallMinutes * 60_000) return this.#lookLater(pid);
    const message = `Program cp has not gone on for ${stallMinutes} min: look at the disk of the server, as by dmesg`;
    this.#stalled.abort(failed(message));
  }
}

function contentIn(folder: string): string {
  return join(folder, 'content');
}

/** Lets all else on the machine have the processors first. */
function lower(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // It has ended already.
  }
}

/**
 * The bytes that a process has written since its start, and a text that changes as long as it does anything, also where
 * it only makes folders and links; `undefined` once it has ended.
 */
async function doneBy(pid: number): Promise<{ bytes: number; work: string } | undefined> {
  try {
    const io = await readFile(`/proc/${pid}/io`, 'utf8');
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // after the name, which may hold spaces: the times that it used the processors are the 12th and 13th field
    const times = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .join(' ');
    return { bytes: Number(/^wchar: (\d+)$/m.exec(io)?.[1] ?? 0), work: `${io} ${times}` };
  } catch {
    return undefined;
  }
}

/** Does what `what` says, in words that follow "The agent cannot". @throws RuntimeFailure `copy_failed` */
async function attempt<R>(what: string, work: () => Promise<R>, signal: AbortSignal): Promise<R> {
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = error as NodeJS.ErrnoException; // of the file system, or of the walk's own bounds
    const reason = code === undefined ? message : `${code}. ${folderAdvice(code)}`;
    throw failed(`The agent cannot ${what}: ${reason}`, error);
  }
}

function failed(message: string, cause?: unknown): RuntimeFailure {
  return new RuntimeFailure('copy_failed', message, { retryable: true, cause });
}
