import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { databaseController } from '../../../controllers/database/reconcile.ts';
import { volumeController } from '../../../controllers/volume/reconcile.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { Resolved } from '../../../store/kinds/fields.ts';
import { kinds, type DesiredOf, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
// it is loaded while no test waits for the controllers to be at rest
import '../../../controllers/database/x509.ts';
import { plainSecrets as secrets } from '../../harness/plain-secrets.ts';
import { desiredState } from '../../harness/states.ts';
import { createProject, id, openRig, tenant, type Rig } from '../runtime/rig.ts';

const unreadyGraceMs = 120_000;
const startDeadlineMs = 900_000;
const controllers = [databaseController({ unreadyGraceMs, startDeadlineMs, secrets }), volumeController];

/** A database on a server, with its volume, and what its agent reports of both. */
async function made(rig: Rig, changes: Partial<DesiredOf<'database'>> = {}) {
  const project = await createProject(rig.repo, 'shop');
  const unit = rig.repo.begin();
  unit.create('user', id('owner'), desiredState('user'));
  unit.create('server', id('server'), desiredState('server', { direct_ports_enabled: true, agent_public_key: 'key' }));
  unit.create('environment', id('environment'), desiredState('environment'));
  const place = { project_id: project, environment_id: id('environment'), server_id: id('server') };
  unit.create(
    'database',
    id('orders'),
    desiredState('database', { ...place, name: 'orders', data_volume_id: id('data'), ...changes }),
  );
  unit.create('volume', id('data'), desiredState('volume', { ...place, database_id: id('orders') }));
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const volume = assignmentId.task(id('data'), 'volume');
  const instance = assignmentId.slot(id('data'), 0);
  const pooler = assignmentId.slot(id('orders'), 0, 'pooler');
  const reportOf = (of: string) => async (observed: Partial<ObservedOf<'assignment'>>) => {
    const it = await rig.repo.get('assignment', of);
    if (it === undefined) throw new Error('It was not asked for');
    const full = kinds.assignment.observed.parse({ phase: 'running', ...observed });
    await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
  const ready = () => view.get('database', id('orders'))?.observed?.conditions.find(({ type }) => type === 'Ready');
  return {
    view,
    ofVolume: reportOf(volume),
    report: reportOf(instance),
    reportOfPooler: reportOf(pooler),
    instance: () => view.get('assignment', instance),
    pooler: () => view.get('assignment', pooler),
    pooled: () => {
      const found = view.get('database', id('orders'))?.observed?.conditions.find(({ type }) => type === 'Pooled');
      return found && [found.status, found.reason, found.message];
    },
    isSettled: () =>
      view
        .get('database', id('orders'))
        ?.observed?.conditions.every(({ type, status }) => type !== 'Reconciling' || status === 'false'),
    observed: () => view.get('database', id('orders'))?.observed,
    phase: () => view.get('database', id('orders'))?.observed?.phase,
    reason: () => ready()?.reason,
    message: () => ready()?.message,
    change: async (by: (draft: DesiredOf<'database'>) => void) => {
      await rig.repo.change('database', id('orders'), by);
      await rig.rest();
    },
    server: async (phase: ObservedOf<'server'>['phase']) => {
      const it = await rig.repo.get('server', id('server'));
      await rig.repo.observe(it!, { phase, observedGeneration: it!.meta.generation, conditions: [] }, []);
      await rig.rest();
    },
    told: () =>
      view
        .list('notification')
        .filter(({ desired }) => desired.type.startsWith('database_'))
        .toSorted((a, b) => a.meta.desiredRevision - b.meta.desiredRevision)
        .map(({ desired }) => `${desired.type}: ${desired.message}`),
  };
}

const up = { ready: true, stable: true };

async function serving(rig: Rig, changes: Partial<DesiredOf<'database'>> = {}) {
  const it = await made(rig, changes);
  await it.ofVolume(up);
  await it.report({ phase: 'starting', image_digest: 'sha256:1' });
  await it.report(up);
  expect(it.phase()).toBe('running');
  return it;
}

test('a database begins once its volume is there, and serves once its engine answers', async () => {
  await using rig = await openRig({ controllers });
  const it = await made(rig);
  expect([it.phase(), it.reason(), it.instance()]).toEqual(['provisioning', 'WaitingForVolume', undefined]);
  await it.ofVolume(up);
  expect([it.phase(), it.reason()]).toEqual(['provisioning', 'Starting']);
  expect(it.instance()?.desired).toMatchObject({
    workload_kind: 'database',
    run: 'running',
    spec: {
      image: 'postgres:17',
      config: { kind: 'database', id: id('orders'), revision: 1 },
      mounts: [{ type: 'volume', volume: `sp-vol-${id('data')}`, path: '/var/lib/postgresql/data', read_only: false }],
      probe: { type: 'command', command: ['psql', '-XqtA', '-c', 'SELECT 1'] },
      stop_signal: 'SIGINT',
      grace_seconds: 300,
    },
  });
  await it.report({ phase: 'starting', image_digest: 'sha256:1' });
  expect([it.phase(), it.reason()]).toEqual(['provisioning', 'Starting']);
  await it.report(up);
  expect([it.phase(), it.reason(), it.observed()?.image_digest]).toEqual(['running', 'Running', 'sha256:1']);
});

test('the image that it first ran stays pinned, and pinning it restarts nothing', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const { spec_hash: hash } = it.instance()!.desired;
  expect(it.instance()?.desired.spec).toMatchObject({ image_digest: 'sha256:1' });
  await it.report({ ...up, image_digest: 'sha256:2' });
  expect(it.observed()?.image_digest).toBe('sha256:1');
  expect(it.instance()?.desired.spec_hash).toBe(hash);
});

test('other limits and a restart make a new container one after the other; a new name does not', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const { spec_hash: hash } = it.instance()!.desired;
  await it.change((draft) => void (draft.display_name = 'Orders'));
  expect(it.instance()?.desired.spec_hash).toBe(hash);
  await it.change((draft) => void (draft.memory_limit = '512m'));
  expect(it.instance()?.desired.spec_hash).not.toBe(hash);
  expect(it.instance()?.desired.spec).toMatchObject({
    limits: { memory_bytes: 512 * 1024 ** 2, shm_bytes: 128 * 1024 ** 2 },
  });
  expect([it.phase(), it.reason()]).toEqual(['running', 'NotReady']);
  await it.report(up);
  expect([it.phase(), it.reason()]).toEqual(['running', 'Running']);
  await it.change((draft) => void (draft.restart_token = 'once'));
  expect(it.instance()?.desired.spec).toMatchObject({ restart_token: 'once' });
  expect(it.reason()).toBe('NotReady');
  await it.report(up);
  expect(it.reason()).toBe('Running');
});

