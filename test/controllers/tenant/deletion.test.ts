import { describe, expect, test } from 'vitest';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { backupController } from '../../../controllers/backup/reconcile.ts';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { environmentController } from '../../../controllers/environment/reconcile.ts';
import { garbage } from '../../../controllers/garbage/garbage.ts';
import { projectController } from '../../../controllers/project/reconcile.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { tenantDeletion } from '../../../controllers/tenant/deletion.ts';
import { walArchiveController } from '../../../controllers/wal-archive/reconcile.ts';
import { logKey } from '../../../store/archive-keys.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { settingsId } from '../../../store/kinds/settings.ts';
import { openRepository } from '../../../store/repo.ts';
import { createTenant, listTenants, requestTenantDeletion } from '../../../store/tenants.ts';
import { commit } from '../../../store/unit.ts';
import { entriesOf } from '../../harness/leftover-keys.ts';
import { aDeployment, aServer, anApplication } from '../../harness/objects.ts';
import { MemoryBucket } from '../../harness/memory-bucket.ts';
import { createProject, id, openRig, tenant, type Rig } from '../runtime/rig.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import { desiredState, ofDatabase } from '../../harness/states.ts';

/** A tenant with a project that has an instance on each of two servers: `near` has its agent, and `far` has lost it. */
async function inhabited(): Promise<Rig> {
  const rig = await openRig({
    controllers: [
      projectController,
      environmentController({ transplant: (value) => value }),
      serverController(serverSettings),
      applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 }),
      deploymentController({ queueDeadlineMs: 1e9, buildDeadlineMs: 1e9, rolloutDeadlineMs: 1e9 }),
    ],
    background: [garbage, tenantDeletion],
  });
  const { store, clock, repo } = rig;
  for (const name of [tenant, 'other']) expect(await createTenant(store, name, clock)).toBe(true);
  const project = await createProject(repo, 'shop');
  const unit = repo.begin();
  unit.create('user', id('ann'), desiredState('user', { ...aUser, email: 'ann@example.test' }));
  unit.create('environment', id('env'), { project_id: project, name: 'production', type: 'production' });
  await unit.commit();
  for (const name of ['near', 'far']) {
    const made = repo.begin();
    made.create('server', id(name), desiredState('server', { ...aServer({ name }).desired, agent_public_key: name }));
    const app = anApplication({
      project_id: project,
      environment_id: id('env'),
      server_id: id(name),
      name,
      run: 'stopped',
    });
    made.create('application', app.meta.id, app.desired);
    const deployment = aDeployment(app);
    made.create('deployment', deployment.meta.id, deployment.desired);
    made.create(
      'assignment',
      id(`on ${name}`),
      desiredState('assignment', {
        server_id: id(name),
        project_id: project,
        environment_id: id('env'),
        workload_id: app.meta.id,
        version: deployment.meta.id,
      }),
    );
    expect((await made.commit()).committed).toBe(true);
  }
  const agent = JSON.stringify({ replica: 'r', session: 's', machineId: 'm' });
  const other = openRepository(store, 'other', clock).begin();
  other.create('user', id('bob'), desiredState('user', { ...aUser, email: 'bob@example.test' }));
  await other.commit();
  await store.txn({
    if: [],
    then: [
      { put: keys.agent(tenant, id('near')), value: agent },
      { put: keys.idempotency(tenant, 'abc'), value: '{}' },
      { put: `${keys.ofTenant(tenant).prefix}d/of-a-later-version/1`, value: '{}' },
      { put: `${keys.ofTenant(tenant).prefix}area-of-a-later-version/1`, value: '{}' },
      putHeldRemovals(tenant, id('far'), { held: 1, confirmed: false }),
      putHeldRemovals(`${tenant}-2`, id('far'), { held: 1, confirmed: false }),
      { put: keys.idempotency(`${tenant}-2`, 'abc'), value: '{}' },
    ],
  });
  await rig.rest();
  return rig;
}

const aUser = {
  role: 'user' as const,
  first_name: '',
  last_name: '',
  must_reset_password: false,
  two_factor_enabled: false,
  disabled: false,
};

