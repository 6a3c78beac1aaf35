import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, link, lstat, mkdir, mkdtemp, open, readFile, readlink, rm, stat } from 'node:fs/promises';
import { readdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pack as tarStream } from 'tar-stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { folderArchiver } from '../../../agent/engine/volume-archiver.ts';
import type { ArchiveNotes, VolumeArchiver } from '../../../agent/engine/volume-archiver.ts';
import { ownerVariable } from '../../../agent/machine/orphans.ts';
import { processes } from '../../../agent/runtime/sessions.ts';
import { until } from '../../harness/until.ts';

const MiB = 1024 ** 2;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

let folder: string;
let archiver: VolumeArchiver;
const pathOf = (volume: string): string => join(folder, volume, '_data');

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-archiver-'));
  for (const volume of ['theirs', 'ours']) await mkdir(pathOf(volume), { recursive: true });
  archiver = folderArchiver({ volume: async (name) => ({ name, labels: {}, path: pathOf(name) }) }, folder);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const called = (program: string, ...args: string[]): string => execFileSync(program, args, { encoding: 'utf8' });

async function packed(): Promise<{ bytes: Buffer; notes: ArchiveNotes }> {
  const packing = await archiver.pack('theirs', signal());
  const chunks: Uint8Array[] = [];
  for await (const chunk of packing.bytes) chunks.push(chunk);
  await packing.ended;
  return { bytes: Buffer.concat(chunks), notes: packing.notes };
}

