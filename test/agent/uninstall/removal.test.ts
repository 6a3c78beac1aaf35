import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { keptImports, placesOf, removeInstallation } from '../../../agent/uninstall/removal.ts';

const execute = promisify(execFile);
let root: string;
let home: string;
let data: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-removal-'));
  home = join(root, 'home');
  data = join(root, 'data');
  await mkdir(join(home, 'versions/1.0.0'), { recursive: true });
  await mkdir(join(data, 'logs'), { recursive: true });
  await mkdir(join(data, 'imports'));
  await writeFile(join(data, 'identity.json'), '{}');
  await writeFile(join(data, 'logs/1'), 'lines');
});
afterEach(() => rm(root, { recursive: true }));

describe('the removal of an installation', () => {
  test('leaves the dumps that the operator put into the folder for imports, also when it is repeated', async () => {
    await mkdir(join(data, 'imports/shop'));
    await writeFile(join(data, 'imports/shop/monday.sql'), 'rows');
    const places = placesOf(home, data);
    expect(await keptImports(places)).toBe(join(data, 'imports'));
    for (let time = 0; time < 2; time++) {
      await removeInstallation(places);
      expect(await readdir(root)).toEqual(['data']);
      expect(await readdir(data)).toEqual(['imports']);
      expect(await readFile(join(data, 'imports/shop/monday.sql'), 'utf8')).toBe('rows');
    }
  });

  test('leaves them in a folder of another name, too', async () => {
    const imports = join(data, 'for/imports');
    await mkdir(imports, { recursive: true });
    await writeFile(join(imports, 'monday.sql'), 'rows');
    await writeFile(join(data, 'for/other'), 'state');
    await removeInstallation(placesOf(home, data, imports));
    expect(await readdir(data)).toEqual(['for']);
    expect(await readdir(join(data, 'for'))).toEqual(['imports']);
    expect(await readdir(imports)).toEqual(['monday.sql']);
  });

  test('leaves nothing where there are none, and of a folder that is a link what that leads to', async () => {
    const elsewhere = join(root, 'elsewhere');
    await mkdir(elsewhere);
    await writeFile(join(elsewhere, 'monday.sql'), 'rows');
    await rm(join(data, 'imports'), { recursive: true });
    await symlink(elsewhere, join(data, 'imports'));
    await removeInstallation(placesOf(home, data));
    expect(await readdir(root)).toEqual(['elsewhere']);
    expect(await readdir(elsewhere)).toEqual(['monday.sql']);
    await mkdir(join(data, 'imports'), { recursive: true });
    await writeFile(join(data, 'uninstall'), '');
    expect(await keptImports(placesOf(home, data))).toBeUndefined();
    await removeInstallation(placesOf(home, data));
    expect(await readdir(root)).toEqual(['elsewhere']);
  });

  test('empties a folder that is a file system of its own, and removes all else', async () => {
    await execute('mount', ['--bind', data, data]);
    try {
      await removeInstallation({
        ...placesOf(home, data),
        settings: join(root, 'agent.env'),
        files: [join(root, 'log')],
      });
    } finally {
      await execute('umount', [data]);
    }
    expect(await readdir(root)).toEqual(['data']);
    expect(await readdir(data)).toEqual([]);
  });

  test('goes on after a failure, tells of it at the end, and keeps the executables', async () => {
    await mkdir(join(root, 'busy'));
    await writeFile(join(root, 'busy/file'), '');
    await execute('mount', ['--bind', '--options', 'ro', join(root, 'busy'), join(root, 'busy')]);
    const places = { ...placesOf(home, data), settings: join(root, 'busy/file'), files: [join(root, 'log')] };
    await writeFile(join(root, 'log'), 'lines');
    try {
      await execute('mount', ['--options', 'remount,bind,ro', join(root, 'busy')]);
      await expect(removeInstallation(places)).rejects.toThrow('Cannot remove all of the agent');
    } finally {
      await execute('umount', [join(root, 'busy')]);
    }
    expect((await readdir(root)).toSorted()).toEqual(['busy', 'home']);
    await removeInstallation(places);
    expect(await readdir(root)).toEqual(['busy']);
  });

  test('removes no folder that is none of an agent', async () => {
    await rm(join(data, 'identity.json'));
    await expect(removeInstallation(placesOf(home, data))).rejects.toThrow(`Cannot remove ${data}`);
    expect(await readdir(data)).toEqual(['imports', 'logs']);
  });
});
