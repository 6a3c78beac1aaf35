import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Refused } from '../../../web/api.ts';
import { Collections } from '../../../web/frame/collections.ts';
import type { Collection } from '../../../web/frame/collections.ts';
import { Store } from '../../../web/frame/store.ts';
import type { Objects } from '../../../web/model.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.stubGlobal('requestAnimationFrame', () => 1);
  vi.stubGlobal('cancelAnimationFrame', () => undefined);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const login = { tenant: 'acme', token: 'secret', email: 'a@example.com' };
const project = (id: string) => ({ id, name: id }) as Objects['project'];

/** A list that has been read once, with `a` and `b`, and is read again after a gap, when `b` is gone. */
async function afterGap(failures: readonly Error[]) {
  const store = new Store();
  const collections = new Collections(login, store);
  const left = [...failures];
  let reads = 0;
  const projects: Collection<'project'> = {
    name: 'project',
    read: async () => {
      reads += 1;
      const failure = reads === 1 ? undefined : left.shift();
      if (failure !== undefined) throw failure;
      return {
        kind: 'project',
        objects: reads === 1 ? [project('a'), project('b')] : [project('a')],
        covers: () => true,
      };
    },
  };
  collections.readAll();
  collections.reading(projects);
  await vi.advanceTimersByTimeAsync(0);
  collections.readAll();
  await vi.advanceTimersByTimeAsync(0);
  const shown = (): string[] => {
    store.flush();
    return [...store.all('project').keys()];
  };
  return { shown, reads: () => reads };
}

describe('a list that is read again after changes were missed', () => {
  it('is read until it was read, as the server may be busy', async () => {
    const { shown, reads } = await afterGap([new Refused(503, 'busy'), new TypeError('no answer')]);
    expect([shown(), reads()]).toEqual([['a', 'b'], 2]);
    await vi.advanceTimersByTimeAsync(2000);
    expect([shown(), reads()]).toEqual([['a'], 4]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reads()).toBe(4);
  });

  it('is not read before the server wants that', async () => {
    const { reads } = await afterGap([new Refused(429, 'too many', undefined, 30)]);
    await vi.advanceTimersByTimeAsync(29_000);
    expect(reads()).toBe(2);
    await vi.advanceTimersByTimeAsync(1000);
    expect(reads()).toBe(3);
  });

  it('is not read again by one who may not read it', async () => {
    const { reads } = await afterGap([new Refused(403, 'no')]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reads()).toBe(2);
  });
});

it.each([
  ['without an answer', new TypeError('no answer'), 2, { state: 'ready' }],
  ['as the server is busy', new Refused(503, 'busy'), 2, { state: 'ready' }],
  ['as it may not be read', new Refused(403, 'no'), 1, { state: 'failed', message: 'no' }],
])('a list whose first reading fails %s says so, and what it is then', async (_, failure, times, then) => {
  const collections = new Collections(login, new Store());
  let reads = 0;
  const projects: Collection<'project'> = {
    name: 'project',
    read: () => {
      reads += 1;
      if (reads === 1) return Promise.reject(failure);
      return Promise.resolve({ kind: 'project', objects: [], covers: () => true });
    },
  };
  collections.readAll();
  collections.reading(projects);
  await vi.advanceTimersByTimeAsync(0);
  expect(collections.reading(projects)).toEqual({ state: 'failed', message: failure.message });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([collections.reading(projects), reads]).toEqual([then, times]);
});

it('a list that is asked for again stays, however many others are asked for meanwhile', async () => {
  const collections = new Collections(login, new Store());
  const reads = new Map<string, number>();
  const listOf = (name: string): Collection<'project'> => ({
    name,
    read: () => {
      reads.set(name, (reads.get(name) ?? 0) + 1);
      return Promise.resolve({ kind: 'project', objects: [], covers: () => true });
    },
  });
  collections.readAll();
  for (let nth = 0; nth < 120; nth += 1) {
    collections.reading(listOf('project'));
    collections.reading(listOf(`other ${nth}`));
  }
  await vi.advanceTimersByTimeAsync(0);
  expect([reads.get('project'), reads.size]).toEqual([1, 121]);
});
