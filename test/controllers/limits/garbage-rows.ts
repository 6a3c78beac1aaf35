import { pino } from 'pino';
import { planClone } from '../../../controllers/environment/plan.ts';
import type { ClonePlan } from '../../../controllers/environment/plan.ts';
import { garbage as collector } from '../../../controllers/garbage/garbage.ts';
import { removeOrphans } from '../../../controllers/garbage/orphans.ts';
import type { SeenOrphans } from '../../../controllers/garbage/orphans.ts';
import { judge, surplus } from '../../../controllers/garbage/verdict.ts';
import type { Verdict } from '../../../controllers/garbage/verdict.ts';
import { expiryTime } from '../../../controllers/runtime/expiry-time.ts';
import { tenantDeletion } from '../../../controllers/tenant/deletion.ts';
import { copyIdOf } from '../../../store/copying.ts';
import { keys } from '../../../store/keys.ts';
import type { DesiredOf, KindName } from '../../../store/kinds/kinds.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { revision } from '../../../store/revision.ts';
import { createTenant, requestTenantDeletion } from '../../../store/tenants.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { createProject, id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { below, day, from, hour, minute, second, upTo } from './row.ts';
import type { Rows } from './row.ts';
import { aUser, openTerm, write, writeMany } from './scenes.ts';
import { desiredState } from '../../harness/states.ts';

/** When the objects of these rows ended, or were used last. */
const then = Date.parse('2030-01-01T00:00:00.000Z');
const at = new Date(then).toISOString();

/** What is said of an object `n` ms after `then`. */
async function judgedAfter<K extends KindName>(
  n: number,
  kind: K,
  make: (unit: Unit, rig: Rig) => void,
  finish: (rig: Rig) => Promise<unknown> = async () => undefined,
): Promise<Verdict | undefined> {
  await using rig = await openRig();
  await createProject(rig.repo, 'shop');
  await write(rig, (unit) => {
    aUser(unit, 'ann');
    make(unit, rig);
  });
  await finish(rig);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const [it] = view.list(kind);
  return judge(it as ReadonlyResource, view, then + n); // of some kind
}

const isExpired = async (verdict: Promise<Verdict | undefined>): Promise<boolean> =>
  (await verdict)?.cause === 'expired';

function codes(known: DesiredOf<'login_code'>['known']): DesiredOf<'login_code'> {
  return { email: 'ann@example.test', codes: [], sent: [{ source: '192.0.2.1', at }], failed: [], known };
}

const operation = { type: 'sync', requested_at: at, deadline_seconds: 60 } as const;

async function endOperations(rig: Rig): Promise<void> {
  const done = { phase: 'succeeded', finished_at: at, observedGeneration: 1, conditions: [] } as const;
  for (const { meta } of rig.mirror.tenant(tenant).list('operation')) {
    const it = await rig.repo.get('operation', meta.id);
    if (it !== undefined) await rig.repo.observe(it, { ...done, conditions: [] }, []);
  }
}

/** What is said of the oldest of so many objects that `make` made. */
async function firstOf<K extends KindName>(
  count: number,
  kind: K,
  make: (unit: Unit, n: number) => void,
  finish: (rig: Rig) => Promise<unknown> = async () => undefined,
): Promise<Verdict | undefined> {
  await using rig = await openRig();
  const project = await createProject(rig.repo, 'shop');
  await write(rig, (unit) => {
    aUser(unit, 'ann');
    unit.create('environment', id('env'), { project_id: project, name: 'production', type: 'production' });
    const app = anApplication({ project_id: project, environment_id: id('env') });
    unit.create('application', id('app'), app.desired);
  });
  await writeMany(rig, count, make);
  await finish(rig);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const [oldest] = view.list(kind).toSorted((a, b) => (a.meta.createdRevision ?? 0) - (b.meta.createdRevision ?? 0));
  return judge(oldest as ReadonlyResource, view, then); // of some kind
}

const session = (user: string, expires = then + day) => ({
  user_id: id(user),
  expires_at: new Date(expires).toISOString(),
  source: '',
  user_agent: '',
});

/** Looks once for orphans, of which there is one, as a leader who has `seen` these. */
async function look(
  seen: SeenOrphans,
  around: (rig: Rig, look: () => Promise<void>) => Promise<unknown>,
): Promise<{ isThere: boolean; isSeen: boolean }> {
  const { rig, term, deps } = await openTerm();
  await using _ = rig;
  const orphan = keys.observed(tenant, 'project', id('gone'));
  await rig.store.txn({ if: [], then: [{ put: orphan, value: '{}' }] });
  await rig.rest();
  await around(rig, () => removeOrphans(seen, term, deps));
  return { isThere: (await rig.store.get(orphan)) !== undefined, isSeen: seen.has(orphan) };
}

