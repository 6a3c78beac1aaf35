import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GitCredential } from '../../../agent-protocol/git-credential.ts';
import { CloneCache } from '../../../agent/tasks/git-clones.ts';
import { git } from '../../../agent/tasks/git.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { systemClock } from '../../../time/clock.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import {
  gitHttpServer,
  testRepositories,
  type TestGitServer,
  type TestRepositories,
  type TestRepository,
} from '../../harness/git-server.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);

let repositories: TestRepositories;
let http: TestGitServer;
let work: WorkFolder;
/** Fetches that the server was asked for. */
let fetches: string[] = [];

beforeAll(async () => {
  repositories = await testRepositories();
  work = await openWorkFolder(join(repositories.folder, 'work'));
  http = await gitHttpServer(repositories, (body) => {
    if (body.includes('command=fetch')) fetches.push(body);
    return false;
  });
});
afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
});

const token = (text: string): GitCredential => ({ type: 'token', host: 'example.com', username: 'x', token: text });

describe('a clone', () => {
  /** A repository, the cache of an agent, and its builds. */
  async function setUp(name: string) {
    const made: TestRepository = await repositories.create(name);
    await made.commit({ one: 'one', same: 'same' });
    const folder = join(repositories.folder, `clones-${name}`);
    const clones = await CloneCache.open(folder, systemClock);
    const client = git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true, clones });
    const url = `${http.url}/${name}.git`;
    /** The files of a build, and how often it fetched. */
    const build = async (project: string | undefined, commit?: string) => {
      fetches = [];
      await using task = await work.make();
      const source = { url, branch: 'main', commit, project, withinMs: 60_000 };
      const { commit: built } = await client.checkout(source, task.path, signal());
      const tree = join(task.path, 'tree');
      const names = (await readdir(tree)).toSorted();
      const files = Object.fromEntries(
        await Promise.all(names.map(async (file) => [file, await readFile(join(tree, file), 'utf8')] as const)),
      );
      return { built, files, fetched: fetches.length };
    };
    return { made, folder, build };
  }

  test('is what the next build of the project begins with: it transfers no pack', async () => {
    const { build, folder } = await setUp('again');
    const first = await build('shop');
    expect(first).toMatchObject({ fetched: 1, files: { one: 'one', same: 'same' } });
    expect(await readdir(folder)).toHaveLength(1);
    expect(await build('shop')).toEqual({ ...first, fetched: 0 });
    expect(await build('shop', first.built)).toEqual({ ...first, fetched: 0 });
  });

  test('gets only what is new, also of a branch that was moved back', async () => {
    const { made, build, folder } = await setUp('moved');
    const { built: old } = await build('shop');
    const next = await made.commit({ one: 'two', same: 'same' });
    expect(await build('shop')).toMatchObject({ built: next, files: { one: 'two', same: 'same' } });
    expect(fetches.join()).toContain(`have ${old}`);
    expect(await build('shop', old)).toMatchObject({ built: old, fetched: 0, files: { one: 'one' } });
    const gone = await made.commit({ other: 'x' });
    expect(await build('shop')).toMatchObject({ built: gone, files: { other: 'x' } });
    expect(await readdir(folder)).toHaveLength(1);
  });

  test('is of no other project, and of none that is not named', async () => {
    const { build, folder } = await setUp('alone');
    expect(await build('shop')).toMatchObject({ fetched: 1 });
    expect(await build('bakery')).toMatchObject({ fetched: 1 });
    expect(await build(undefined)).toMatchObject({ fetched: 1 });
    expect(await readdir(folder)).toHaveLength(2);
  });

  test('that is damaged is fetched anew', async () => {
    const { build, folder } = await setUp('damaged');
    const first = await build('shop');
    const [name = ''] = await readdir(folder);
    const packs = join(folder, name, 'objects/pack');
    for (const file of await readdir(packs)) {
      await rm(join(packs, file));
      await writeFile(join(packs, file), 'damaged');
    }
    expect(await build('shop')).toMatchObject({ built: first.built, files: first.files });
    expect(await build('shop')).toEqual({ ...first, fetched: 0 });
  });

  test('is not kept of a build that failed', async () => {
    const { made, build, folder } = await setUp('failed');
    await build('shop');
    await expect(build('shop', 'a'.repeat(40))).rejects.toMatchObject({ code: 'invalid_source' });
    expect(await readdir(folder)).toEqual([]);
    const next = await made.commit({ one: 'two' });
    expect(await build('shop')).toMatchObject({ built: next, fetched: 1 });
  });
});

