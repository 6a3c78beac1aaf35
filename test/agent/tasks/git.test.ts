import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../time/clock.ts';
import { git, type Git, type GitOptions } from '../../../agent/tasks/git.ts';
import { gitBranch, gitUrl, type GitProtocol } from '../../../agent/tasks/git-source.ts';
import { headReader } from '../../../agent/tasks/read-head.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import {
  gitHttpServer,
  gitSshServer,
  hangingServer,
  testRepositories,
  type TestRepositories,
  type TestRepository,
} from '../../harness/git-server.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

const exec = promisify(execFile);
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

let repositories: TestRepositories;
let shop: TestRepository;
let head: string;
let work: WorkFolder;

const open = (changes: Partial<GitOptions> = {}, clock: Clock = systemClock): Git =>
  git({ clock, protocols: ['http', 'file'], fileRoots: [repositories.folder], loopback: true, ...changes });

beforeAll(async () => {
  repositories = await testRepositories();
  work = await openWorkFolder(join(repositories.folder, 'work'));
  shop = await repositories.create('shop');
  await shop.commit({ old: 'old' });
  head = await shop.commit(
    { 'app/main.js': 'hello', 'bin/run': { executable: '#!/bin/sh' }, current: { link: 'app/main.js' } },
    { message: `First line ${'x'.repeat(300)}\n\nThe rest` },
  );
  await shop.commit({ other: 'other' }, { branch: 'feature/x' });
});
afterAll(async () => {
  await repositories[Symbol.asyncDispose]();
});

async function fails(working: Promise<unknown>): Promise<{ code: string; message: string; retryable: boolean }> {
  return working.then(
    () => Promise.reject(new Error('It did not fail')),
    (error: unknown) => error as { code: string; message: string; retryable: boolean },
  );
}

describe('a commit that is not the head of its branch', () => {
  test('is checked out by its id', async () => {
    await using http = await gitHttpServer(repositories);
    const old = await repositories.create('moved');
    const first = await old.commit({ version: 'one' });
    await old.commit({ version: 'two' });
    for (const url of [old.fileUrl, `${http.url}/moved.git`]) {
      await using folder = await work.make();
      const source = { url, branch: 'main', commit: first, withinMs: 60_000 };
      expect(await open().checkout(source, folder.path, signal())).toMatchObject({ commit: first });
      expect(await readFile(join(folder.path, 'tree', 'version'), 'utf8')).toBe('one');
    }
  });

  test('that is gone, or is none, fails and says what to do', async () => {
    const checkout = async (commit: string) => {
      await using folder = await work.make();
      return await fails(
        open().checkout({ url: shop.fileUrl, branch: 'main', commit, withinMs: 60_000 }, folder.path, signal()),
      );
    };
    expect(await checkout('a'.repeat(40))).toMatchObject({
      code: 'invalid_source',
      message: expect.stringContaining('deploy the head of the branch'),
    });
    expect(await checkout('--upload-pack=x')).toMatchObject({ code: 'invalid_source' });
  });
});