const garbage: Rows<'garbage'> = {
  concurrency: upTo(4, async (n) => {
    await using rig = await openRig({ background: [collector] });
    await rig.rest();
    const gate = Promise.withResolvers<void>();
    const txn = rig.store.txn.bind(rig.store);
    let underWay = 0;
    rig.store.txn = async (its) => {
      if (its.then.some((one) => 'delete' in one)) {
        underWay++;
        await gate.promise;
      }
      return txn(its);
    };
    const unit = rig.repo.begin();
    for (let m = 0; m < n; m++) unit.create('session', id(`s${m}`), session('missing'));
    await unit.commit();
    await rig.clock.advance(1);
    const most = underWay;
    gate.resolve();
    await rig.rest();
    return most === n;
  }),
  sweepMs: from(10 * minute, async (n) => {
    await using rig = await openRig({ background: [collector] });
    await rig.rest();
    await write(rig, (unit) => {
      aUser(unit, 'ann');
      unit.create('session', id('s'), session('ann', rig.clock.now().getTime() + 1));
    });
    await rig.clock.advance(n);
    await rig.rest();
    return (await rig.repo.get('session', id('s'))) === undefined;
  }),
  aheadMs: upTo(day, async (n) => {
    await using rig = await openRig();
    await createProject(rig.repo, 'one');
    await rig.rest();
    rig.clock.jump(n);
    let isReported = false;
    const log = pino({ level: 'warn' }, { write: () => void (isReported = true) });
    expiryTime({ mirror: rig.mirror, clock: rig.clock, log });
    return !isReported;
  }),
  deploymentsPerApplication: upTo(20, (n) => {
    const app = anApplication();
    const all = Array.from({ length: n }, (_, m) => aDeployment(app, { number: m + 1 }, { phase: 'failed' }));
    return surplus('deployment', app, all).length === 0;
  }),
  operationsKeepMs: from(day, (n) =>
    isExpired(judgedAfter(n, 'operation', (unit) => unit.create('operation', id('o'), operation), endOperations)),
  ),
  healingsKeepMs: from(hour, (n) =>
    isExpired(
      judgedAfter(
        n,
        'operation',
        (unit) => unit.create('operation', id('o'), { ...operation, type: 'heal' }),
        endOperations,
      ),
    ),
  ),
  operationsPerApplication: upTo(20, async (n) => {
    const make = (unit: Unit, m: number): void =>
      void unit.create('operation', id(`o${m}`), { ...operation, application_id: id('app') });
    return (await firstOf(n, 'operation', make, endOperations)) === undefined;
  }),
  sessionsPerUser: upTo(
    100,
    async (n) =>
      (await firstOf(n, 'session', (unit, m) => void unit.create('session', id(`s${m}`), session('ann')))) ===
      undefined,
  ),
  loginCodesKeepMs: from(day, (n) =>
    isExpired(judgedAfter(n, 'login_code', (unit) => unit.create('login_code', id('c'), codes([])))),
  ),
  knownPlacesKeepMs: from(30 * day, (n) =>
    isExpired(
      judgedAfter(n, 'login_code', (unit) => unit.create('login_code', id('c'), codes([{ source: '192.0.2.1', at }]))),
    ),
  ),
  expiredKeysKeepMs: from(7 * day, (n) => {
    const key = { user_id: id('ann'), name: 'ci', prefix: 'sp_1', hash: 'a', expires_at: at };
    return isExpired(judgedAfter(n, 'service_key', (unit) => unit.create('service_key', id('k'), key)));
  }),
  invitesKeepMs: from(7 * day, (n) =>
    isExpired(
      judgedAfter(n, 'invite', (unit) =>
        unit.create('invite', id('i'), {
          project_id: id('shop'),
          email: 'bob@example.test',
          role: 'viewer',
          invited_by: id('ann'),
          expires_at: at,
          state: 'pending',
        }),
      ),
    ),
  ),
  orphanSweepMs: from(hour, async (n) => {
    await using rig = await openRig({ background: [collector] });
    await rig.rest();
    let looks = 0;
    const list = rig.store.list.bind(rig.store);
    rig.store.list = (...asked) => {
      if (asked[0].prefix === keys.all.prefix && asked[1]?.after === undefined) looks++;
      return list(...asked);
    };
    await rig.clock.advance(n);
    return looks === 1;
  }),
  orphanAgeMs: from(hour, async (n) => {
    const { isThere } = await look(new Map(), async ({ clock }, once) => {
      await once();
      await clock.advance(n);
      await once();
    });
    return !isThere;
  }),
  orphans: below(10_000, async (n) => {
    const others = Array.from({ length: n }, (_, m) => [`other ${m}`, { revision: revision(1), since: 0 }] as const);
    return (await look(new Map(others), (_, once) => once())).isSeen;
  }),
  pageSize: from(500, async (n) => {
    let most = 0;
    await look(new Map(), async ({ store }, once) => {
      const list = store.list.bind(store);
      store.list = (range, options) => {
        most = Math.max(most, options?.limit ?? Infinity);
        return list(range, options);
      };
      await once();
    });
    return most > 0 && most <= n;
  }),
};

