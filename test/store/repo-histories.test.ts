import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isConflict } from '../../store/errors.ts';
import { keys, parseKey } from '../../store/keys.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { CommittableUnit, Unit } from '../../store/unit-of-work.ts';
import type { Resource } from '../../store/resource.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

const namespace = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';
const names = ['a', 'A', 'b', 'c'];
type Kind = 'project' | 'user';

const call = fc.record({
  what: fc.constantFrom('create', 'rename', 'label', 'observe', 'delete', 'release', 'require'),
  kind: fc.constantFrom<Kind>('project', 'user'),
  n: fc.nat(3),
  name: fc.constantFrom(...names),
});

/** Units of one round read before any of them is committed; then they race. */
const rounds = fc.array(fc.array(fc.array(call, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 }), {
  maxLength: 15,
});

type Call = typeof call extends fc.Arbitrary<infer C> ? C : never;

async function put(unit: Unit, repo: Repository, { what, kind, n, name }: Call): Promise<void> {
  const id = uuidv5(namespace, `${kind}/${n}`);
  if (what === 'create') {
    if (kind === 'project') unit.create('project', id, desiredState('project', { name }));
    else unit.create('user', id, desiredState('user', { email: name }));
    return;
  }
  const it = await repo.get(kind, id);
  if (!it) return;
  if (what === 'rename' && kind === 'project') unit.change(it as Resource<'project'>, (draft) => (draft.name = name));
  if (what === 'rename' && kind === 'user') unit.change(it as Resource<'user'>, (draft) => (draft.email = name));
  if (what === 'label') unit.label(it, { name });
  if (what === 'observe' && kind === 'project') unit.observe(it as Resource<'project'>, projectObserved('active', n));
  if (what === 'delete') unit.requestDelete(it);
  if (what === 'release') unit.release(it, 'project');
  if (what === 'require') unit.require(it);
}

async function prepare(repo: Repository, calls: readonly Call[]): Promise<CommittableUnit> {
  const unit = repo.begin();
  for (const one of calls) {
    try {
      await put(unit, repo, one);
    } catch (error) {
      // What makes no sense within one unit is refused by the call; the unit goes on without it.
      if (!(error instanceof Error && /^Cannot (create|change|write)/.test(error.message))) throw error;
    }
  }
  return unit;
}

/** Every name points to its one holder, every holder has its names, and no record is left without its object. */
async function expectWhole(store: Store, repo: Repository): Promise<void> {
  const { entries } = await store.list(keys.all);
  const ids = new Map<string, Set<string>>();
  const claimed: string[] = [];
  for (const { key, value } of entries) {
    const meaning = parseKey(key)!;
    if (meaning.area === 'unique') claimed.push(`${key} ${value}`);
    if (meaning.area === 'desired') ids.set(meaning.kind, (ids.get(meaning.kind) ?? new Set()).add(meaning.id));
  }
  const expected: string[] = [];
  for (const id of ids.get('project') ?? []) {
    const { name } = (await repo.get('project', id))!.desired;
    expected.push(`${keys.unique('acme', 'project', 'all', name)} ${JSON.stringify({ id })}`);
  }
  for (const id of ids.get('user') ?? []) {
    const { email } = (await repo.get('user', id))!.desired;
    expected.push(`${keys.unique('acme', 'user', 'all', email)} ${JSON.stringify({ id })}`);
  }
  expect(claimed.sort()).toEqual(expected.sort());
  for (const { key } of entries) {
    const meaning = parseKey(key)!;
    if (meaning.area === 'observed') expect(ids.get(meaning.kind)?.has(meaning.id)).toBe(true);
  }
}

it('keeps names and records whole through any race of any units', async () => {
  let [commits, refusals] = [0, 0];
  await fc.assert(
    fc.asyncProperty(rounds, async (all) => {
      const clock = new FakeClock();
      await using store = await openSqlite({ path: ':memory:', clock });
      const repo = openRepository(store, 'acme', clock);
      for (const round of all) {
        const units = await Promise.all(round.map((calls) => prepare(repo, calls)));
        for (const unit of units) {
          const before = await store.revision();
          try {
            const result = await unit.commit();
            expect(await store.revision()).toBe(result.committed ? Math.max(before, result.revision) : before);
            if (result.committed) commits++;
            else refusals++;
          } catch (error) {
            if (!isConflict(error)) throw error;
            expect(await store.revision()).toBe(before);
          }
          await expectWhole(store, repo);
        }
      }
    }),
    { numRuns: 200 },
  );
  expect(commits).toBeGreaterThan(100);
  expect(refusals).toBeGreaterThan(100);
}, 60_000);