describe('a repository', () => {
  test('is checked out by folder, by HTTP and by ssh', async () => {
    await using http = await gitHttpServer(repositories);
    await using ssh = await gitSshServer(repositories);
    const client = open({ sshConfig: ssh.config });
    for (const url of [shop.fileUrl, `${http.url}/shop.git`, `${http.url}/shop`, `${ssh.url}/shop.git`]) {
      await using folder = await work.make();
      const checkout = await client.checkout({ url, branch: 'main', withinMs: 60_000 }, folder.path, signal());
      expect(checkout.commit, url).toBe(head);
      expect(checkout.message).toBe(`First line ${'x'.repeat(189)}`);
      expect(await readFile(join(folder.path, 'tree/app/main.js'), 'utf8')).toBe('hello');
      expect((await stat(join(folder.path, 'tree/bin/run'))).mode & 0o111).not.toBe(0);
      expect((await readdir(join(folder.path, 'tree'))).toSorted()).toEqual(['app', 'bin', 'current']);
      expect(await client.head({ url, branch: 'main' }, signal())).toBe(head);
    }
  });

  test('is read at the branch that was asked for', async () => {
    await using folder = await work.make();
    await open().checkout({ url: shop.fileUrl, branch: 'feature/x', withinMs: 60_000 }, folder.path, signal());
    expect(await readdir(join(folder.path, 'tree'))).toEqual(['other']);
  });

  test('that has no such branch says so', async () => {
    await using folder = await work.make();
    const missing = {
      code: 'branch_not_found',
      retryable: false,
      message: `Repository ${shop.fileUrl} has no branch or tag absent: its default branch is main`,
    };
    expect(await fails(open().head({ url: shop.fileUrl, branch: 'absent' }, signal()))).toMatchObject(missing);
    expect(
      await fails(open().checkout({ url: shop.fileUrl, branch: 'absent', withinMs: 60_000 }, folder.path, signal())),
    ).toMatchObject(missing);
  });

  test('is read at a tag, with a message or without one, and at the id of a commit', { tags: [longTag] }, async () => {
    await using http = await gitHttpServer(repositories);
    const made = await repositories.create('tagged');
    const first = await made.commit({ version: 'one' });
    const inside = (...args: string[]) =>
      exec('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid', '-C', made.path, ...args]);
    await inside('tag', 'v1.0', first);
    await inside('tag', '--annotate', '--message=First', 'v1.1', first);
    const second = await made.commit({ version: 'two' });
    await inside('tag', 'main', first); // a branch has the same name
    for (const url of [made.fileUrl, `${http.url}/tagged.git`])
      for (const [branch, commit] of Object.entries({ 'v1.0': first, 'v1.1': first, [first]: first, main: second })) {
        await using folder = await work.make();
        expect(await open().head({ url, branch }, signal()), branch).toBe(commit);
        expect(await open().checkout({ url, branch, withinMs: 60_000 }, folder.path, signal()), branch).toMatchObject({
          commit,
        });
      }
  });

  test.each<[string, string, string]>([
    ['is empty', 'main', 'is empty: push a commit to branch main'],
    ['has no commit by a part of its id', 'abcdef1', 'a commit is named by all digits of its id'],
  ])('that %s says so', async (name, branch, words) => {
    const made = await repositories.create(name.replaceAll(' ', '-'));
    if (branch !== 'main') await made.commit({ a: 'a' });
    await using folder = await work.make();
    const expected = { code: 'branch_not_found', retryable: false, message: expect.stringContaining(words) as string };
    const source = { url: made.fileUrl, branch };
    expect(await fails(open().head(source, signal()))).toMatchObject(expected);
    expect(await fails(open().checkout({ ...source, withinMs: 60_000 }, folder.path, signal()))).toMatchObject(
      expected,
    );
  });

  test('tells what its files do not have: submodules, and what Git LFS has elsewhere', async () => {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`;
    const made = await repositories.create('partly');
    await made.commit({ 'a/model.bin': pointer, 'b.txt': 'x'.repeat(130), 'lib/c': { submodule: 'a'.repeat(40) } });
    await using folder = await work.make();
    const source = { url: made.fileUrl, branch: 'main', withinMs: 60_000 };
    expect(await open().checkout(source, folder.path, signal())).toMatchObject({
      leftOut: { submodules: ['lib/c'], pointers: ['a/model.bin'] },
    });
  });

  test('that is not there, or is closed, is unreachable', async () => {
    await using http = await gitHttpServer(repositories);
    await using ssh = await gitSshServer(repositories);
    for (const url of [
      `file://${repositories.folder}/absent.git`,
      `${http.url}/absent.git`,
      'http://127.0.0.1:1/shop.git',
      `${ssh.url}/shop.git`, // without a key
    ]) {
      expect(await fails(open().head({ url, branch: 'main' }, signal())), url).toMatchObject({
        code: 'repository_unreachable',
        retryable: true,
      });
    }
  });

  test('that never answers is unreachable at the deadline, and no process is left', async () => {
    await using server = await hangingServer();
    await using folder = await work.make();
    const clock = new FakeClock();
    const url = `${server.url}/shop.git`;
    const failing = fails(open({}, clock).checkout({ url, branch: 'main', withinMs: 60_000 }, folder.path, signal()));
    await server.connected;
    await clock.advance(60_000);
    expect(await failing).toMatchObject({
      code: 'repository_unreachable',
      message: `Repository ${url} did not answer in time: git did not end within 60 s`,
    });
    expect(await processesNaming(url)).toEqual([]);
  });

  test('is given up with the reason of the signal, and no process is left', async () => {
    await using server = await hangingServer();
    const enough = new AbortController();
    const url = `${server.url}/shop.git`;
    const failing = fails(open().head({ url, branch: 'main' }, enough.signal));
    await server.connected;
    enough.abort(new Error('Enough'));
    expect((await failing).message).toBe('Enough');
    expect(await processesNaming(url)).toEqual([]);
  });

  test('that stands for too many files is refused before they are unpacked', async () => {
    const bomb = await repositories.create('bomb');
    await bomb.commit(Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`${n}/${'x'.repeat(200)}`, 'x'])));
    await using folder = await work.make();
    const small = git({ clock: systemClock, protocols: ['file'], fileRoots: ['/'], loopback: true, maxFiles: 100 });
    expect(
      await fails(small.checkout({ url: bomb.fileUrl, branch: 'main', withinMs: 60_000 }, folder.path, signal())),
    ).toMatchObject({
      code: 'invalid_source',
      message: `Repository ${bomb.fileUrl} has more than 100 files`,
    });
    expect(await readdir(join(folder.path, 'tree'))).toEqual([]);
  });
});

