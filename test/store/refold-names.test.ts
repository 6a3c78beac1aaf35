import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { foldName } from '../../store/fold-name.ts';
import { keys } from '../../store/keys.ts';
import { refoldNames } from '../../store/refold-names.ts';
import { openRepository } from '../../store/repo.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { createTenant } from '../../store/tenants.ts';
import { commit } from '../../store/unit.ts';
import { desiredState } from '../harness/states.ts';

describe('the form in which names are compared', () => {
  it.each([
    ['Straße', 'STRASSE'],
    ['Stra\u1e9ee', 'strasse'],
    ['\ufb01x', 'FIX'],
    ['ΟΔΟΣ', 'οδος'],
    ['ὈΔΥΣΣΕΎΣ', 'ὀδυσσεύς'],
    ['É', 'e\u0301'],
    ['ŉ', 'ʼN'],
    ['ΐ', 'ι\u0308\u0301'],
    ['Ａ', 'a'],
    ['\u212a', 'k'],
    ['ſ', 'S'],
  ])('is one for %s and %s', (one, other) => {
    expect(foldName(one)).toBe(foldName(other));
  });

  it.each([
    ['ı', 'i'],
    ['o', 'ö'],
    ['ss', 's'],
  ])('is another for %s and %s', (one, other) => {
    expect(foldName(one)).not.toBe(foldName(other));
  });

  it('stays the same when it is made again, for every character', () => {
    for (let code = 0; code < 0x1_10_00; code += 1) {
      const char = String.fromCodePoint(code);
      expect(foldName(foldName(char)), code.toString(16)).toBe(foldName(char));
    }
  });
});

describe('a store of an earlier release', () => {
  let store: Store & AsyncDisposable;

  beforeEach(async () => {
    store = await openSqlite({ path: ':memory:', clock: systemClock });
    await createTenant(store, 'default', systemClock);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const repo = () => openRepository(store, 'default', systemClock);
  const legacyKey = (name: string): string =>
    `${keys.allUnique('default').prefix}project/all/${encodeURIComponent(name.normalize('NFKC').toLowerCase())}`;

  /** A project as it was stored when names were compared in lower case. */
  async function project(name: string): Promise<string> {
    const id = randomUUID();
    const unit = repo().begin();
    unit.create(
      'project',
      id,
      desiredState('project', {
        name: `new ${id}`,
        owner_id: randomUUID(),
        default_environment_id: randomUUID(),
      }),
    );
    await commit(unit);
    const entry = (await store.get(keys.desired('default', 'project', id)))!;
    const value = entry.value.replace(`new ${id}`, name);
    await store.txn({
      if: [{ key: legacyKey(name), is: 'absent' }],
      then: [
        { put: entry.key, value },
        { delete: keys.unique('default', 'project', 'all', `new ${id}`) },
        { put: legacyKey(name), value: JSON.stringify({ id }) },
      ],
    });
    return id;
  }

  const holder = (name: string) => repo().idByName('project', 'all', name);
  const names = async () => (await store.list(keys.allUnique('default'))).entries.map(({ key }) => key);

  it('finds its names again, whatever they are called', async () => {
    const ids = [await project('Straße'), await project('ΟΔΟΣ'), await project('web')];
    expect(await holder('STRASSE')).toBeUndefined();
    expect(await refoldNames(store)).toEqual({ moved: 2, clashes: [] });
    expect([await holder('STRASSE'), await holder('οδος'), await holder('WEB')]).toEqual(ids);
    expect(await names()).toHaveLength(3);
    expect(await refoldNames(store)).toEqual({ moved: 0, clashes: [] });
    const unit = repo().begin();
    unit.change((await repo().get('project', ids[0]!))!, (draft) => void (draft.name = 'Gasse'));
    await commit(unit);
    expect([await holder('strasse'), await holder('GASSE')]).toEqual([undefined, ids[0]]);
  });

  it('keeps two objects whose names have become one, and neither takes the name from the other', async () => {
    const [sharp, plain] = [await project('Straße'), await project('STRASSE')];
    const { moved, clashes } = await refoldNames(store);
    expect(moved).toBe(0);
    expect(clashes).toMatchObject([{ tenant: 'default', kind: 'project' }]);
    expect(JSON.stringify(clashes)).toContain(sharp);
    expect(await holder('straße')).toBe(plain);
    const renamed = repo().begin();
    renamed.change((await repo().get('project', sharp))!, (draft) => void (draft.name = 'Weg'));
    await commit(renamed);
    expect([await holder('strasse'), await holder('weg')]).toEqual([plain, sharp]);
  });

  it('keeps the name of one when the other is deleted', async () => {
    const [sharp, plain] = [await project('Straße'), await project('STRASSE')];
    await refoldNames(store);
    const it = (await repo().get('project', sharp))!;
    const unit = repo().begin();
    unit.requestDelete(it);
    for (const finalizer of it.meta.finalizers) unit.release(it, finalizer);
    await commit(unit);
    expect(await repo().get('project', sharp)).toBeUndefined();
    expect(await holder('strasse')).toBe(plain);
  });
});