async function* piecesOf(bytes: Buffer, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const unpacked = (bytes: Buffer): Promise<void> => archiver.unpack('ours', piecesOf(bytes), signal());

/** `tar` processes that this test started. */
const running = () =>
  processes(async ({ environment }) => (await environment()).includes(`${ownerVariable}=${folder}`));

/** Sets extended attributes, also access control lists, which Node has no call for. */
async function withAttribute(path: string, pax: Record<string, string>): Promise<void> {
  const archive = join(folder, 'archive.tar');
  const made = tarStream();
  made.entry({ name: basename(path), pax }, 'rows');
  made.finalize();
  await writeFile(archive, await buffer(made));
  called(
    'tar',
    '--extract',
    '--xattrs',
    '--xattrs-include=*',
    '--acls',
    '--file',
    archive,
    '--directory',
    dirname(path),
  );
}

const attributesOf = (path: string): string => {
  const how = ['--create', '--format=posix', '--xattrs', '--xattrs-include=*', '--acls', '--to-stdout'];
  return called('tar', ...how, '--directory', dirname(path), basename(path));
};

/** The access control list of a file. */
const listOf = (path: string): string | undefined => /SCHILY\.acl\.access=([^\0]*?)\n\n/.exec(attributesOf(path))?.[1];

describe('an archived folder', () => {
  test('comes back with the owners, modes, times, attributes, links and holes that it had', async () => {
    const theirs = pathOf('theirs');
    const long = 'n'.repeat(200);
    await mkdir(join(theirs, 'base', long), { recursive: true, mode: 0o750 });
    await mkdir(join(theirs, 'empty'));
    const file = join(theirs, 'base', 'table');
    await withAttribute(file, { 'SCHILY.xattr.user.origin': 'blog' });
    const rights = 'user::rw-,user:1000:r--,group::r--,mask::r--,other::---';
    await withAttribute(join(theirs, 'shared'), { 'SCHILY.acl.access': rights });
    await chown(file, 4_000_000_000, 998);
    await chmod(file, 0o4640);
    await link(file, join(theirs, 'hard'));
    await symlink('/etc/passwd', join(theirs, 'symbolic'));
    await symlink('gone', join(theirs, 'dangling'));
    await writeFile(Buffer.concat([Buffer.from(`${theirs}/`), Buffer.from([0xff, 0x0a, 0x5c, 0x20])]), 'odd');
    await writeFile(join(theirs, 'base', long, long), 'deep');
    await writeFile(join(theirs, '--help'), 'no option');
    called('mkfifo', join(theirs, 'pipe'));
    {
      await using sparse = await open(join(theirs, 'sparse'), 'w');
      await sparse.write('end', 64 * MiB);
    }
    await chown(theirs, 999, 998);
    await chmod(theirs, 0o1700);
    await utimes(file, 1_000_000_000, 1_000_000_000);
    const { bytes, notes } = await packed();
    expect(notes).toEqual({ changed: 0, leftOut: 0, named: [] });
    expect(bytes.length).toBeLessThan(MiB);
    await unpacked(bytes);

    const ours = pathOf('ours');
    const shown = async (path: string) => {
      const { uid, gid, mode, mtimeMs, nlink, size } = await lstat(path);
      return { uid, gid, mode, mtimeMs, nlink, size };
    };
    for (const path of [
      '',
      'base',
      'base/table',
      'hard',
      'shared',
      'sparse',
      'empty',
      'pipe',
      '--help',
      `base/${long}/${long}`,
    ])
      expect(await shown(join(ours, path)), path).toEqual(await shown(join(theirs, path)));
    expect((await stat(join(ours, 'hard'))).ino).toBe((await stat(join(ours, 'base/table'))).ino);
    expect(attributesOf(join(ours, 'base/table'))).toContain('SCHILY.xattr.user.origin=blog');
    // whatever the user of that number is called here
    for (const path of [theirs, ours]) expect(attributesOf(join(path, 'shared'))).toContain('posix_acl_access');
    expect(listOf(join(ours, 'shared'))).toBe(listOf(join(theirs, 'shared')));
    expect(listOf(join(ours, 'shared'))).toMatch(/^user:\w+:r--$/m);
    expect(await readlink(join(ours, 'symbolic'))).toBe('/etc/passwd');
    expect(await readlink(join(ours, 'dangling'))).toBe('gone');
    expect((await stat(join(ours, 'sparse'))).blocks * 512).toBeLessThan(MiB);
    expect(await readFile(join(ours, 'base/table'), 'utf8')).toBe('rows');
    expect((await readdir(ours, { encoding: 'buffer' })).map((it) => it.toString('hex')).toSorted()).toEqual(
      (await readdir(theirs, { encoding: 'buffer' })).map((it) => it.toString('hex')).toSorted(),
    );
  });

  test('comes back empty if it was', async () => {
    await unpacked((await packed()).bytes);
    expect(await readdir(pathOf('ours'))).toEqual([]);
  });

  test('names a socket, which is in no archive', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(join(pathOf('theirs'), 'socket'), resolve));
    await writeFile(join(pathOf('theirs'), 'file'), 'content');
    const { bytes, notes } = await packed();
    server.close();
    expect(notes).toEqual({ changed: 0, leftOut: 1, named: ['./socket: socket ignored'] });
    await unpacked(bytes);
    expect(await readdir(pathOf('ours'))).toEqual(['file']);
  });

  test('tells of a file that grew while it was read, and is whole', async () => {
    const path = join(pathOf('theirs'), 'log');
    await writeFile(path, Buffer.alloc(32 * MiB, 'x'));
    const packing = await archiver.pack('theirs', signal());
    const chunks: Uint8Array[] = [];
    for await (const chunk of packing.bytes) {
      // tar has the file open, and waits for its output to be read
      if (chunks.length === 0) await writeFile(path, 'more', { flag: 'a' });
      chunks.push(chunk);
    }
    expect(packing.notes).toMatchObject({ changed: 1, named: ['./log: file changed as we read it'] });
    await unpacked(Buffer.concat(chunks));
    expect((await stat(join(pathOf('ours'), 'log'))).size).toBe(32 * MiB);
  });

  test('is of no use where its folder goes while it is read', async () => {
    // more than a pipe holds, and no zeros, which would not be sent
    await writeFile(join(pathOf('theirs'), 'first'), randomBytes(4 * MiB));
    const packing = await archiver.pack('theirs', signal());
    expect([archiver.isRead('theirs'), archiver.isRead('ours')]).toEqual([true, false]);
    const read = async (): Promise<void> => {
      for await (const _ of packing.bytes) {
        await rm(pathOf('theirs'), { recursive: true, force: true });
        await mkdir(pathOf('theirs'));
      }
    };
    await expect(read()).rejects.toMatchObject({ code: 'backup_failed', message: /was removed while it was read/ });
    await packing.ended;
    expect(archiver.isRead('theirs')).toBe(false);
  });

  test('leaves no program behind when it is cancelled', async () => {
    await writeFile(join(pathOf('theirs'), 'large'), Buffer.alloc(8 * MiB));
    const stop = new AbortController();
    const packing = await archiver.pack('theirs', stop.signal);
    expect(await running()).toHaveLength(1);
    stop.abort(new Error('Enough'));
    await until('no tar is left', async () => (await running()).length === 0);
    await packing.ended;
  });
});