describe('SEC-08 a repository', () => {
  test(
    'whose pack is small, and whose files are not, is read within the bound of memory or refused',
    { tags: [longTag] },
    async () => {
      await using http = await gitHttpServer(repositories);
      const large = await repositories.create('large');
      const zeros = '\0'.repeat(24 * 1024 * 1024);
      await large.commit({ one: zeros, two: `${zeros}2` });
      const url = `${http.url}/large.git`;
      const source = { url, branch: 'main', withinMs: 60_000 };
      await using folder = await work.make();
      const small = open({ maxMemoryBytes: 40 * 1024 * 1024 });
      expect(await fails(small.checkout(source, folder.path, signal()))).toMatchObject({
        code: 'invalid_source',
        retryable: false,
        message: expect.stringContaining(`Repository ${url} cannot be read with 40 MiB of memory`),
      });
      expect(await processesNaming(url)).toEqual([]);
      await using other = await work.make();
      await open({ maxMemoryBytes: 256 * 1024 * 1024 }).checkout(source, other.path, signal());
      expect((await stat(join(other.path, 'tree/two'))).size).toBe(zeros.length + 1);
    },
  );

  test('whose commit has an endless first line is refused with the cause', async () => {
    const talker = await repositories.create('talker');
    const parent = await talker.commit({ a: 'a' });
    const message = join(repositories.folder, 'message');
    await writeFile(message, 'x'.repeat(1_100_000));
    const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid'];
    const inside = async (...args: string[]): Promise<string> =>
      (await exec('git', [...identity, '-C', talker.path, ...args])).stdout.trim();
    const commit = await inside('commit-tree', `${parent}^{tree}`, '-F', message);
    await inside('update-ref', 'refs/heads/main', commit);
    await using folder = await work.make();
    const source = { url: talker.fileUrl, branch: 'main', withinMs: 60_000 };
    expect(await fails(open().checkout(source, folder.path, signal()))).toMatchObject({
      code: 'invalid_source',
      retryable: false,
      message: expect.stringContaining("the first line of the commit's message is very long"),
    });
  });
});

describe('a repository larger than its bounds', () => {
  const MiB = 1024 ** 2;

  const remedy =
    'keep large files out of it, deploy an image that was built elsewhere, or set SETPOINT_GIT_MAX_BYTES of the agent on this server';

  test.each<[string, Partial<GitOptions>, string, string]>([
    [
      'of what is fetched',
      { maxPackBytes: MiB },
      'random',
      `Repository URL is not fetched as it is larger than 1 MiB, all that a build may fetch: ${remedy}`,
    ],
    [
      'of its files',
      { maxTreeBytes: 1.5 * MiB },
      'zeros',
      `Repository URL is not checked out as its files are larger than 1536 KiB, all that a build may have: ${remedy}`,
    ],
  ])('is refused: %s', async (_, bound, content, message) => {
    await using http = await gitHttpServer(repositories);
    const made = await repositories.create(`large-${content}`);
    const file = content === 'random' ? randomBytes(2 * MiB).toString('base64') : '0'.repeat(2 * MiB);
    await made.commit({ file });
    const url = `${http.url}/large-${content}.git`;
    {
      await using folder = await work.make();
      const checkout = open(bound).checkout({ url, branch: 'main', withinMs: 60_000 }, folder.path, signal());
      expect(await fails(checkout)).toMatchObject({
        code: 'invalid_source',
        retryable: false,
        message: message.replace('URL', url),
      });
      expect(await readdir(join(folder.path, 'tree'))).toEqual([]);
    }
    expect(await processesNaming(url)).toEqual([]);
    expect(await readdir(join(repositories.folder, 'work'))).toEqual([]);
  });

  test('is given up while its pack still comes', async () => {
    const clock = new FakeClock();
    await using http = await gitHttpServer(repositories);
    const made = await repositories.create('endless');
    await made.commit({ file: randomBytes(1024 * 1024).toString('base64') });
    await using endless = await neverEnding(http.url);
    await using folder = await work.make();
    const source = { url: `${endless.url}/endless.git`, branch: 'main', withinMs: 60_000 };
    const failing = fails(open({ maxPackBytes: 64 * 1024 }, clock).checkout(source, folder.path, signal()));
    await until('the pack grows', async () => {
      const names = await readdir(join(folder.path, 'git/objects/pack')).catch(() => []);
      const sizes = await Promise.all(names.map((one) => stat(join(folder.path, 'git/objects/pack', one))));
      return sizes.some(({ size }) => size > 64 * 1024);
    });
    await clock.advance(500);
    expect(await failing).toMatchObject({ message: expect.stringContaining('it is larger than 64 KiB') as string });
    expect(await processesNaming(source.url)).toEqual([]);
  });
});