test('another password is waited for until the engine was started with it, and is kept from then on', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const rotated = () => it.observed()?.conditions.find(({ type }) => type === 'PasswordRotated');
  expect([rotated(), it.observed()?.config_revision]).toEqual([undefined, undefined]);
  await it.change((draft) => {
    draft.config.revision = 2;
    draft.rotation = { former: { $sealed: 'sealed', for: 'database' }, revision: 2 };
  });
  expect([it.reason(), rotated()?.status]).toEqual(['NotReady', 'false']);
  expect(it.instance()?.desired.spec).toMatchObject({
    config: { revision: 2 },
    probe: { command: ['psql', '-XqtA', '-v', 'ON_ERROR_STOP=1', '-f', '/etc/setpoint/ready.sql'] },
  });
  await it.report({ ready: false });
  expect(rotated()?.status).toBe('false');
  await it.report(up);
  expect([it.reason(), rotated()?.status, it.observed()?.config_revision]).toEqual(['Running', 'true', 2]);
  await it.change((draft) => void (draft.restart_token = 'once'));
  expect(rotated()?.status).toBe('true');
});

test('parameters are arguments of the engine, beside what keeps its password; a process that ends with them says so', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { type: 'mysql' });
  const command = () => {
    const { spec } = it.instance()!.desired;
    return spec.type === 'service' ? spec.command : undefined;
  };
  const tls = ['--ssl-cert=/etc/setpoint/tls.crt', '--ssl-key=/etc/setpoint/tls.key'];
  expect(command()).toEqual(['mysqld', ...tls]);
  await it.change((draft) => void (draft.parameters = { max_connections: '20' }));
  expect([it.reason(), command()]).toEqual(['NotReady', ['mysqld', '--max_connections=20', ...tls]]);
  await it.report(up);
  await it.change((draft) => void (draft.rotation = { former: { $sealed: 'sealed', for: 'database' }, revision: 1 }));
  expect(command()).toEqual(['mysqld', '--init-file=/etc/setpoint/password.sql', '--max_connections=20', ...tls]);
  await it.report({ crash_loop: true, restarts: 5 });
  expect(it.message()).toContain('If a change of its parameters was the last one, take it back');
  await it.change((draft) => {
    delete draft.parameters;
    delete draft.rotation;
  });
  expect(command()).toEqual(['mysqld', ...tls]);
});

