import fc from 'fast-check';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { Clock } from '../../time/clock.ts';
import { systemClock } from '../../time/clock.ts';
import { compacted, isConflict, rewound, unavailable } from '../../store/errors.ts';
import { keys, parseKey } from '../../store/keys.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { Mirror, ObjectChange } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { holderOf, Usage } from '../../store/usage.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { eagerClock } from '../harness/eager-clock.ts';
import { settle } from '../harness/fake-clock.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { expectMirrored } from './mirrored.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

const namespace = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';
const tenants = ['acme', 'other'] as const;
const owners = [0, 1, 2].map((n) => uuidv5(namespace, `owner/${n}`));

interface Step {
  what:
    | 'create'
    | 'change'
    | 'label'
    | 'observe'
    | 'delete'
    | 'touch key'
    | 'drop key'
    | 'cut'
    | 'claim compacted'
    | 'claim rewound'
    | 'compact'
    | 'compact unseen'
    | 'replace'
    | 'replace silently'
    | 'breathe';
  /** Which object, key or value. */
  n: number;
  tenant: (typeof tenants)[number];
}

const often = ['create', 'change', 'label', 'observe', 'delete', 'touch key', 'drop key', 'breathe'] as const;
const seldom = [
  'cut',
  'claim compacted',
  'claim rewound',
  'compact',
  'compact unseen',
  'replace',
  'replace silently',
] as const;

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...often) },
    { weight: 1, arbitrary: fc.constantFrom(...seldom) },
  ),
  n: fc.nat(5),
  tenant: fc.constantFrom(...tenants),
});

/** Eager but for what is to tell that a watch is dead. */
const clock: Clock = {
  ...eagerClock,
  timer: (ms, fn) => (ms < 60_000 ? eagerClock : systemClock).timer(ms, fn),
};

/** One store, the mirror of it, and what its listeners know. */
class World implements AsyncDisposable {
  readonly store: InterruptibleStore;
  readonly mirror: Mirror;
  readonly registry = new Registry();
  readonly known = new Map<string, ReadonlyResource>();
  readonly knownKeys = new Map<string, string>();
  #backend: Store & AsyncDisposable;

  static async open(): Promise<World> {
    return new World(await openSqlite({ path: ':memory:' }));
  }

  private constructor(backend: Store & AsyncDisposable) {
    this.#backend = backend;
    this.store = new InterruptibleStore(backend);
    const log = pino({ level: 'silent' });
    this.mirror = startMirror({ store: this.store, clock, log, registry: this.registry, checkEveryMs: 1 });
    this.mirror.subscribe((change) => this.#hear(change));
    this.mirror.subscribeKeys(({ key, before, after }) => {
      expect(this.knownKeys.get(key)).toBe(before);
      if (after === undefined) this.knownKeys.delete(key);
      else this.knownKeys.set(key, after);
    });
  }

  /** What was told first is where the next change begins. */
  #hear({ tenant, kind, id, before, after, part }: ObjectChange): void {
    const key = keys.desired(tenant, kind, id);
    const known = this.known.get(key);
    if (!(part === 'observed' && known === after)) expect(known).toBe(before);
    if (after) this.known.set(key, after);
    else this.known.delete(key);
  }

  async counted(name: string): Promise<number> {
    const metrics = await this.registry.getMetricsAsJSON();
    return metrics.find((metric) => metric.name === name)?.values[0]?.value ?? Number.NaN;
  }