describe('the files between two commits', () => {
  /** A repository whose second commit changes, adds, removes and moves; its host gives trees without files if asked. */
  async function moved(name: string, settings: Record<string, string> = {}) {
    const made = await repositories.create(name);
    for (const [key, value] of Object.entries({ 'uploadpack.allowFilter': 'true', ...settings }))
      await exec('git', ['-C', made.path, 'config', key, value]);
    const since = await made.commit({ 'a/same': 'same', 'a/changed': '1', 'a/removed': 'x', 'a/moved': 'moved' });
    await made.commit({ 'a/same': 'same', 'a/never told': 'x', 'a/moved': 'moved' });
    const commit = await made.commit({ 'a/same': 'same', 'a/changed': '2', 'b/moved': 'moved', 'ü/new': 'new' });
    return { ...made, since, commit };
  }
  const files = ['a/changed', 'a/moved', 'a/removed', 'b/moved', 'ü/new'];

  test('are found by folder, by HTTP and by ssh', async () => {
    await using http = await gitHttpServer(repositories);
    await using ssh = await gitSshServer(repositories);
    const { since, commit, fileUrl } = await moved('moved');
    const client = open({ sshConfig: ssh.config });
    for (const url of [fileUrl, `${http.url}/moved.git`, `${http.url}/moved`, `${ssh.url}/moved.git`]) {
      await using folder = await work.make();
      const changes = await client.changes({ url, commit }, since, folder.path, signal());
      expect(changes, url).toEqual({ files, truncated: false });
      const objects = await exec('git', [
        '-C',
        join(folder.path, 'git'),
        'cat-file',
        '--batch-all-objects',
        '--batch-check=%(objecttype)',
      ]);
      expect(objects.stdout, 'no file was fetched').not.toContain('blob');
    }
  });

  test('are found with a host that ignores that files are not wanted', { tags: [longTag] }, async () => {
    await using http = await gitHttpServer(repositories);
    const { since, commit } = await moved('unfiltered', { 'uploadpack.allowFilter': 'false' });
    await using folder = await work.make();
    const url = `${http.url}/unfiltered.git`;
    expect(await open().changes({ url, commit }, since, folder.path, signal())).toEqual({ files, truncated: false });
  });

  test.each([
    ['refuses the filter', /filter blob:none/],
    ['refuses a commit by its id', /want [0-9a-f]{40}/],
  ])('are not known where the host %s', async (name, refused) => {
    const { since, commit, path } = await moved(name.replaceAll(' ', '-'));
    let refusals = 0;
    await using http = await gitHttpServer(repositories, (body) => {
      if (!refused.test(body)) return false;
      refusals += 1;
      return true;
    });
    const url = `${http.url}/${basename(path)}`;
    await using folder = await work.make();
    expect(await open().head({ url, branch: 'main' }, signal())).toBe(commit);
    expect(await open().changes({ url, commit }, since, folder.path, signal())).toBeUndefined();
    expect(refusals).toBeGreaterThan(0);
  });

  test('are none for one commit, and not known for what is no commit or was lost', async () => {
    await using folder = await work.make();
    const changes = (since: string) =>
      open().changes({ url: shop.fileUrl, commit: head }, since, folder.path, signal());
    expect(await changes(head)).toEqual({ files: [], truncated: false });
    for (const since of ['', 'main', '--output=x', head.slice(0, 12), 'f'.repeat(40)])
      expect(await changes(since), since).toBeUndefined();
  });

  test('are not known at the deadline, and no process is left', async () => {
    await using server = await hangingServer();
    await using folder = await work.make();
    const clock = new FakeClock();
    const url = `${server.url}/shop.git`;
    const asked = open({}, clock).changes({ url, commit: head }, 'f'.repeat(40), folder.path, signal());
    await server.connected;
    await clock.advance(10_000);
    expect(await asked).toBeUndefined();
    expect(await processesNaming(url)).toEqual([]);
  });

  test('are given up with the reason of the signal', async () => {
    await using server = await hangingServer();
    await using folder = await work.make();
    const enough = new AbortController();
    const source = { url: `${server.url}/shop.git`, commit: head };
    const failing = fails(open().changes(source, 'f'.repeat(40), folder.path, enough.signal));
    await server.connected;
    enough.abort(new Error('Enough'));
    expect((await failing).message).toBe('Enough');
  });

  test('are listed as far as their limits go', { tags: [longTag] }, async () => {
    const many = await repositories.create('many');
    const since = await many.commit({});
    const all = Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`${String(n).padStart(4, '0')}`, 'x']));
    const commit = await many.commit(all);
    await using folder = await work.make();
    const changes = await open().changes({ url: many.fileUrl, commit }, since, folder.path, signal());
    expect(changes).toEqual({ files: Object.keys(all).toSorted().slice(0, 1000), truncated: true });
    await using second = await work.make();
    const long = await many.commit(
      Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`${n}${'x'.repeat(200)}`, 'x'])),
    );
    const bounded = await open().changes({ url: many.fileUrl, commit: long }, since, second.path, signal());
    expect(bounded?.truncated).toBe(true);
    expect(bounded?.files.join('').length).toBeLessThanOrEqual(64 * 1024);
    await using third = await work.make();
    const small = open({ maxFiles: 100 });
    expect(await small.changes({ url: many.fileUrl, commit }, since, third.path, signal())).toBeUndefined();
  });

  test('SEC-02 have no character that steers or hides text', async () => {
    const hostile = await repositories.create('hostile');
    const since = await hostile.commit({});
    const commit = await hostile.commit({
      'a\u001b[2Jb': 'x',
      'line\nbreak': 'x',
      'right\u202eleft': 'x',
      '$(id)': 'x',
    });
    await using folder = await work.make();
    const changes = await open().changes({ url: hostile.fileUrl, commit }, since, folder.path, signal());
    expect(changes?.files.toSorted()).toEqual(['$(id)', 'a\uFFFD[2Jb', 'line\uFFFDbreak', 'right\uFFFDleft']);
  });

  test('come with the head when they are asked for, and the head comes without them', { tags: [longTag] }, async () => {
    const { since, commit, fileUrl } = await moved('asked');
    const read = headReader({ git: open(), folder: work });
    const query = { url: fileUrl, branch: 'main' };
    expect(await read({ ...query, since: undefined }, signal())).toEqual({ commit });
    expect(await read({ ...query, since }, signal())).toEqual({ commit, changed_files: files });
    expect(await read({ ...query, since: 'f'.repeat(40) }, signal())).toEqual({ commit });
    expect(await readdir(join(repositories.folder, 'work'))).toEqual([]);
  });
});