test('a port of the server leads to it only where the server opens ports', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { exposed_port: 15_432 });
  expect(it.instance()?.desired.spec).toMatchObject({ ports: [{ name: 'main', port: 5432, publish: 15_432 }] });
  await rig.repo.change('server', id('server'), (draft) => void (draft.direct_ports_enabled = false));
  await rig.rest();
  expect(it.instance()?.desired.spec).toMatchObject({ ports: [{ name: 'main', port: 5432 }] });
});

test('a stopped database keeps its volume, and starts with the same data', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await it.change((draft) => void (draft.run = 'stopped'));
  expect([it.phase(), it.reason(), it.instance()?.desired.run]).toEqual(['running', 'Stopping', 'stopped']);
  await it.report({ phase: 'stopped' });
  expect([it.phase(), it.reason()]).toEqual(['stopped', 'Stopped']);
  expect(it.view.get('volume', id('data'))?.observed?.phase).toBe('bound');
  await it.change((draft) => void (draft.run = 'running'));
  expect([it.phase(), it.instance()?.desired.run]).toEqual(['provisioning', 'running']);
  await it.report(up);
  expect(it.phase()).toBe('running');
});

test('a database that is not ready for a moment is still running, later it is in error, and users are told of that and of its return', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await it.report({ ready: false });
  expect([it.phase(), it.reason()]).toEqual(['running', 'NotReady']);
  expect(it.told()).toEqual([]);
  await rig.clock.advance(unreadyGraceMs);
  await rig.rest();
  expect([it.phase(), it.reason()]).toEqual(['error', 'NotReady']);
  await it.report(up);
  expect(it.phase()).toBe('running');
  expect(it.told()).toEqual([
    'database_error: It has not become ready',
    'database_recovered: PostgreSQL answers queries',
  ]);
});

test('a process that keeps exiting is told with its last lines, once', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const crashes = { crash_loop: true, last_output: 'FATAL: could not open file' };
  await it.report(crashes);
  await it.report({ ...crashes, restarts: 4 });
  expect([it.phase(), it.reason()]).toEqual(['error', 'CrashLoop']);
  expect(it.told()).toEqual([
    'database_error: Its process keeps exiting: its log shows why\n\nFATAL: could not open file',
  ]);
});

test.each([
  ['out_of_memory', 'Killed', 'OutOfMemory', 'It was killed as it used more memory than its limit: raise memory_limit'],
  [
    'image_not_found',
    'There is no image postgres:17',
    'CannotStart',
    'It cannot start: There is no image postgres:17 (let its server reach a registry that has it, and restart the database)',
  ],
  ['data_lost', `sp-vol-${id('data')} is gone`, 'DataLost', undefined],
] as const)('a database that fails by %s says so', async (code, message, reason, text) => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await it.report({ error: { code, message } });
  expect([it.phase(), it.reason()]).toEqual(['error', reason]);
  if (text !== undefined) expect(it.message()).toBe(text);
});

test('a database whose volume is lost is in error, and nothing starts on an empty one', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await it.ofVolume({ phase: 'failed', error: { code: 'data_lost', message: 'Its volume was removed' } });
  expect([it.phase(), it.reason(), it.message()]).toEqual([
    'error',
    'DataLost',
    'Its volume is in error: Its volume was removed',
  ]);
  expect(it.told()).toEqual(['database_error: Its volume is in error: Its volume was removed']);
});

