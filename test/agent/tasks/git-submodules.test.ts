import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GitCredential } from '../../../agent-protocol/git-credential.ts';
import { git, type Git, type GitOptions } from '../../../agent/tasks/git.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { systemClock } from '../../../time/clock.ts';
import { createAuthority, type Authority } from '../../harness/certificates.ts';
import {
  gitHttpServer,
  gitHttpsServer,
  testRepositories,
  type GitFiles,
  type TestGitServer,
  type TestRepositories,
} from '../../harness/git-server.ts';
import { longTag } from '../../layer-report.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);

let repositories: TestRepositories;
let http: TestGitServer;
let work: WorkFolder;
let authority: Authority;
/** A repository that others name, and its head. */
let library: string;

beforeAll(async () => {
  repositories = await testRepositories();
  work = await openWorkFolder(join(repositories.folder, 'work'));
  http = await gitHttpServer(repositories);
  authority = await createAuthority();
  library = await repositories.create('library').then((it) => it.commit({ 'lib.js': 'first', more: 'more' }));
});
afterAll(async () => {
  expect(await readdir(join(repositories.folder, 'work'))).toEqual([]);
  await http[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
});

const open = (changes: Partial<GitOptions> = {}): Git =>
  git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true, folder: work, ...changes });

const declared = (path: string, url: string): string => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`;

/** A repository with one submodule of that address. */
async function naming(name: string, url: string, commit = library, more: GitFiles = {}): Promise<string> {
  const made = await repositories.create(name);
  await made.commit({
    main: 'main',
    'vendor/lib': { submodule: commit },
    '.gitmodules': declared('vendor/lib', url),
    ...more,
  });
  return `${http.url}/${name}.git`;
}

/** The files of a checkout, by path. */
async function filesOf(client: Git, url: string, submodules?: boolean, credential?: GitCredential) {
  await using folder = await work.make();
  await client.checkout({ url, branch: 'main', submodules, credential, withinMs: 60_000 }, folder.path, signal());
  const tree = join(folder.path, 'tree');
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  const files = entries.filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name));
  const texts = files.map(async (path) => [path.slice(tree.length + 1), await readFile(path, 'utf8')] as const);
  return Object.fromEntries(await Promise.all(texts));
}

describe('submodules', () => {
  test('are left out unless they are asked for', async () => {
    const url = await naming('off', `${http.url}/library.git`);
    for (const submodules of [undefined, false])
      expect(Object.keys(await filesOf(open(), url, submodules)).toSorted()).toEqual(['.gitmodules', 'main']);
  });

  test('come at the commit that the repository names, also by an address beside it', async () => {
    const shelf = await repositories.create('shelf');
    const first = await shelf.commit({ book: 'first' });
    await shelf.commit({ book: 'second' });
    for (const [name, address] of [
      ['whole', `${http.url}/shelf.git`],
      ['beside', '../shelf.git'],
    ] as const)
      expect(await filesOf(open(), await naming(name, address, first), true)).toMatchObject({
        main: 'main',
        'vendor/lib/book': 'first',
      });
  });

  test('come with their own, three deep and no deeper', { tags: [longTag] }, async () => {
    let below = library;
    let last = '../library.git';
    for (const name of ['deep-1', 'deep-2', 'deep-3']) {
      const made = await repositories.create(name);
      below = await made.commit({ [name]: name, sub: { submodule: below }, '.gitmodules': declared('sub', last) });
      last = `../${name}.git`;
    }
    expect(await filesOf(open(), `${http.url}/deep-3.git`, true)).toMatchObject({
      'sub/deep-2': 'deep-2',
      'sub/sub/deep-1': 'deep-1',
      'sub/sub/sub/lib.js': 'first',
    });
    const deeper = await naming('deep-4', last, below);
    await expect(filesOf(open(), deeper, true)).rejects.toMatchObject({
      code: 'invalid_source',
      message: expect.stringMatching(/^Submodule "vendor\/lib" of .*deeper than 3/),
    });
  });

  test('SEC-08 are bounded in number, and with the repository in size', { tags: [longTag] }, async () => {
    const many = await repositories.create('many');
    const paths = Array.from({ length: 21 }, (_, n) => `lib-${n}`);
    await many.commit({
      ...Object.fromEntries(paths.map((path) => [path, { submodule: library }])),
      '.gitmodules': paths.map((path) => declared(path, '../library.git')).join(''),
    });
    await expect(filesOf(open(), `${http.url}/many.git`, true)).rejects.toMatchObject({
      code: 'invalid_source',
      message: expect.stringContaining('more than 20 submodules'),
    });
    const url = await naming('sized', '../library.git');
    await expect(filesOf(open({ maxFiles: 4 }), url, true)).rejects.toMatchObject({ code: 'invalid_source' });
    await expect(filesOf(open({ maxPackBytes: 500 }), url, true)).rejects.toMatchObject({
      message: expect.stringContaining('is larger than'),
    });
    expect(await filesOf(open({ maxFiles: 5 }), url, true)).toMatchObject({ 'vendor/lib/more': 'more' });
  });

  test('that cannot be read fail with their path, their address and the cause', { tags: [longTag] }, async () => {
    const lost = await naming('lost', '../library.git', 'a'.repeat(40));
    await expect(filesOf(open(), lost, true)).rejects.toMatchObject({
      code: 'invalid_source',
      message: expect.stringMatching(
        /^Submodule "vendor\/lib" of .*library\.git does not give commit aaaa.*push it there/,
      ),
    });
    const absent = await naming('absent', '../nowhere.git');
    await expect(filesOf(open(), absent, true)).rejects.toMatchObject({ code: 'repository_unreachable' });
    const undeclared = await naming('undeclared', '../library.git', library, { other: { submodule: library } });
    await expect(filesOf(open(), undeclared, true)).rejects.toMatchObject({
      message: expect.stringContaining('.gitmodules has no url for it'),
    });
  });

  test.each([
    'ext::sh -c "touch /tmp/owned"',
    '--upload-pack=touch /tmp/owned',
    '/etc',
    'file:///etc',
    '../../../../../etc',
    '../library.git/../../etc',
    'https://user:secret@example.com/x.git',
    'git://example.com/x.git',
  ])('SEC-02 are fetched from no such address: %s', async (address) => {
    const url = await naming(`hostile-${Buffer.from(address).toString('hex').slice(-40)}`, address);
    await expect(filesOf(open(), url, true)).rejects.toMatchObject({ code: 'invalid_source' });
  });

  test.each(['https://127.0.0.1:1/x.git', 'https://10.1.2.3/x.git', 'ssh://git@169.254.169.254/x.git'])(
    'SEC-10 are fetched from no address that a repository may not have: %s',
    async (address) => {
      const name = `inner-${Buffer.from(address).toString('hex').slice(-40)}`;
      await naming(name, address);
      // the repository itself is read by its folder, where no address is judged
      const narrow = open({ protocols: ['file'], fileRoots: [repositories.folder], loopback: false });
      await expect(filesOf(narrow, `file://${repositories.folder}/${name}.git`, true)).rejects.toMatchObject({
        code: 'invalid_source',
        message: expect.stringMatching(/^Submodule "vendor\/lib" .*Repositories may not be fetched from/),
      });
    },
  );
});

