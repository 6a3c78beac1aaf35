import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { effect } from '@preact/signals';
import { Store } from '../../../web/frame/store.ts';
import type { Objects } from '../../../web/model.ts';

beforeEach(() => {
  vi.stubGlobal('requestAnimationFrame', () => 1);
  vi.stubGlobal('cancelAnimationFrame', () => undefined);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

const project = (id: string, name = id) => ({ id, name }) as Objects['project'];
const ids = (store: Store): string[] => [...store.all('project').keys()];

describe('the objects that the console shows', () => {
  it('change together at the next frame of the screen', () => {
    const store = new Store();
    let painted = 0;
    const end = effect(() => {
      store.all('project');
      painted += 1;
    });
    for (const id of ['a', 'b', 'c']) store.change({ kind: 'project', id, object: project(id) });
    expect([painted, ids(store)]).toEqual([1, []]);
    store.flush();
    expect([painted, ids(store)]).toEqual([2, ['a', 'b', 'c']]);
    end();
  });

  it('repaint what shows one of them only when that one changes', () => {
    const store = new Store();
    store.change({ kind: 'project', id: 'a', object: project('a') });
    store.flush();
    let painted = 0;
    const end = effect(() => {
      store.get('project', 'a');
      painted += 1;
    });
    store.change({ kind: 'project', id: 'b', object: project('b') });
    store.flush();
    expect(painted).toBe(1);
    store.change({ kind: 'project', id: 'a', object: project('a', 'renamed') });
    store.flush();
    expect([painted, store.get('project', 'a')?.name]).toEqual([2, 'renamed']);
    end();
  });

  it('keep what changed while a list was read', async () => {
    const store = new Store();
    await store.take(() => Promise.resolve({ kind: 'project', objects: [project('gone')], covers: () => true }));
    await store.take(() => {
      store.change({ kind: 'project', id: 'new', object: project('new') });
      store.change({ kind: 'project', id: 'changed', object: project('changed', 'newer') });
      store.change({ kind: 'project', id: 'deleted', object: undefined });
      const objects = [project('changed', 'older'), project('deleted'), project('kept')];
      return Promise.resolve({ kind: 'project', objects, covers: () => true });
    });
    expect(ids(store).toSorted()).toEqual(['changed', 'kept', 'new']);
    expect(store.get('project', 'changed')?.name).toBe('newer');
  });

  it('lose by a list only what the list would have', async () => {
    const store = new Store();
    const all = [project('ours-1'), project('theirs')];
    await store.take(() => Promise.resolve({ kind: 'project', objects: all, covers: () => true }));
    await store.take(() =>
      Promise.resolve({ kind: 'project', objects: [], covers: ({ id }) => id.startsWith('ours') }),
    );
    expect(ids(store)).toEqual(['theirs']);
  });

  it('keep the newest deployments of each application', () => {
    const store = new Store();
    for (let number = 1; number <= 30; number += 1) {
      const object = { id: `d${number}`, application_id: 'a', number } as Objects['deployment'];
      store.change({ kind: 'deployment', id: object.id, object });
    }
    store.flush();
    const kept = [...store.all('deployment').values()].map(({ number }) => number);
    expect([Math.min(...kept), Math.max(...kept), kept.length]).toEqual([11, 30, 20]);
  });
});