describe('the newest tag of a pattern', () => {
  test('comes with the commit that it leads to, with a message or without', async () => {
    const tagged = await repositories.create('tagged');
    const first = await tagged.commit({ a: 'one' });
    const find = (pattern: string, url = tagged.fileUrl) => open().tag({ url, pattern }, signal());
    expect(await find('v1.*')).toEqual({ matching: 0 });
    await tagged.tag('v1.2.0', first, 'The first one');
    const second = await tagged.commit({ a: 'two' });
    for (const name of ['v1.1.0', 'v1.3.0-rc.1', 'web/v1.9.0', 'v1.x']) await tagged.tag(name, second);
    expect(await find('v1.*')).toEqual({ newest: { tag: 'v1.2.0', commit: first }, matching: 4 });
    expect(await find('v1.*-*')).toEqual({ newest: { tag: 'v1.3.0-rc.1', commit: second }, matching: 1 });
    expect(await find('*/v1.*')).toEqual({ newest: { tag: 'web/v1.9.0', commit: second }, matching: 1 });
    expect(await find('v2.*')).toEqual({ matching: 0 });
    // a branch of such a name is no tag
    await tagged.commit({ a: 'three' }, { branch: 'v2.0.0' });
    expect(await find('v2.*')).toEqual({ matching: 0 });
    await expect(find('--upload-pack=x')).rejects.toMatchObject({ code: 'invalid_source' });
    await expect(find('v1.*', `${tagged.fileUrl}x`)).rejects.toMatchObject({ code: 'repository_unreachable' });
  });
});