describe('the clones of a server', () => {
  const kilobyte = 1024;
  const of = (project: string, credential?: GitCredential) => ({
    project,
    url: 'https://example.com/x.git',
    credential,
  });

  async function setUp(bounds: { maxBytes?: number; maxClones?: number } = {}) {
    const place = await work.make();
    const clock = new FakeClock();
    const cache = await CloneCache.open(join(place.path, 'clones'), clock, bounds);
    const put = async (project: string, bytes = kilobyte, packs = 1, credential?: GitCredential): Promise<void> => {
      const folder = join(place.path, crypto.randomUUID());
      await mkdir(join(folder, 'objects/pack'), { recursive: true });
      for (let n = 0; n < packs; n += 1) await writeFile(join(folder, `objects/pack/${n}.pack`), Buffer.alloc(bytes));
      await cache.put(of(project, credential), folder);
    };
    const take = (project: string, credential?: GitCredential) =>
      cache.take(of(project, credential), join(place.path, crypto.randomUUID()));
    const kept = () => readdir(join(place.path, 'clones'));
    return { place, clock, cache, put, take, kept };
  }

  test('are bounded in bytes and number: those that were used last stay', async () => {
    const { place, cache, put, take, kept } = await setUp({ maxBytes: 4 * kilobyte, maxClones: 3 });
    await using _ = place;
    for (const project of ['one', 'two', 'three']) await put(project);
    expect(await take('one')).toBe(true);
    await put('one');
    await put('four');
    expect(await Promise.all(['two', 'three', 'one', 'four'].map((it) => take(it)))).toEqual([false, true, true, true]);
    await put('small');
    await put('large', 2 * kilobyte);
    await put('larger', 2 * kilobyte);
    expect(cache.bytes).toBe(4 * kilobyte);
    expect(await kept()).toHaveLength(2);
    await put('too large', 2 * kilobyte + 1);
    await put('of too many fetches', 1, 31);
    expect(await Promise.all(['too large', 'of too many fetches', 'small'].map((it) => take(it)))).toEqual([
      false,
      false,
      false,
    ]);
  });

  test('are found with the same credential only', async () => {
    const { place, put, take } = await setUp();
    await using _ = place;
    await put('one', kilobyte, 1, token('a'));
    expect(await take('one')).toBe(false);
    expect(await take('one', token('b'))).toBe(false);
    expect(await take('one', token('a'))).toBe(true);
    expect(await take('one', token('a'))).toBe(false);
  });

  test('go with their project, after a week without use, and all at once where the disk needs it', async () => {
    const { place, clock, cache, put, take, kept } = await setUp();
    await using _ = place;
    await put('gone');
    await put('stays');
    await cache.retain(new Set(['stays']));
    expect(await kept()).toHaveLength(1);
    await clock.advance(8 * 24 * 3_600_000);
    await put('new');
    await cache.retain(new Set(['stays', 'new']));
    expect(await take('stays')).toBe(false);
    await cache.clear();
    expect(await kept()).toEqual([]);
    expect(cache.bytes).toBe(0);
  });

  test('of an earlier agent are removed', async () => {
    const { place, put, kept } = await setUp();
    await using _ = place;
    await put('one');
    const cache = await CloneCache.open(join(place.path, 'clones'), systemClock);
    expect(await kept()).toEqual([]);
    expect(await cache.take(of('one'), join(place.path, 'x'))).toBe(false);
  });
});