  async replace(error: Error): Promise<void> {
    const next = await openSqlite({ path: ':memory:' });
    const before = this.#backend;
    this.#backend = next;
    this.store.replace(next, error);
    await before[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mirror.close();
    await this.#backend[Symbol.asyncDispose]();
  }
}

async function take({ what, n, tenant }: Step, world: World): Promise<void> {
  const { store, mirror } = world;
  const repo = openRepository(store, tenant, systemClock);
  switch (what) {
    case 'touch key':
      await store.txn({ if: [], then: [{ put: keys.replica(`r${n}`), value: `${store.incarnation} ${n}` }] });
      return;
    case 'drop key':
      await store.txn({ if: [], then: [{ delete: keys.replica(`r${n}`) }] });
      return;
    case 'cut':
      store.cut(unavailable('cut'));
      return;
    case 'claim compacted':
      store.cut(compacted(mirror.applied));
      return;
    case 'claim rewound':
      store.cut(rewound(store.incarnation, 'so the test says'));
      return;
    case 'compact':
      await store.compact(await store.revision());
      return;
    case 'compact unseen':
      store.cut(unavailable('cut'));
      await changeObject('change', n, repo);
      await store.compact(await store.revision());
      return;
    case 'replace':
      await world.replace(rewound('another', 'replaced'));
      return;
    case 'replace silently':
      await world.replace(unavailable('replaced'));
      return;
    case 'breathe':
      await settle(n);
      return;
    default:
      await changeObject(what, n, repo);
  }
}

type ObjectStep = 'create' | 'change' | 'label' | 'observe' | 'delete';

async function changeObject(what: ObjectStep, n: number, repo: Repository): Promise<void> {
  const id = uuidv5(namespace, `project/${n}`);
  const it = await repo.get('project', id);
  const unit = repo.begin();
  if (what === 'create')
    unit.create('project', id, desiredState('project', { name: `p${n}`, owner_id: owners[n % 3]! }));
  else if (it) changeIn(unit, what, it);
  try {
    await unit.commit();
  } catch (error) {
    if (!isConflict(error)) throw error;
  }
}

function changeIn(unit: ReturnType<Repository['begin']>, what: ObjectStep, it: Resource<'project'>): void {
  const revision = it.meta.desiredRevision;
  if (what === 'change')
    unit.change(it, (draft) => {
      draft.description = `after ${revision}`;
      draft.owner_id = owners[revision % 3]!;
    });
  if (what === 'label') unit.label(it, { tier: `t${revision % 2}` });
  if (what === 'observe') unit.observe(it, projectObserved(revision % 2 ? 'active' : 'deleting', it.meta.generation));
  if (what === 'delete') {
    unit.requestDelete(it);
    unit.release(it, 'project');
  }
}

/** What the mirror counted as it went is what a count of the store is. */
async function expectUsage(store: Store, mirror: Mirror): Promise<void> {
  const counted = new Usage();
  const holders = new Set<string>();
  for (let after: string | undefined; ;) {
    const page = await store.list(keys.all, after === undefined ? {} : { after });
    for (const { key, value } of page.entries) {
      const meaning = parseKey(key);
      if (meaning !== undefined) counted.set(key, value, meaning);
    }
    if (page.next === undefined) break;
    after = page.next;
  }
  for (const tenant of mirror.tenants())
    for (const kind of Object.keys(kinds) as KindName[])
      // the keys of `kinds` are the names
      for (const { meta, desired } of mirror.tenant(tenant).list(kind)) {
        counted.place(tenant, kind, meta.id, desired);
        const { project, user } = holderOf(kind, meta.id, desired);
        holders.add(`${tenant} ${project ?? ''} ${user ?? ''}`);
      }
  expect(mirror.usage.total).toEqual(counted.total);
  for (const holder of holders) {
    const [tenant = '', project = '', user = ''] = holder.split(' ');
    expect(mirror.usage.ofTenant(tenant)).toEqual(counted.ofTenant(tenant));
    expect(mirror.usage.ofProject(tenant, project)).toEqual(counted.ofProject(tenant, project));
    expect(mirror.usage.ofAccount(tenant, user)).toEqual(counted.ofAccount(tenant, user));
  }
}

async function expectEqual({ store, mirror, known, knownKeys }: World): Promise<void> {
  const shown = await expectMirrored(store, mirror);
  expect(knownKeys).toEqual(new Map(mirror.keysUnder(keys.all.prefix).map(({ key, value }) => [key, value])));
  expect(known.size).toBe(shown.length);
  await expectUsage(store, mirror);
  for (const it of known.values()) expect(shown.includes(it)).toBe(true);
  for (const tenant of tenants) {
    const view = mirror.tenant(tenant);
    const all = view.list('project');
    for (const owner of owners)
      expect(view.by('project', 'owner', owner)).toEqual(all.filter((it) => it.desired.owner_id === owner));
    for (const tier of ['t0', 't1'])
      expect(view.by('project', 'label', `tier=${tier}`)).toEqual(all.filter((it) => it.meta.labels['tier'] === tier));
  }
}

it('equals a full list after any history of writes, cuts, compactions and replacements, and no check disagrees', async () => {
  let checks = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      await using world = await World.open();
      for (const one of steps) await take(one, world);
      await expectEqual(world);
      await changeObject('create', 0, openRepository(world.store, 'acme', systemClock));
      await expectEqual(world);
      expect(await world.counted('setpoint_mirror_corrections_total')).toBe(0);
      checks += await world.counted('setpoint_mirror_checks_total');
    }),
    { numRuns: 300 },
  );
  expect(checks).toBeGreaterThan(300);
}, 60_000);
