import { once } from 'node:events';
import { constants } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { constants as priorities, setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { ownerVariable } from '../machine/orphans.ts';
import type { PipedProgram } from '../machine/process.ts';
import { run, startPiped } from '../machine/process.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** What an archive of a volume that was used meanwhile does not have as it is now. */
export interface ArchiveNotes {
  /** Files that changed or went while they were read. */
  changed: number;
  /** Sockets, which hold nothing and are made by who listens. */
  leftOut: number;
  /** Some of these files, for people. */
  named: readonly string[];
}

/** An archive while it is written. */
export interface Packing {
  /** @throws RuntimeFailure `backup_failed` after all of it, unless it is whole */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** What was told so far. */
  readonly notes: ArchiveNotes;
  /** Resolves when the program is gone. */
  readonly ended: Promise<unknown>;
}

/** Makes archives of volumes of one engine, and volumes of archives. All volumes that are named must be there. */
export interface VolumeArchiver {
  /** Begins to archive all that is in a volume, in one pass. */
  pack(volume: string, signal: AbortSignal): Promise<Packing>;
  /**
   * Puts what an archive has into an empty volume. Resolves when it is on the disk.
   * @throws RuntimeFailure `restore_failed`, `no_space`, what `source` throws, or the signal's reason, once nothing is written any more
   */
  unpack(volume: string, source: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** Whether an archive of the volume is being made, so that it must not be removed. */
  isRead(volume: string): boolean;
}

/**
 * Owners by number, and all that a file has beside its content. Access control lists are among the extended attributes, with
 * numbers: the list that `--acls` makes has the names of users of this machine.
 */
const whole = ['--numeric-owner', '--xattrs', '--xattrs-include=*'];
const mostNamed = 10;
const lineChars = 300;
/** An archive ends with two blocks of zeros. */
const endBytes = 1024;
const maxOutputBytes = 64 * 1024;

/**
 * Archives folders of this machine by GNU tar, in the format of POSIX: with owners, modes, times, extended attributes, access
 * control lists, hard links and holes.
 *
 * @param owner names the agent in the environment of `tar`, so that its next process ends one that outlived it
 */
export function folderArchiver(runtime: Pick<ContainerRuntime, 'volume'>, owner: string): VolumeArchiver {
  const env = { [ownerVariable]: owner };
  /** Volumes of which archives are being made, each as often as there are. */
  const reading: string[] = [];

  const folderOf = async (name: string, code: Code, signal: AbortSignal): Promise<string> => {
    const path = (await runtime.volume(name, signal))?.path;
    if (path === undefined) throw failed(code, `Volume ${name} is not in a folder of the server`);
    return path;
  };

  const tar = async (args: readonly string[], code: Code, signal: AbortSignal): Promise<PipedProgram> => {
    try {
      return await startPiped('tar', { args, env, started: lower }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error; // errors of a start have a code
      throw failed(code, 'Program tar is not on the server: install tar of GNU');
    }
  };

  return {
    isRead: (volume) => reading.includes(volume),

    async pack(volume, signal) {
      const folder = await folderOf(volume, 'backup_failed', signal);
      // while it is open, no other folder gets its number
      const held = await open(folder, constants.O_DIRECTORY);
      const { ino, dev } = await held.stat({ bigint: true });
      const stays = async (): Promise<boolean> => {
        const now = (await runtime.volume(volume, signal))?.path;
        const at = now === undefined ? undefined : await stat(now, { bigint: true }).catch(() => undefined);
        return at?.ino === ino && at.dev === dev;
      };
      const how = ['--format=posix', '--pax-option=delete=atime,delete=ctime', '--sparse', '--one-file-system'];
      const args = ['--create', '--file=-', ...whole, ...how, '--directory', folder, '.'];
      reading.push(volume);
      const over = async (): Promise<void> => {
        reading.splice(reading.indexOf(volume), 1);
        await held.close();
      };
      const program = await tar(args, 'backup_failed', signal).catch(async (error: unknown) => {
        await over();
        throw error;
      });
      // judged while the folder is held: who takes the bytes may be slower than tar
      const stayed = program.ended.then(stays);
      const ended = stayed.catch(() => undefined).then(over);
      program.input.end();
      const words = wordsOf(program.errors);
      return { bytes: packed(program, words, stayed), notes: words.notes, ended };
    },

    async unpack(volume, source, signal) {
      const folder = await folderOf(volume, 'restore_failed', signal);
      if ((await readdir(folder)).length > 0)
        throw failed('restore_failed', `Volume ${volume} is not empty: nothing is written over`);
      const how = ['--same-owner', '--same-permissions', '--delay-directory-restore', '--overwrite-dir'];
      const args = ['--extract', '--file=-', ...whole, ...how, '--directory', folder];
      const program = await tar(args, 'restore_failed', signal);
      program.output.resume();
      const words = wordsOf(program.errors);
      const fault = await given(source, program, signal);
      // what it was not given to its end, it must not take for whole
      if (fault !== undefined) program.input.destroy();
      const code = await program.ended;
      await words.ended;
      signal.throwIfAborted();
      if (fault !== undefined) throw fault as Error;
      if (/no space left on device|disk quota exceeded/i.test(words.text))
        throw new RuntimeFailure('no_space', `The disk of the server is full (${words.text}): free space on it`, {
          retryable: false,
        });
      if (code !== 0) throw failed('restore_failed', `Program tar ended with ${code ?? 'no code'}${said(words.text)}`);
      const synced = await run('sync', { args: ['--file-system', folder], env, maxOutputBytes }, signal);
      if (synced.code !== 0)
        throw failed('restore_failed', `Program sync failed: ${synced.stderr.slice(0, lineChars)}`);
    },
  };
}

type Code = 'backup_failed' | 'restore_failed';

interface Words {
  readonly notes: ArchiveNotes & { changed: number; leftOut: number; named: string[] };
  /** The first line that says why it fails. */
  readonly text: string;
  readonly ended: Promise<unknown>;
}

/** Reads what tar says: a line for each file with which something is. */
function wordsOf(errors: Readable): Words {
  const notes = { changed: 0, leftOut: 0, named: [] as string[] };
  let text = '';
  const lines = createInterface({ input: errors, crlfDelay: Infinity });
  lines.on('line', (line) => {
    const said = line.replace(/^tar: /, '').slice(0, lineChars);
    if (line.endsWith(': socket ignored')) notes.leftOut += 1;
    else if (/: file changed as we read it$|: File removed before we read it$|: File shrank by /.test(line))
      notes.changed += 1;
    else {
      if (text === '') text = said;
      return;
    }
    if (notes.named.length < mostNamed) notes.named.push(said);
  });
  return {
    notes,
    get text() {
      return text;
    },
    ended: finished(errors).catch(() => undefined),
  };
}

/**
 * Gives an archive to tar, and reads it to its end: tar need not read what follows the end of the archive. Resolves with
 * what went wrong with the source.
 */
async function given(
  source: AsyncIterable<Uint8Array>,
  { input, ended }: PipedProgram,
  signal: AbortSignal,
): Promise<unknown> {
  const closed = new AbortController();
  for (const event of ['error', 'close']) input.once(event, () => closed.abort());
  const either = AbortSignal.any([signal, closed.signal]);
  try {
    for await (const chunk of source) {
      signal.throwIfAborted();
      if (closed.signal.aborted) {
        if ((await ended) !== 0) break;
      } else if (!input.write(chunk))
        await once(input, 'drain', { signal: either }).catch((error: unknown) => {
          if (!closed.signal.aborted) throw error;
        });
    }
    input.end();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Passes on an archive, and requires that it was written to its end, of a folder that was there to its end. */
async function* packed(
  { output, ended }: PipedProgram,
  words: Words,
  stayed: Promise<boolean>,
): AsyncGenerator<Uint8Array> {
  let last: Buffer = Buffer.alloc(0);
  for await (const chunk of output as AsyncIterable<Buffer>) {
    last = chunk.length >= endBytes ? chunk : Buffer.concat([last, chunk]).subarray(-endBytes);
    yield chunk;
  }
  const code = await ended;
  await words.ended;
  // 1: files changed while they were read, which a volume in use does
  if (code !== 0 && code !== 1)
    throw failed('backup_failed', `Program tar ended with ${code ?? 'no code'}${said(words.text)}`);
  const end = last.subarray(-endBytes);
  if (end.length < endBytes || end.some((byte) => byte !== 0))
    throw failed('backup_failed', 'The archive is cut: it does not end with the blocks that end one');
  // files of a folder that is being removed are told as those of one in use
  if (!(await stayed))
    throw failed('backup_failed', 'The volume was removed while it was read, so that the archive may lack files');
}

/** Lets all else on the machine have the processors first. */
function lower(pid: number): void {
  try {
    setPriority(pid, priorities.priority.PRIORITY_LOW);
  } catch {
    // It has ended already.
  }
}

function said(text: string): string {
  return text === '' ? '' : `. It said: ${text}`;
}

function failed(code: Code, message: string): RuntimeFailure {
  return new RuntimeFailure(code, message, { retryable: code === 'backup_failed' });
}