test('what runs on a server that does not answer is not known', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await it.server('offline');
  expect([it.phase(), it.reason()]).toEqual(['error', 'ServerOffline']);
  await it.server('active');
  expect([it.phase(), it.reason()]).toEqual(['running', 'Running']);
});

test('a database that does not become ready after its start is in error once its time is over', async () => {
  await using rig = await openRig({ controllers });
  const it = await made(rig);
  await it.ofVolume(up);
  await it.report({ phase: 'starting' });
  await rig.clock.advance(startDeadlineMs);
  await rig.rest();
  expect([it.phase(), it.reason()]).toEqual(['error', 'NotReady']);
});

test('a deleted database ends first, then its data goes, then it does', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const unit = rig.repo.begin();
  unit.requestDelete(it.view.get('database', id('orders'))!);
  await commit(unit);
  await rig.rest();
  expect([it.phase(), it.message()]).toEqual(['deleting', 'It is being stopped and removed']);
  expect(it.instance()?.meta.deletionRequestedAt).toBeDefined();
  expect(it.view.get('database', id('orders'))).toBeDefined();
});

test('a pooler runs beside the engine, which goes on when it is turned on and off', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const { spec_hash: hash } = it.instance()!.desired;
  expect([it.pooler(), it.pooled()]).toEqual([undefined, undefined]);
  await it.change((draft) => void (draft.connection_pooling = true));
  expect([it.phase(), it.reason()]).toEqual(['running', 'Running']);
  expect([it.pooled()?.slice(0, 2), it.isSettled()]).toEqual([['false', 'Starting'], false]);
  expect(it.pooler()?.desired).toMatchObject({
    workload_kind: 'database',
    workload_id: id('orders'),
    service: 'pooler',
    run: 'running',
    spec: {
      image: 'edoburu/pgbouncer:v1.24.1-p1',
      entrypoint: ['pgbouncer', '/etc/setpoint/pgbouncer.ini'],
      config: { kind: 'database', id: id('orders'), service: 'pooler', revision: 1 },
      networks: [{ aliases: [`${it.view.get('database', id('orders'))?.desired.internal_id}-pooler`] }],
      ports: [{ name: 'main', port: 6432 }],
      probe: { type: 'command', command: ['psql', '-XqtA', '-p', '6432', '-c', 'SELECT 1'] },
      stop_signal: 'SIGINT',
    },
  });
  await it.reportOfPooler(up);
  expect([it.pooled(), it.isSettled()]).toEqual([['true', 'Running', 'PgBouncer answers queries on port 6432'], true]);
  expect(it.instance()?.desired.spec_hash).toBe(hash);
  await it.change((draft) => void delete draft.connection_pooling);
  expect([it.pooler()?.meta.deletionRequestedAt !== undefined, it.pooled()]).toEqual([true, undefined]);
  expect(it.instance()?.desired.spec_hash).toBe(hash);
  expect([it.phase(), it.reason()]).toEqual(['running', 'Running']);
});

test.each<[what: string, references: Record<string, Resolved>]>([
  ['its host', { '${databases.orders.pooled_host}': 'orders-pooler' }],
  [
    'its address with the password',
    {
      '${databases.orders.pooled_url}': {
        before: 'postgresql://app:',
        secret: { $sealed: 'sealed', for: 'database' },
        after: '@orders-pooler:6432/app',
        isInUrl: true,
      },
    },
  ],
])('a pooler goes on for as long as what runs has %s', async (_, references) => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true, internal_id: 'orders' });
  await it.reportOfPooler(up);
  const { project_id } = it.view.get('database', id('orders'))!.desired;
  const place = { project_id, environment_id: id('environment'), server_id: id('server') };
  const unit = rig.repo.begin();
  unit.create('application', id('web'), desiredState('application', { ...place, name: 'web' }));
  const first = unit.create(
    'deployment',
    id('first'),
    desiredState('deployment', { ...place, application_id: id('web') }),
  );
  unit.create(
    'assignment',
    'of-web',
    desiredState('assignment', {
      ...place,
      workload_kind: 'application',
      workload_id: id('web'),
      version: first.meta.id,
    }),
  );
  await commit(unit);
  const deployment = await rig.repo.get('deployment', first.meta.id);
  await rig.repo.observe(
    deployment!,
    { phase: 'succeeded', references, observedGeneration: deployment!.meta.generation, conditions: [] },
    [],
  );
  await it.change((draft) => void delete draft.connection_pooling);
  expect([it.pooler()?.meta.deletionRequestedAt, it.pooled()?.slice(0, 2)]).toEqual([undefined, ['true', 'StillUsed']]);
  await rig.repo.change('assignment', 'of-web', (draft) => void (draft.version = id('second')));
  await rig.clock.advance(5000);
  await rig.rest();
  expect([it.pooler()?.meta.deletionRequestedAt !== undefined, it.pooled()]).toEqual([true, undefined]);
});