describe('SEC-14 the credential of a repository', () => {
  const username = 'reader';

  test('reads submodules of the same host, and is sent to no other', async () => {
    const certificate = await authority.issue('git');
    const seen: (string | undefined)[] = [];
    const password = 'a token';
    await using own = await gitHttpsServer(repositories, certificate, { username, password });
    await using other = await gitHttpsServer(repositories, certificate, {
      username,
      password,
      asked: ({ headers }) => void seen.push(headers.authorization),
    });
    const credential: GitCredential = {
      type: 'token',
      host: own.host,
      username,
      token: password,
      ca_certificate: await readFile(certificate.ca, 'utf8'),
    };
    await naming('private', '../library.git');
    expect(await filesOf(open(), `${own.url}/private.git`, true, credential)).toMatchObject({
      'vendor/lib/lib.js': 'first',
    });
    await naming('public', `${http.url}/library.git`);
    expect(await filesOf(open(), `${own.url}/public.git`, true, credential)).toMatchObject({
      'vendor/lib/lib.js': 'first',
    });
    await naming('thief', `${other.url}/library.git`);
    await expect(filesOf(open(), `${own.url}/thief.git`, true, credential)).rejects.toMatchObject({
      code: 'repository_unreachable',
    });
    expect(seen.filter((it) => it !== undefined)).toEqual([]);
  });
});
