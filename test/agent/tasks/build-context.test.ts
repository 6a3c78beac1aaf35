import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ContextEntry } from '../../../agent/runtime/build-context.ts';
import { contextArchive, contextEntries } from '../../../agent/tasks/build-context.ts';
import { containedPath } from '../../../agent/disk/contained-path.ts';
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

async function archive(
  ignore: IgnoreFile = ignoreFile(''),
  told: (text: string) => void = () => undefined,
): Promise<string> {
  const context = { folder, dockerfile: Buffer.from('FROM scratch'), ignore, modifiedAt: new Date(0) };
  return (await buffer(contextArchive(context, told, AbortSignal.timeout(20_000)))).toString('latin1');
}

async function entries(): Promise<Map<string, ContextEntry>> {
  const context = { folder, ignore: ignoreFile(''), modifiedAt: new Date(0) };
  const all = await Array.fromAsync(contextEntries(context, AbortSignal.timeout(20_000)));
  return new Map(all.map((one) => [(one.rawPath ?? Buffer.from(one.path)).toString('latin1'), one]));
}

const outside = { code: 'path_outside_repository', retryable: false };

describe('SEC-15 a symbolic link in the build context', () => {
  test('that stays within it is sent as it is written', async () => {
    await put('tree/deep/name', 'hello');
    await put('tree/link', { link: 'deep/../deep/name' });
    expect(await archive()).toContain('deep/../deep/name');
  });

  test.each([
    ['an absolute one', '/etc/passwd'],
    ['one that leaves it', '../../secret'],
    ['one that leaves it by another link', 'b/../secret'],
    ['one to nothing', 'nothing'],
  ])('is text and never what it leads to: %s', async (_what, target) => {
    await put('secret', 'canary');
    await put('tree/a/b', { link: '..' });
    await put('tree/a/link', { link: target });
    expect((await entries()).get('a/link')).toMatchObject({ type: 'link', target });
    expect(await archive()).not.toContain('canary');
  });

  test('is left out of an archive, with a word, where the engine would refuse it for leading out', async () => {
    await put('tree/a/out', { link: '../../x' });
    await put('tree/a/far', { link: '/etc/passwd' });
    await put('tree/a/in', { link: '../x' });
    const told: string[] = [];
    const text = await archive(undefined, (one) => told.push(one));
    expect(told).toEqual(['Leaves out a/out: it leads out of the build context, to ../../x']);
    expect([text.includes('a/far'), text.includes('a/in'), text.includes('a/out')]).toEqual([true, true, false]);
  });

  test('to a folder is not followed', async () => {
    await put('other/file', 'canary');
    await put('tree/folder', { link: '../other' });
    expect([...(await entries()).keys()]).toEqual(['folder']);
  });
});

describe('names that are not UTF-8', () => {
  const name = (text: string) => Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(text, 'latin1')]);

  test('are sent as they are, also as those of folders and as what links lead to', async () => {
    await mkdir(name('caf\xe9'));
    await writeFile(name('caf\xe9/a\xff'), 'hello');
    await symlink(Buffer.from('caf\xe9', 'latin1'), name('link'));
    await put('tree/ü', 'text');
    const found = await entries();
    expect([...found.keys()]).toEqual(['caf\xe9', 'caf\xe9/a\xff', 'link', Buffer.from('ü').toString('latin1')]);
    const file = found.get('caf\xe9/a\xff');
    expect(file?.type === 'file' && Buffer.concat(await Array.fromAsync(file.read())).toString()).toBe('hello');
    expect(found.get('link')).toMatchObject({ rawTarget: Buffer.from('caf\xe9', 'latin1') });
  });

  test('are left out of an archive, which has no place for them, with a word', async () => {
    await writeFile(name('\xff'), 'hello');
    const told: string[] = [];
    expect(await archive(undefined, (one) => told.push(one))).not.toContain('hello');
    expect(told).toEqual(['Leaves out \uFFFD: its name is not UTF-8, which needs an engine with BuildKit']);
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