describe('whether a commit follows another one', () => {
  test('is told of a history that grew, of one that was rewritten, and of what is not there', async () => {
    const grown = await repositories.create('grown');
    const first = await grown.commit({ a: 'one' });
    await grown.grow();
    const head = await grown.grow();
    const lost = await grown.commit({ a: 'two' }, { branch: 'other' });
    const follows = async (commit: string, earlier: string, url = grown.fileUrl) => {
      await using folder = await work.make();
      return await open().follows({ url, commit }, earlier, folder.path, signal());
    };
    expect(await follows(head, first)).toBe(true);
    expect(await follows(head, head)).toBe(true);
    expect(await follows(first, head)).toBe(false);
    expect(await follows(head, lost)).toBe(false);
    expect(await follows(head, 'f'.repeat(40))).toBe(false);
    expect(await follows(head, '--output=x')).toBeUndefined();
    expect(await follows('f'.repeat(40), head)).toBeUndefined();
    const read = headReader({ git: open(), folder: work });
    const query = { url: grown.fileUrl, branch: 'main', since: undefined };
    expect(await read({ ...query, after: first }, signal())).toEqual({ commit: head, follows: true });
    expect(await read({ ...query, after: lost }, signal())).toEqual({ commit: head, follows: false });
    expect(await readdir(join(repositories.folder, 'work'))).toEqual([]);
  });

  test('is not known of a history that is cut off', async () => {
    const whole = await repositories.create('whole');
    const first = await whole.commit({ a: 'one' });
    await whole.grow();
    const head = await whole.grow();
    const path = join(repositories.folder, 'cut.git');
    await exec('git', ['clone', '--quiet', '--bare', '--depth=2', whole.fileUrl, path]);
    await using folder = await work.make();
    const source = { url: `file://${path}`, commit: head };
    expect(await open().follows(source, first, folder.path, signal())).toBeUndefined();
  });

  test('is not known at the deadline, and no process is left', async () => {
    await using server = await hangingServer();
    await using folder = await work.make();
    const clock = new FakeClock();
    const url = `${server.url}/shop.git`;
    const asked = open({}, clock).follows({ url, commit: head }, 'f'.repeat(40), folder.path, signal());
    await server.connected;
    await clock.advance(5_000);
    expect(await asked).toBeUndefined();
    expect(await processesNaming(url)).toEqual([]);
  });

  test('is not asked for the same commit, and the head is answered where that fails', async () => {
    let asked = 0;
    const git: Git = {
      ...open(),
      follows: async () => {
        asked += 1;
        throw new Error('The disk is full');
      },
    };
    const read = headReader({ git, folder: work });
    const query = { url: shop.fileUrl, branch: 'main', since: undefined };
    expect(await read({ ...query, after: head }, signal())).toEqual({ commit: head, follows: true });
    expect(asked).toBe(0);
    expect(await read({ ...query, after: 'f'.repeat(40) }, signal())).toEqual({ commit: head });
    expect(asked).toBe(1);
    const enough = new AbortController();
    const ending = headReader({
      git: {
        ...git,
        follows: async (_source, _earlier, _folder, signal) => {
          enough.abort(new Error('Enough'));
          signal.throwIfAborted();
          return true;
        },
      },
      folder: work,
    });
    expect((await fails(ending({ ...query, after: 'f'.repeat(40) }, enough.signal))).message).toBe('Enough');
  });
});