/** Lets so much time pass in the rig. */
async function pass(rig: Rig, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1000) {
    await rig.clock.advance(1000);
    await rig.rest();
  }
}

async function left(rig: Rig): Promise<string[]> {
  return (await entriesOf(rig.store)).map(({ key }) => key).filter((key) => !key.includes('/c/leader/'));
}

const others = [
  keys.removals(`${tenant}-2`, id('far')),
  keys.tenant('other'),
  keys.idempotency(`${tenant}-2`, 'abc'),
  keys.desired('other', 'user', id('bob')),
  keys.unique('other', 'user', 'all', 'bob@example.test'),
].sort();

test('a server that is away goes at once, one that is there when its agent has removed everything, and nothing is left', async () => {
  await using rig = await inhabited();
  await pass(rig, 50_000);
  expect(await requestTenantDeletion(rig.store, tenant, rig.clock)).toBe('requested');
  await rig.rest();
  await pass(rig, 3000);
  expect(await rig.repo.get('server', id('far'))).toBeUndefined();
  expect(await rig.repo.get('assignment', id('on far'))).toBeUndefined();
  expect(await rig.repo.get('user', id('ann'))).toBeUndefined();
  const near = async () => (await rig.repo.get('server', id('near')))?.meta.deletionRequestedAt;
  expect(await rig.repo.get('server', id('near'))).toBeDefined();
  expect(await near()).toBeUndefined();
  const waiting = (await rig.repo.get('assignment', id('on near')))!;
  expect(waiting.meta.deletionRequestedAt).toBeDefined();
  await pass(rig, 60_000);
  expect(await near()).toBeUndefined();
  expect(await createTenant(rig.store, tenant, rig.clock)).toBe(false);
  expect(listTenants(rig.mirror)).toMatchObject([
    { name: tenant, state: 'deleting' },
    { name: 'other', state: 'active' },
  ]);
  const gone = rig.repo.begin();
  gone.release(waiting, 'agent');
  await gone.commit();
  await rig.rest();
  await pass(rig, 5000);
  expect(await left(rig)).toEqual(others);
  expect(await createTenant(rig.store, tenant, rig.clock)).toBe(true);
  await pass(rig, 5000);
  expect(await left(rig)).toEqual([...others, keys.tenant(tenant)].sort());
});

test('an agent that is connected and does not finish is waited for no longer than its time', async () => {
  await using rig = await inhabited();
  await requestTenantDeletion(rig.store, tenant, rig.clock);
  await pass(rig, 50_000);
  expect(await rig.repo.get('server', id('near'))).toBeDefined();
  await rig.clock.advance(limits.tenants.agentPatienceMs);
  await rig.rest();
  await pass(rig, 5000);
  expect(await left(rig)).toEqual(others);
});

test('a pass that fails for a reason that is not expected is repeated by the next', async () => {
  await using rig = await inhabited();
  await pass(rig, 50_000);
  const txn = rig.store.txn.bind(rig.store);
  let failures = 0;
  rig.store.txn = (it) => {
    if (failures === 3 || !JSON.stringify(it.then).includes(keys.desired(tenant, 'user', id('ann')))) return txn(it);
    failures += 1;
    return Promise.reject(new TypeError('bug'));
  };
  await requestTenantDeletion(rig.store, tenant, rig.clock);
  await rig.rest();
  await pass(rig, 10_000);
  expect(failures).toBe(3);
  expect(await rig.repo.get('user', id('ann'))).toBeUndefined();
});

