import { execFileSync } from 'node:child_process';
import {
  chmod,
  chown,
  link,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { folderCopier } from '../../../agent/engine/volume-copier.ts';
import type { VolumeCopier } from '../../../agent/engine/volume-copier.ts';
import { ownerVariable } from '../../../agent/machine/orphans.ts';
import { processes } from '../../../agent/runtime/sessions.ts';
import { systemClock } from '../../../time/clock.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

const MiB = 1024 ** 2;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const nothing = (): void => undefined;

let folder: string;
let copier: VolumeCopier;
/** Folders of volumes, as an engine has them: the content of each in a folder below its own. */
const pathOf = (volume: string): string => join(folder, volume, '_data');

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-copier-'));
  for (const volume of ['theirs', 'staged', 'ours']) await mkdir(pathOf(volume), { recursive: true });
  const volume = async (name: string) => ({ name, labels: {}, path: pathOf(name) });
  copier = folderCopier({ volume }, folder, systemClock);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** The program's output, of a program of this machine. */
const called = (program: string, ...args: string[]): string => execFileSync(program, args, { encoding: 'utf8' });

async function copied(): Promise<void> {
  await copier.copy('theirs', 'staged', nothing, signal());
  await copier.move('staged', 'ours', signal());
}

/** Makes a file with an extended attribute, which Node has no call for. */
async function withAttribute(path: string, name: string, value: string): Promise<void> {
  const archive = join(folder, 'archive.tar');
  const made = pack();
  made.entry({ name: basename(path), pax: { [`SCHILY.xattr.${name}`]: value } }, 'rows');
  made.finalize();
  await writeFile(archive, await buffer(made));
  called('tar', '--extract', '--xattrs', '--xattrs-include=*', '--file', archive, '--directory', dirname(path));
}

/** Whether a file has the extended attribute. */
const hasAttribute = (path: string, name: string, value: string): boolean => {
  const how = ['--create', '--format=posix', '--xattrs', '--xattrs-include=*', '--to-stdout'];
  return called('tar', ...how, '--directory', dirname(path), basename(path)).includes(`SCHILY.xattr.${name}=${value}`);
};

/** `cp` processes that this test started. */
const copying = () =>
  processes(async ({ environment }) => (await environment()).includes(`${ownerVariable}=${folder}`));

describe('a copied folder', () => {
  test('has the owners, modes, times, attributes, links and holes of its original', async () => {
    const theirs = pathOf('theirs');
    await mkdir(join(theirs, 'base'), { mode: 0o750 });
    const file = join(theirs, 'base', 'table');
    await withAttribute(file, 'user.origin', 'blog');
    await chown(file, 999, 998);
    await chmod(file, 0o4640);
    await link(file, join(theirs, 'hard'));
    await symlink('/etc/passwd', join(theirs, 'symbolic'));
    await using sparse = await open(join(theirs, 'sparse'), 'w');
    await sparse.write('end', 64 * MiB);
    await chown(theirs, 999, 998);
    await chmod(theirs, 0o700);
    await utimes(file, 1_000_000_000, 1_000_000_000);
    await copied();

    const ours = pathOf('ours');
    const shown = async (path: string) => {
      const { uid, gid, mode, mtimeMs, nlink, size } = await stat(path);
      return { uid, gid, mode, mtimeMs, nlink, size };
    };
    for (const path of ['', 'base', 'base/table', 'sparse'])
      expect(await shown(join(ours, path)), path).toEqual(await shown(join(theirs, path)));
    expect(await stat(join(ours, 'base/table'))).toMatchObject({ uid: 999, gid: 998, nlink: 2, mtimeMs: 1e12 });
    expect((await stat(join(ours, 'hard'))).ino).toBe((await stat(join(ours, 'base/table'))).ino);
    expect(hasAttribute(join(ours, 'base/table'), 'user.origin', 'blog')).toBe(true);
    expect(await readlink(join(ours, 'symbolic'))).toBe('/etc/passwd');
    expect((await stat(join(ours, 'sparse'))).blocks * 512).toBeLessThan(MiB);
    expect(await readFile(join(ours, 'base/table'), 'utf8')).toBe('rows');
    expect((await copier.content('ours', signal())).bytes).toBe((await copier.content('theirs', signal())).bytes);
  });

  test('is in its place in one step, and not over what is there', async () => {
    await writeFile(join(pathOf('theirs'), 'table'), 'rows');
    expect([await copier.isEmpty('theirs', signal()), await copier.isEmpty('ours', signal())]).toEqual([false, true]);
    await copier.copy('theirs', 'staged', nothing, signal());
    expect(await readdir(pathOf('ours'))).toEqual([]);
    await writeFile(join(pathOf('ours'), 'own'), 'data');
    await expect(copier.move('staged', 'ours', signal())).rejects.toThrow();
    expect(await readdir(pathOf('ours'))).toEqual(['own']);
    await rm(join(pathOf('ours'), 'own'));
    await copier.move('staged', 'ours', signal());
    expect(await readdir(pathOf('ours'))).toEqual(['table']);
  });

  test.each([
    ['written to', (path: string) => writeFile(path, 'more')],
    ['given another owner', (path: string) => chown(path, 999, 999)],
    ['removed', (path: string) => rm(path)],
    ['joined by another one', (path: string) => writeFile(`${path}-2`, '')],
  ])('shows that a file was %s meanwhile', async (_, change) => {
    const path = join(pathOf('theirs'), 'table');
    await writeFile(path, 'rows');
    const { mark } = await copier.content('theirs', signal());
    expect((await copier.content('theirs', signal())).mark).toBe(mark);
    await change(path);
    expect((await copier.content('theirs', signal())).mark).not.toBe(mark);
  });
});

describe('a copy', () => {
  /** An original whose copy takes a moment. */
  async function many(): Promise<void> {
    const block = Buffer.alloc(4 * MiB, 'x');
    for (let n = 0; n < 100; n++) await writeFile(join(pathOf('theirs'), `file-${n}`), block);
  }

  test('that is given up has ended when that is known', async () => {
    await many();
    const given = new AbortController();
    const copy = copier.copy('theirs', 'staged', nothing, given.signal);
    await until('it copies', async () => (await copying()).length > 0);
    given.abort(new Error('It was deleted'));
    await expect(copy).rejects.toThrow('It was deleted');
    expect(await copying()).toEqual([]);
  });

  test('that does not go on is ended', async () => {
    await many();
    const clock = new FakeClock();
    const volume = async (name: string) => ({ name, labels: {}, path: pathOf(name) });
    const watched = folderCopier({ volume }, folder, clock);
    const shown: number[] = [];
    let failure: unknown;
    const copy = watched
      .copy('theirs', 'staged', (bytes) => shown.push(bytes), signal())
      .catch((error: unknown) => {
        failure = error;
      });
    const stop = async () => {
      const found = await copying();
      for (const id of found) process.kill(id, 'SIGSTOP');
      return found.length > 0;
    };
    await until('it is stopped', stop, { everyMs: 5 });
    const isEnded = async () => {
      await clock.advance(2_000);
      return failure !== undefined;
    };
    await until('it is ended', isEnded, { everyMs: 5 });
    await copy;
    expect(failure).toMatchObject({
      code: 'copy_failed',
      message: 'Program cp has not gone on for 10 min: look at the disk of the server, as by dmesg',
    });
    expect(clock.monotonic()).toBeGreaterThan(600_000);
    expect(shown.length).toBeGreaterThan(0);
    expect(await copying()).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test('without room for so many files says so, however much is written of that', async () => {
    for (let n = 0; n < 1000; n++) await writeFile(join(pathOf('theirs'), `${'long-'.repeat(20)}${n}`), '');
    called('mount', '-t', 'tmpfs', '-o', 'nr_inodes=20', 'tmpfs', pathOf('staged'));
    try {
      const message = expect.stringMatching(/^The disk of the server is full \(.*No space left on device\)/);
      await expect(copier.copy('theirs', 'staged', nothing, signal())).rejects.toMatchObject({
        code: 'no_space',
        message,
      });
    } finally {
      called('umount', pathOf('staged'));
    }
  });

  test('without room says so', async () => {
    await many();
    called('mount', '-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', pathOf('staged'));
    try {
      await expect(copier.copy('theirs', 'staged', nothing, signal())).rejects.toMatchObject({
        code: 'no_space',
        message: expect.stringMatching(
          /^The disk of the server is full \(.*No space left on device\): free space on it$/,
        ),
      });
      expect((await copier.space('staged', signal())).totalBytes).toBe(16 * MiB);
    } finally {
      called('umount', pathOf('staged'));
    }
  });
});
