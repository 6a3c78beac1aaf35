import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { CloneCache } from '../../../agent/tasks/git-clones.ts';
import { git } from '../../../agent/tasks/git.ts';
import { repositoryFiles } from '../../../agent/tasks/read-repository.ts';
import { openWorkFolder } from '../../../agent/tasks/work-folder.ts';
import { repositoryLimits } from '../../../agent-protocol/messages.ts';
import { systemClock } from '../../../time/clock.ts';
import { gitHttpServer, testRepositories } from '../../harness/git-server.ts';
import type { TestRepositories, TestRepository } from '../../harness/git-server.ts';

let repositories: TestRepositories;
let shop: TestRepository;
beforeEach(async () => {
  repositories = await testRepositories();
  shop = await repositories.create('shop');
});
afterEach(() => repositories[Symbol.asyncDispose]());

async function read(paths: string[], commit?: string, check = async (): Promise<void> => undefined, manifests = false) {
  const files = repositoryFiles({
    git: git({ clock: systemClock, protocols: ['file'], fileRoots: [repositories.folder], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
    disk: { check },
    clock: systemClock,
  });
  const lines: string[] = [];
  const query = { repository_url: shop.fileUrl, branch: 'main', paths, commit, manifests, project_id: 'p' };
  const answer = await files(query, (text) => lines.push(text), AbortSignal.timeout(20_000));
  return { ...answer, lines };
}
const base64 = (text: string) => Buffer.from(text).toString('base64');

it('reads files at the head of a branch or at a commit, through links that stay in the repository', async () => {
  const first = await shop.commit({ a: 'one', 'b/c': 'two', link: { link: 'b/c' } }, { message: 'First' });
  const second = await shop.commit({ a: 'other' });
  expect(await read(['a', 'b/c', 'link'], first)).toMatchObject({
    commit: first,
    commit_message: 'First',
    files: [{ content: base64('one') }, { content: base64('two') }, { content: base64('two') }],
  });
  const { commit, files, lines } = await read(['a', 'b/c']);
  expect({ commit, files }).toEqual({ commit: second, files: [{ content: base64('other') }, { lack: 'missing' }] });
  expect(lines).toEqual([expect.stringContaining('Reading a, b/c of file://'), expect.stringContaining(second)]);
});

it('reads no folder and nothing that is too large, alone or with the others', async () => {
  const { fileBytes, bytes } = repositoryLimits;
  const full = 'x'.repeat(fileBytes);
  await shop.commit({ 'folder/x': '', one: full, two: full, three: 'x', large: `${full}x` });
  expect(bytes).toBe(2 * fileBytes);
  const { files } = await read(['folder', 'large', 'one', 'two', 'three']);
  expect(files.map((it) => ('lack' in it ? it.lack : 'content'))).toEqual([
    'not_file',
    'too_large',
    'content',
    'content',
    'too_large',
  ]);
});

it('finds the manifests in a folder at any depth, and reads a file that is named whatever its name is', async () => {
  await shop.commit({
    'deploy/b.yaml': 'b',
    'deploy/a/c.yml': 'c',
    'deploy/a/d.JSON': 'd',
    'deploy/a/e.txt': 'e',
    'deploy/.hidden/f.yaml': 'f',
    'deploy/link': { link: 'a' },
    'deploy/link.txt': { link: 'b.yaml' },
    'other.txt': 'other',
  });
  const find = async (...paths: string[]) => (await read(paths, undefined, undefined, true)).files;
  expect(await find('deploy', 'other.txt', 'none')).toEqual([
    { path: 'deploy/a/c.yml', content: base64('c') },
    { path: 'deploy/a/d.JSON', content: base64('d') },
    { path: 'deploy/b.yaml', content: base64('b') },
    { path: 'other.txt', content: base64('other') },
    { path: 'none', lack: 'missing' },
  ]);
  expect((await find('.')).map(({ path }) => path)).toEqual(['deploy/a/c.yml', 'deploy/a/d.JSON', 'deploy/b.yaml']);
  const many = Array.from({ length: repositoryLimits.files + 1 }, (_, n) => [`deploy/${n}.yaml`, ''] as const);
  await shop.commit(Object.fromEntries(many));
  await expect(find('deploy')).rejects.toMatchObject({ code: 'invalid_source' });
});

it.each([
  ['a link', { 'deploy/link.yaml': { link: '../other' }, other: '' }, 'deploy/link.yaml is a link'],
  ['a path that is too long', { [`deploy/${'a/'.repeat(130)}b.yaml`]: '' }, 'is longer than 255 characters'],
])('leaves out no manifest of a folder: %s is refused', async (_what, files, message) => {
  await shop.commit({ 'deploy/a.yaml': 'a', ...files });
  await expect(read(['deploy'], undefined, undefined, true)).rejects.toMatchObject({
    code: 'invalid_source',
    message: expect.stringContaining(message),
  });
});

it('follows no link out of the repository, and no path', async () => {
  await shop.commit({ link: { link: '/etc/passwd' }, up: { link: '../../../../../etc' } });
  for (const path of ['link', 'up/passwd', '../x', '/etc/passwd', 'a/../../x'])
    await expect(read([path]), path).rejects.toMatchObject({ code: 'path_outside_repository' });
});

it('reads nothing while the disk is full', async () => {
  await shop.commit({ a: 'one' });
  const full = async (): Promise<void> => {
    throw new RuntimeFailure('no_space', 'The disk is full', { retryable: true });
  };
  await expect(read(['a'], undefined, full)).rejects.toMatchObject({ code: 'no_space' });
});

it('fetches a commit once, for each project that reads it', async () => {
  const head = await shop.commit({ a: 'one', b: 'two' });
  const clones = await CloneCache.open(join(repositories.folder, 'clones'), systemClock);
  const files = repositoryFiles({
    git: git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true, clones }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
    disk: { check: async () => undefined },
    clock: systemClock,
  });
  let fetches = 0;
  await using host = await gitHttpServer(repositories, (body) => {
    if (body.includes('command=fetch')) fetches += 1;
    return false;
  });
  const query = { repository_url: `${host.url}/shop.git`, branch: 'main', commit: head };
  const ask = (project_id: string, path: string) =>
    files({ ...query, project_id, paths: [path] }, () => undefined, AbortSignal.timeout(20_000));
  expect((await ask('p', 'a')).files).toEqual([{ content: base64('one') }]);
  expect((await ask('p', 'b')).files).toEqual([{ content: base64('two') }]);
  expect(fetches).toBe(1);
  await ask('q', 'b');
  expect(fetches).toBe(2);
});