describe('backups of the tenant', () => {
  const object = `${tenant}/${id('shop')}/${id('orders')}/backups/${id('backup')}/dump.zst`;

  /** The tenant, with a completed backup and an archive in a bucket that does not answer. */
  async function backedUp() {
    const bucket = new MemoryBucket();
    bucket.trouble = { code: 'refused', message: 'Nothing listens there', isPassing: true };
    const secrets = { unseal: () => 'opened' };
    const agents = { call: () => Promise.reject(new Error('No agent is called')) };
    const rig = await openRig({
      controllers: [
        projectController,
        environmentController({ transplant: (value) => value }),
        serverController(serverSettings),
        backupController({ secrets, bucket, agents }),
        walArchiveController({ secrets, bucket }),
      ],
      background: [garbage, tenantDeletion],
    });
    for (const name of [tenant, 'other']) await createTenant(rig.store, name, rig.clock);
    const project = await createProject(rig.repo, 'shop');
    const unit = rig.repo.begin();
    unit.create('settings', settingsId, { backup_endpoints: ['10.0.0.7:9000'], budgets: {} });
    unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store', bucket: 'b' }));
    // nothing of the tenant is in its bucket
    unit.create('backup_destination', id('spare'), desiredState('backup_destination', { name: 'spare', bucket: 'c' }));
    unit.create('server', id('near'), desiredState('server', { agent_public_key: 'key' }));
    const at = { environment_id: id('env'), server_id: id('near') };
    const of = { project_id: project, destination_id: id('store'), place: at };
    unit.create('backup', id('backup'), desiredState('backup', { ...of, of: ofDatabase(id('orders')) }));
    unit.create('wal_archive', id('log'), desiredState('wal_archive', { ...of, database_id: id('orders') }));
    await commit(unit);
    await rig.rest();
    const backup = (await rig.repo.get('backup', id('backup')))!;
    const now = rig.clock.now().toISOString();
    const sent = { size_bytes: 3, finished_at: now, verified_at: now };
    await rig.repo.observe(backup, { phase: 'completed', ...sent, observedGeneration: 1, conditions: [] }, []);
    const archive = (await rig.repo.get('wal_archive', id('log')))!;
    for (const key of [object, logKey(archive, '000000010000000000000001')])
      bucket.objects.set(key, { bytes: 3, etag: 'etag' });
    await rig.rest();
    await pass(rig, 30_000);
    return { rig, bucket };
  }

  test('are removed from their buckets before the destination and what allows it go', async () => {
    const { rig, bucket } = await backedUp();
    await using _ = rig;
    await requestTenantDeletion(rig.store, tenant, rig.clock);
    await pass(rig, 60_000);
    expect(bucket.objects.size).toBe(2);
    for (const [kind, which] of [
      ['backup_destination', id('store')],
      ['settings', settingsId],
    ] as const)
      expect((await rig.repo.get(kind, which))?.meta.deletionRequestedAt).toBeUndefined();
    expect(await rig.repo.get('server', id('near'))).toBeUndefined();
    bucket.trouble = undefined;
    await pass(rig, 30_000);
    expect([...bucket.objects.keys()]).toEqual([]);
    expect(listTenants(rig.mirror).map(({ name }) => name)).toEqual(['other']);
  });

  test('stay in a bucket that does not answer for a day', async () => {
    const { rig, bucket } = await backedUp();
    await using _ = rig;
    await requestTenantDeletion(rig.store, tenant, rig.clock);
    await pass(rig, 60_000);
    await rig.clock.advance(limits.tenants.bucketPatienceMs - 2 * 60_000);
    await rig.rest();
    expect(listTenants(rig.mirror).map(({ name }) => name)).toEqual([tenant, 'other']);
    await pass(rig, 120_000);
    await rig.clock.advance(15 * 60_000);
    await rig.rest();
    await pass(rig, 5000);
    expect(listTenants(rig.mirror).map(({ name }) => name)).toEqual(['other']);
    expect(bucket.objects.size).toBe(2);
    const noted = (await entriesOf(rig.store)).filter(({ key }) => key.startsWith(keys.auditPending('*', '')));
    expect(noted.map(({ value }) => JSON.parse(value))).toMatchObject([
      { role: 'operator', objects: [{ kind: 'backup_destination', id: id('store'), name: 'store', action: 'delete' }] },
    ]);
  });
});

test('tenants that nobody deletes cost no write', async () => {
  await using rig = await inhabited();
  await pass(rig, 50_000);
  rig.store.reset();
  await rig.clock.advance(limits.garbage.sweepMs);
  await rig.rest();
  expect(rig.store.committed).toBe(0);
});