/** What is next for a clone whose source has these applications, and where copies of others are left. */
async function planOf(
  count: number,
  { labels = () => ({}), stale = 0 }: { labels?: (n: number) => Record<string, string>; stale?: number },
): Promise<{ plan: ClonePlan; applications: readonly ReadonlyResource<'application'>[] }> {
  await using rig = await openRig();
  const [source, clone] = [id('source'), id('clone')];
  await write(rig, (unit) => {
    unit.create('environment', source, desiredState('environment'));
    const clone_of = { environment_id: source, server_map: {}, complete: false };
    unit.create('environment', clone, desiredState('environment', { clone_of }));
    unit.create('server', id('server'), aServer().desired);
  });
  const state = (environment_id: string, name: string) =>
    desiredState('application', { environment_id, name, server_id: id('server'), project_id: id('shop') });
  for (let n = 0; n < count; n++)
    await write(rig, (unit) => unit.create('application', id(`a${n}`), state(source, `a${n}`), { labels: labels(n) }));
  await writeMany(rig, stale, (unit, n) => {
    const of = id(`former ${n}`);
    const copyOf = { id: of, revision: revision(1) };
    unit.create('application', copyIdOf(clone, of), state(clone, `former ${n}`), { copyOf });
  });
  const view = rig.mirror.tenant(tenant);
  const it = view.get('environment', clone);
  if (it === undefined) throw new Error('The clone did not come');
  return { plan: planClone(it, view), applications: view.by('application', 'environment', source) };
}

function copiesIn({ action }: ClonePlan): number {
  return action.do === 'copy' ? action.sources.length : 0;
}

const sizeOf = ({ desired, meta }: ReadonlyResource<'application'>): number =>
  Buffer.byteLength(JSON.stringify([desired, meta.labels]));

/** Guards and writes that the copy of an application takes: its record and its name. */
const operationsEach = 4;
/** What all of them belong to, and a guard of its server. */
const operationsOfAll = 4;

const clone: Rows<'clone'> = {
  // a limit that is no multiple of what a copy takes is met by the last one that fits
  operations: upTo(
    60,
    async (n) => {
      const copies = (n - operationsOfAll) / operationsEach;
      return copiesIn((await planOf(copies, {})).plan) === copies;
    },
    operationsEach,
  ),
  bytes: upTo(800 * 1024, async (n) => {
    const padded = (bytes: number) => ({ pad: 'x'.repeat(bytes) });
    const { applications } = await planOf(2, { labels: () => padded(0) });
    const [first = 0, other = 0] = applications.map(sizeOf);
    const rest = n - first - other;
    const labels = (m: number) => padded(m === 0 ? Math.floor(rest / 2) : Math.ceil(rest / 2));
    return copiesIn((await planOf(2, { labels })).plan) === 2;
  }),
  removals: upTo(8, async (n) => {
    const { action } = (await planOf(0, { stale: n })).plan;
    return action.do === 'remove' && action.copies.length === n;
  }),
};

const tenants: Rows<'tenants'> = {
  everyMs: from(second, async (n) => {
    await using rig = await openRig({ background: [tenantDeletion] });
    for (const name of [tenant, 'other']) await createTenant(rig.store, name, rig.clock);
    const project = await createProject(rig.repo, 'shop');
    await rig.rest();
    await requestTenantDeletion(rig.store, tenant, rig.clock);
    await rig.rest();
    const it = await rig.repo.get('project', project);
    if (it?.meta.deletionRequestedAt === undefined) throw new Error('The project was not asked to go');
    await write(rig, (unit) => unit.release(it, 'project'));
    await rig.clock.advance(n);
    return (await rig.store.get(keys.tenant(tenant))) === undefined;
  }),
  agentPatienceMs: from(10 * minute, async (n) => {
    await using rig = await openRig({ background: [tenantDeletion] });
    for (const name of [tenant, 'other']) await createTenant(rig.store, name, rig.clock);
    await createProject(rig.repo, 'shop'); // stays, as no controller releases it
    await write(rig, (unit) =>
      unit.create(
        'server',
        id('server'),
        desiredState('server', { ...aServer().desired, agent_public_key: 'of its agent' }),
      ),
    );
    await requestTenantDeletion(rig.store, tenant, rig.clock);
    await rig.rest();
    await rig.clock.advance(n);
    return (await rig.repo.get('server', id('server')))?.meta.deletionRequestedAt !== undefined;
  }),
  bucketPatienceMs: from(day, async (n) => {
    await using rig = await openRig({ background: [tenantDeletion] });
    for (const name of [tenant, 'other']) await createTenant(rig.store, name, rig.clock);
    const of = { project_id: await createProject(rig.repo, 'shop'), destination_id: id('store') };
    await write(rig, (unit) => {
      unit.create('backup_destination', id('store'), desiredState('backup_destination'));
      unit.create('backup', id('backup'), desiredState('backup', of)); // stays, as no controller releases it
    });
    await requestTenantDeletion(rig.store, tenant, rig.clock);
    await rig.rest();
    await rig.clock.advance(n);
    return (await rig.repo.get('backup_destination', id('store'))) === undefined;
  }),
};

export const garbageRows = { garbage, clone, tenants };