describe('SEC-02 an address of a repository', () => {
  const all = new Set<GitProtocol>(['https', 'ssh', 'http', 'file']);

  test.each([
    'https://example.com/shop.git',
    'https://git.example.com:8443/group/sub-group/shop',
    'ssh://git@example.com/shop.git',
    'ssh://git@example.com:2222/~user/shop.git',
    'git@example.com:group/shop.git',
    'http://127.0.0.1:3000/shop',
    'file:///srv/git/shop.git',
    'https://[2001:db8::1]/shop.git',
  ])('may be %s', (url) => {
    expect(gitUrl(url, all).url).toBe(url);
  });

  test.each([
    '',
    '--upload-pack=touch /tmp/x',
    '-oProxyCommand=x',
    'ext::sh -c id',
    'fd::17',
    '/etc/passwd',
    '../shop',
    'shop.git',
    'https://user:password@example.com/shop.git',
    'https://token@example.com/shop.git',
    'ssh://-oProxyCommand=x/shop.git',
    'ssh://git@-oProxyCommand=x/shop.git',
    '-oProxyCommand=x@example.com:shop.git',
    'git@example.com:-x',
    'ssh://git@example.com/-x',
    'git@-oProxyCommand=x:shop',
    'https://example.com/shop.git\n--upload-pack=x',
    'https://example.com/shop git',
    'https://example.com/../../etc',
    'https://example.com/$(id)',
    'https://example.com/`id`',
    'file:///srv/../etc/passwd',
    'ftp://example.com/shop.git',
    `https://example.com/${'x'.repeat(512)}`,
  ])('may not be %j', (url) => {
    expect(() => gitUrl(url, all)).toThrow(expect.objectContaining({ code: 'invalid_source', retryable: false }));
  });

  test('is refused by a protocol that this server does not allow', async () => {
    const strict = open({ protocols: [] });
    expect(await fails(strict.head({ url: shop.fileUrl, branch: 'main' }, signal()))).toMatchObject({
      code: 'invalid_source',
      message: `Repositories may not be fetched by file on this server: ${shop.fileUrl}`,
    });
    const elsewhere = open({ fileRoots: ['/srv/git'] });
    expect(await fails(elsewhere.head({ url: shop.fileUrl, branch: 'main' }, signal()))).toMatchObject({
      code: 'invalid_source',
    });
    const nowhere = open({ fileRoots: [] });
    expect(await fails(nowhere.head({ url: shop.fileUrl, branch: 'main' }, signal()))).toMatchObject({
      code: 'invalid_source',
      message: `Sources by file need a folder that this server's agent was given with --git-file-roots: ${shop.fileUrl}`,
    });
  });

  test('SEC-10 does not lead to this machine or to the metadata of its cloud', async () => {
    const strict = open({ protocols: ['http'], loopback: false });
    for (const host of ['127.0.0.1', 'localhost', '169.254.169.254', '0.0.0.0', '[::1]', '[::ffff:127.0.0.1]']) {
      expect(
        await fails(strict.head({ url: `http://${host}/shop.git`, branch: 'main' }, signal())),
        host,
      ).toMatchObject({
        code: 'invalid_source',
      });
    }
  });
});

describe('SEC-02 a branch', () => {
  test.each(['main', 'feature/x', 'v1.2.3', 'fix#12', 'ünïcode', 'a@b'])('may be %s', (name) => {
    expect(gitBranch(name)).toBe(name);
  });

  test.each([
    '',
    '-x',
    '--upload-pack=x',
    'a..b',
    'a b',
    'a~1',
    'a^',
    'a:b',
    'a?',
    'a*',
    'a[b',
    'a\\b',
    '@',
    'a@{1}',
    'a.lock',
    'a/.b',
    '/a',
    'a/',
    'a//b',
    'a.',
    'a\n',
    'x'.repeat(201),
  ])('may not be %j', (name) => {
    expect(() => gitBranch(name)).toThrow(expect.objectContaining({ code: 'invalid_source' }));
  });
});

/** Command lines of this machine's processes that contain the text. */
/** A server in between that sends the first half MiB of an answer and no more. */
async function neverEnding(real: string): Promise<{ url: string } & AsyncDisposable> {
  const most = 512 * 1024;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { 'content-length': _length, host: _host, ...headers } = request.headers;
    const body = await buffer(request);
    const given = await fetch(`${real}${request.url}`, {
      method: request.method ?? 'GET',
      headers: headers as Record<string, string>,
      ...(request.method === 'POST' && { body }),
    });
    const bytes = Buffer.from(await given.arrayBuffer());
    response.writeHead(given.status, { 'content-type': given.headers.get('content-type') ?? '' });
    if (bytes.length > most) response.write(bytes.subarray(0, most));
    else response.end(bytes);
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function processesNaming(text: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line.includes(text));
}
