import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { contextArchive } from '../../../agent/tasks/build-context.ts';
import { containedPath } from '../../../agent/tasks/contained-path.ts';
import { ignoreFile, type IgnoreFile } from '../../../agent/tasks/ignore-file.ts';

let base: string;
let folder: string;

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'setpoint-context-')));
  folder = join(base, 'tree');
  await mkdir(folder);
});
afterEach(() => rm(base, { recursive: true }));

async function put(path: string, content: string | { link: string }): Promise<void> {
  const at = join(base, path);
  await mkdir(dirname(at), { recursive: true });
  if (typeof content === 'string') await writeFile(at, content);
  else await symlink(content.link, at);
}

async function archive(ignore: IgnoreFile = ignoreFile('')): Promise<string> {
  const context = { folder, dockerfile: Buffer.from('FROM scratch'), ignore, modifiedAt: new Date(0) };
  return (await buffer(contextArchive(context, AbortSignal.timeout(20_000)))).toString('latin1');
}

const outside = { code: 'path_outside_repository', retryable: false };

describe('SEC-15 a symbolic link in the build context', () => {
  test('that stays within it is sent as it is written', async () => {
    await put('tree/deep/name', 'hello');
    await put('tree/link', { link: 'deep/../deep/name' });
    expect(await archive()).toContain('deep/../deep/name');
  });

  test('that leaves it by another link is refused, though each by itself seems to stay', async () => {
    await put('secret', 'canary');
    await put('tree/a/b', { link: '..' });
    await put('tree/c', { link: 'a/b/../secret' });
    await expect(archive()).rejects.toMatchObject(outside);
  });

  test('that leaves it to a folder whose name begins with its own is refused', async () => {
    await put('tree-evil/secret', 'canary');
    await put('tree/link', { link: '../tree-evil/secret' });
    await expect(archive()).rejects.toMatchObject(outside);
  });
});

describe('SEC-15 a path in the repository', () => {
  test('that leads to a folder whose name begins with the root is refused', async () => {
    await put('tree-evil/Dockerfile', 'FROM scratch');
    await put('tree/out', { link: '../tree-evil' });
    await expect(containedPath(folder, 'out/Dockerfile')).rejects.toMatchObject(outside);
  });

  test('is found below it', async () => {
    await put('tree/app/Dockerfile', 'FROM scratch');
    expect(await containedPath(folder, './app/Dockerfile')).toBe(join(folder, 'app/Dockerfile'));
    expect(await containedPath(folder, 'app/absent')).toBeUndefined();
  });
});

describe('.dockerignore', () => {
  test('leaves out what it names, and keeps exceptions below a folder that it leaves out', async () => {
    for (const path of ['docs/a', 'docs/keep/b', 'src/c']) await put(`tree/${path}`, path);
    const text = await archive(ignoreFile('docs\n!docs/keep'));
    expect(text).toContain('docs/keep/b');
    expect(text).toContain('src/c');
    expect(text).not.toContain('docs/a');
  });

  test('SEC-08 that takes too long for the files ends the build with a reason', async () => {
    await put(`tree/${'a'.repeat(200)}`, '');
    await expect(archive(ignoreFile('**/*a*a*a*a*b', 100))).rejects.toMatchObject({
      code: 'invalid_source',
      retryable: false,
    });
  });
});
