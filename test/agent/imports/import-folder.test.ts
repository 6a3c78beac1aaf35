import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ImportFolder } from '../../../agent/imports/import-folder.ts';

let root: string;
let folder: ImportFolder;
let socket: Server;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-imports-'));
  folder = await ImportFolder.open(join(root, 'imports'));
  await mkdir(join(root, 'imports', 'deep'));
  await mkdir(join(root, 'imports-beside'));
  await writeFile(join(root, 'imports', 'deep', 'dump.sql'), 'SELECT 1;');
  await writeFile(join(root, 'imports-beside', 'secret'), 'secret');
  await symlink('../../imports-beside/secret', join(root, 'imports', 'deep', 'out'));
  await symlink('../imports-beside', join(root, 'imports', 'folder-out'));
  await symlink('deep/dump.sql', join(root, 'imports', 'within'));
  socket = createServer().listen(join(root, 'imports', 'socket'));
  await once(socket, 'listening');
});
afterEach(async () => {
  socket.close();
  await rm(root, { recursive: true });
});

async function read(path: string): Promise<string> {
  await using file = await folder.file(path);
  return await file.readFile('utf8');
}

test('a file below the folder is opened by its path there, and by its whole path', async () => {
  expect(await read('deep/dump.sql')).toBe('SELECT 1;');
  expect(await read(join(root, 'imports', 'deep', 'dump.sql'))).toBe('SELECT 1;');
  expect(await read('within')).toBe('SELECT 1;');
});

test.each([
  ['deep/out', 'leads out of it by a link'],
  ['folder-out/secret', 'leads out of it by a link'],
  ['../imports-beside/secret', 'is not below it'],
  ['deep/../../imports-beside/secret', 'is not below it'],
  ['/etc/passwd', 'is not below it'],
  ['deep', 'is no file'],
  ['socket', 'cannot be read'],
  ['', 'is not below it'],
  ['a\0b', 'is not below it'],
  ['none', 'is not there'],
])('%j is refused', async (path, why) => {
  await expect(read(path)).rejects.toMatchObject({ code: 'invalid_path', message: expect.stringContaining(why) });
});