test('a pooler is restarted with its database, begins anew with another password, and stays as it is with other limits and on another volume', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  await it.reportOfPooler(up);
  await it.change((draft) => void (draft.restart_token = 'once'));
  expect(it.pooler()?.desired.spec).toMatchObject({ restart_token: 'once' });
  await it.report(up);
  await it.reportOfPooler(up);
  const hash = () => it.pooler()?.desired.spec_hash;
  const before = hash();
  await it.change((draft) => void (draft.memory_limit = '512m'));
  expect(hash()).toBe(before);
  await it.report(up);
  await it.change((draft) => {
    draft.config.revision = 2;
    draft.rotation = { former: { $sealed: 'sealed', for: 'database' }, revision: 2 };
  });
  expect(hash()).not.toBe(before);
  expect(it.pooler()?.desired.spec).toMatchObject({ config: { service: 'pooler', revision: 2 } });
  expect(it.pooled()?.slice(0, 2)).toEqual(['false', 'WaitingForDatabase']);
  await it.report(up);
  await it.reportOfPooler(up);
  expect(it.pooled()?.slice(0, 2)).toEqual(['true', 'Running']);
  const rotated = hash();
  await it.change((draft) => void (draft.data_volume_id = id('restored')));
  expect([hash(), it.pooler()?.desired.run]).toEqual([rotated, 'running']);
});

test('a pooler is restarted once its engine began anew, which has another address then', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  await it.report({ ...up, started_at: 'first' });
  await it.reportOfPooler(up);
  const token = () => {
    const { spec } = it.pooler()!.desired;
    return spec.type === 'service' ? spec.restart_token : undefined;
  };
  expect(token()).toBe('first');
  await it.reportOfPooler(up);
  expect(it.pooled()?.[0]).toBe('true');
  await it.report({ ready: false, started_at: 'second' });
  expect([token(), it.pooled()?.slice(0, 2)]).toEqual(['second', ['false', 'WaitingForDatabase']]);
});

test('a pooler stops and starts with its database', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  await it.reportOfPooler(up);
  await it.change((draft) => void (draft.run = 'stopped'));
  expect([it.pooler()?.desired.run, it.pooled()?.slice(0, 2)]).toEqual(['stopped', ['false', 'Stopped']]);
  await it.report({ phase: 'stopped' });
  expect(it.reason()).toBe('Stopping');
  await it.reportOfPooler({ phase: 'stopped' });
  expect([it.phase(), it.reason()]).toEqual(['stopped', 'Stopped']);
  await it.change((draft) => void (draft.run = 'running'));
  expect([it.instance()?.desired.run, it.pooler()?.desired.run]).toEqual(['running', 'running']);
});