describe('what is no whole archive', () => {
  test.each([
    ['is cut in a file', (bytes: Buffer) => bytes.subarray(0, 2 * MiB)],
    ['is empty', () => Buffer.alloc(0)],
    ['is something else', () => Buffer.alloc(10_240, 'no archive ')],
  ])('is refused: it %s', async (_, damaged) => {
    await writeFile(join(pathOf('theirs'), 'large'), Buffer.alloc(4 * MiB, 'x'));
    await expect(unpacked(damaged((await packed()).bytes))).rejects.toMatchObject({ code: 'restore_failed' });
    expect(await running()).toEqual([]);
  });

  test('is refused where its source fails, with that reason', async () => {
    await writeFile(join(pathOf('theirs'), 'large'), Buffer.alloc(4 * MiB, 'x'));
    const { bytes } = await packed();
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, MiB);
      throw new Error('The object is not what it was');
    };
    await expect(archiver.unpack('ours', failing(), signal())).rejects.toThrow('not what it was');
    expect(await running()).toEqual([]);
  });

  test('nothing is put over what is there', async () => {
    await writeFile(join(pathOf('ours'), 'own'), 'data');
    await expect(unpacked((await packed()).bytes)).rejects.toMatchObject({ code: 'restore_failed' });
    expect(await readFile(join(pathOf('ours'), 'own'), 'utf8')).toBe('data');
  });
});

describe('an archive of somebody hostile', () => {
  const outside = (): string => join(folder, 'outside');

  async function archiveOf(...entries: Parameters<ReturnType<typeof tarStream>['entry']>[]): Promise<Buffer> {
    const made = tarStream();
    for (const entry of entries) made.entry(...entry);
    made.finalize();
    return buffer(made);
  }

  test.each([
    ['an absolute name', () => [[{ name: join(outside(), 'evil') }, 'x']]],
    ['a name that leads out', () => [[{ name: '../../outside/evil' }, 'x']]],
    [
      'a file behind a link that leads out',
      () => [[{ name: 'way', type: 'symlink', linkname: outside() }], [{ name: 'way/evil' }, 'x']],
    ],
    [
      'a file over a link that leads out',
      () => [[{ name: 'way', type: 'symlink', linkname: join(outside(), 'evil') }], [{ name: 'way' }, 'x']],
    ],
    [
      'a hard link to what is outside',
      () => [[{ name: 'way', type: 'link', linkname: '../../outside/own' }], [{ name: 'way' }, 'x']],
    ],
  ] as [string, () => Parameters<ReturnType<typeof tarStream>['entry']>[]][])(
    'writes nothing outside of the volume by %s',
    async (_, entries) => {
      await mkdir(outside());
      await writeFile(join(outside(), 'own'), 'data');
      await unpacked(await archiveOf(...entries())).catch(() => undefined);
      expect(await readdir(outside())).toEqual(['own']);
      expect(await readFile(join(outside(), 'own'), 'utf8')).toBe('data');
    },
  );
});

test('what follows the end of an archive is read to its end, though tar does not read it', async () => {
  await writeFile(join(pathOf('theirs'), 'note'), 'remember');
  const { bytes } = await packed();
  let given = 0;
  async function* source(): AsyncGenerator<Uint8Array> {
    for await (const piece of piecesOf(Buffer.concat([bytes, Buffer.alloc(8 * MiB)]))) {
      yield piece;
      given += piece.length;
    }
  }
  await archiver.unpack('ours', source(), signal());
  expect(await readFile(join(pathOf('ours'), 'note'), 'utf8')).toBe('remember');
  expect(given).toBe(bytes.length + 8 * MiB);
});