test('a pooler that does not serve says why, and the database goes on', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  await it.reportOfPooler({ error: { code: 'image_not_found', message: 'There is no image pgbouncer' } });
  expect(it.pooled()).toEqual([
    'false',
    'CannotStart',
    'Its pooler cannot start: There is no image pgbouncer (let its server reach a registry that has it, or have the operator name another one by --pooler-image)',
  ]);
  await it.reportOfPooler({ crash_loop: true, last_exit: { code: 1, lines: 'FATAL cannot read config' } });
  expect(it.pooled()?.slice(1)).toEqual([
    'CrashLoop',
    'Its process keeps exiting, last with code 1: FATAL cannot read config',
  ]);
  await it.reportOfPooler({ error: { code: 'out_of_memory', message: 'Killed' } });
  expect(it.pooled()?.[1]).toBe('OutOfMemory');
  await it.reportOfPooler({ ready: false });
  expect(it.pooled()?.[1]).toBe('NotReady');
  expect([it.phase(), it.reason(), it.told()]).toEqual(['running', 'Running', []]);
  await it.server('offline');
  expect(it.pooled()?.slice(0, 2)).toEqual(['unknown', 'ServerOffline']);
});

test('the pooler of a database that was deleted goes with it', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  const unit = rig.repo.begin();
  unit.requestDelete(it.view.get('database', id('orders'))!);
  await commit(unit);
  await rig.rest();
  expect(it.pooler()?.meta.deletionRequestedAt).toBeDefined();
});

test('a pooler runs the image that the operator names', async () => {
  const poolerImage = 'registry.example.com/pgbouncer:1';
  const own = databaseController({ unreadyGraceMs, startDeadlineMs, poolerImage, secrets });
  await using rig = await openRig({ controllers: [own, volumeController] });
  const it = await made(rig, { connection_pooling: true });
  expect(it.pooler()?.desired.spec).toMatchObject({ image: 'registry.example.com/pgbouncer:1' });
});

const encrypted = (it: Awaited<ReturnType<typeof made>>) => {
  const found = it.observed()?.conditions.find(({ type }) => type === 'Encrypted');
  return found && [found.status, found.reason];
};
const specOf = (it: Awaited<ReturnType<typeof made>>) => {
  const spec = it.instance()?.desired.spec;
  if (spec?.type !== 'service') throw new Error('It has no instance');
  return spec;
};
const tlsOf = (it: Awaited<ReturnType<typeof made>>) => it.view.get('database', id('orders'))?.desired.tls;
const authorityOf = (it: Awaited<ReturnType<typeof made>>) =>
  it.view.get('environment', id('environment'))?.desired.authority;
const dayMs = 86_400_000;

test('a new database speaks TLS by a certificate of the authority of its environment, which issues those of others, too', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  const [tls, authority] = [tlsOf(it), authorityOf(it)];
  expect(tls).toMatchObject({ revision: 1, authority: authority?.certificate });
  const certificate = new X509Certificate(tls!.certificate);
  expect(certificate.verify(new X509Certificate(authority!.certificate).publicKey)).toBe(true);
  expect([certificate.checkHost('orders-0a1b2c'), certificate.checkHost('orders-0a1b2c-pooler')]).toEqual([
    'orders-0a1b2c',
    'orders-0a1b2c-pooler',
  ]);
  expect([tls!.key.for, authority!.key.for]).toEqual([
    `database/${id('orders')}/tls.key`,
    `environment/${id('environment')}/authority.key`,
  ]);
  expect(specOf(it)).toMatchObject({
    config: { kind: 'database', id: id('orders'), revision: 1, encryption: 'tls-1' },
    command: expect.arrayContaining(['ssl=on', 'ssl_key_file=/etc/setpoint/tls.key']),
    files: expect.arrayContaining([{ path: '/etc/setpoint/tls.key', mode: 0o400, uid: 999, gid: 999 }]),
  });
  expect(encrypted(it)).toEqual(['true', 'Offered']);

  const { desired } = it.view.get('database', id('orders'))!;
  const unit = rig.repo.begin();
  const { tls: _, ...others } = desired;
  unit.create('database', id('others'), {
    ...(structuredClone(others) as DesiredOf<'database'>),
    name: 'others',
    data_volume_id: id('other-data'),
  });
  await commit(unit);
  await rig.rest();
  expect(it.view.get('database', id('others'))?.desired.tls?.authority).toBe(authority?.certificate);
  expect(authorityOf(it)).toEqual(authority);
});

test('a database that requires TLS begins anew with the rules for that, and its pooler with it', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig, { connection_pooling: true });
  await it.reportOfPooler(up);
  const hashes = () => [it.instance()?.desired.spec_hash, it.pooler()?.desired.spec_hash];
  const before = hashes();
  expect(it.pooler()?.desired.spec).toMatchObject({ config: { service: 'pooler', encryption: 'tls-1' } });
  await it.change((draft) => void (draft.require_tls = true));
  expect(specOf(it).command).toContain('hba_file=/etc/setpoint/pg_hba.conf');
  expect(it.pooler()?.desired.spec).toMatchObject({ config: { service: 'pooler', encryption: 'tls-1-alone' } });
  expect(hashes().every((hash, index) => hash !== before[index])).toBe(true);
  expect([tlsOf(it)?.revision, encrypted(it)]).toEqual([1, ['true', 'Required']]);
});

test('what runs without TLS goes on as it is, and speaks it from its next start on', async () => {
  await using rig = await openRig({ controllers });
  const it = await made(rig);
  // as an earlier release left it: begun without a certificate
  const environment = await rig.repo.get('environment', id('environment'));
  const away = rig.repo.begin();
  away.requestDelete(environment!);
  for (const finalizer of environment!.meta.finalizers) away.release(environment!, finalizer);
  await commit(away);
  await rig.repo.change('database', id('orders'), (draft) => void delete draft.tls);
  await rig.rest();
  await it.ofVolume(up);
  await it.report(up);
  expect(specOf(it)).toMatchObject({ config: { kind: 'database', id: id('orders'), revision: 1 }, files: [] });
  const { spec_hash: hash } = it.instance()!.desired;

  const back = rig.repo.begin();
  back.create('environment', id('environment'), desiredState('environment'));
  await commit(back);
  await it.change((draft) => void (draft.display_name = 'Orders'));
  expect([it.instance()?.desired.spec_hash, tlsOf(it), encrypted(it)]).toEqual([hash, undefined, ['false', 'NotYet']]);
  await it.change((draft) => void (draft.restart_token = 'once'));
  expect(tlsOf(it)?.revision).toBe(1);
  expect([it.instance()?.desired.spec_hash === hash, specOf(it).config]).toEqual([
    false,
    { kind: 'database', id: id('orders'), revision: 1, encryption: 'tls-1' },
  ]);
});

test('a certificate is renewed before it ends, which begins the engine anew; other names wait for its next start', async () => {
  await using rig = await openRig({ controllers });
  const it = await serving(rig);
  await rig.repo.change('server', id('server'), (draft) => void (draft.ip_address = '192.0.2.7'));
  await it.change((draft) => void (draft.display_name = 'Orders'));
  expect(tlsOf(it)?.revision).toBe(1);
  await it.change((draft) => void (draft.restart_token = 'once'));
  expect([tlsOf(it)?.revision, tlsOf(it)?.names.includes('192.0.2.7')]).toEqual([2, true]);
  await it.report(up);
  const { spec_hash: hash } = it.instance()!.desired;

  rig.clock.jump(669 * dayMs);
  await it.change((draft) => void (draft.display_name = 'All orders'));
  expect(it.instance()?.desired.spec_hash).toBe(hash);
  rig.clock.jump(2 * dayMs);
  await it.change((draft) => void (draft.display_name = 'Orders'));
  expect([tlsOf(it)?.revision, it.instance()?.desired.spec_hash === hash]).toEqual([3, false]);
  expect(new X509Certificate(tlsOf(it)!.certificate).validToDate.getTime()).toBeGreaterThan(
    rig.clock.now().getTime() + 700 * dayMs,
  );
});

test.each(['redis', 'mongodb'] as const)(
  'a database of %s has no certificate, nor has its environment',
  async (type) => {
    await using rig = await openRig({ controllers });
    const it = await serving(rig, { type });
    expect([tlsOf(it), authorityOf(it), encrypted(it)]).toEqual([undefined, undefined, undefined]);
  },
);

test('a stopped database waits with its certificate for its start', async () => {
  await using rig = await openRig({ controllers });
  const it = await made(rig, { run: 'stopped' });
  expect(tlsOf(it)).toBeUndefined();
  await it.change((draft) => void (draft.run = 'running'));
  expect(tlsOf(it)?.revision).toBe(1);
});
