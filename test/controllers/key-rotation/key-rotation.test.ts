import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { ensureSigningKeys, openSigningKeys } from '../../../api/auth/signing-keys.ts';
import { systemRandom } from '../../../api/ground/random.ts';
import { applicationSeen } from '../../../api/resources/application.ts';
import { servicesOf } from '../../../controllers/rollout/services.ts';
import { instanceDesired } from '../../../controllers/application/instance.ts';
import { clusterKey } from '../../../controllers/gateway/cluster-key.ts';
import { Projection } from '../../../controllers/gateway/projection.ts';
import { keyRotation, rotate } from '../../../controllers/key-rotation/key-rotation.ts';
import type { Term } from '../../../controllers/runtime/leader.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { controllerMetrics } from '../../../controllers/runtime/metrics.ts';
import { keys } from '../../../store/keys.ts';
import { openKeyring } from '../../../store/seal.ts';
import { eagerClock } from '../../harness/eager-clock.ts';
import { aDeployment, anApplication } from '../../harness/objects.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

const place = { tenant, kind: 'application', id: id('app'), path: 'config.env.TOKEN' };

async function withSecret(background: Parameters<typeof openRig>[0] = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-keys-'));
  const rig = await openRig(background);
  const ring = await openKeyring({ path: join(folder, 'keys'), store: rig.store });
  const app = anApplication({ environment_id: id('env') });
  const unit = rig.repo.begin();
  unit.create(
    'application',
    id('app'),
    desiredState('application', {
      ...app.desired,
      config: { ...app.desired.config, env: { TOKEN: ring.seal('hunter2', place) } },
    }),
  );
  await unit.commit();
  await rig.rest();
  const remove = (): Promise<void> => rm(folder, { recursive: true });
  return { rig, ring, remove };
}

function termOf(): Term {
  const epoch = 1 as Term['epoch'];
  return { epoch, fence: { key: keys.leader('x'), is: 'absent' }, signal: new AbortController().signal };
}

const deps = (rig: Rig) => ({
  store: rig.store,
  clock: eagerClock,
  log: pino({ level: 'silent' }),
  metrics: controllerMetrics(new Registry()),
});

const token = async (rig: Rig) => (await rig.repo.get('application', id('app')))!.desired.config.env['TOKEN']!;

test('values of an older key are sealed anew in place, and no generation grows', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const before = (await rig.repo.get('application', id('app')))!;
  await ring.addKey();
  expect(ring.needsReseal(await token(rig))).toBe(true);
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 2, contended: 0, unreadable: 0 });
  const after = (await rig.repo.get('application', id('app')))!;
  expect(ring.needsReseal(await token(rig))).toBe(false);
  expect(ring.unseal(await token(rig), place)).toBe('hunter2');
  expect({ ...after.meta, desiredRevision: 0 }).toEqual({ ...before.meta, desiredRevision: 0 });
  rig.store.reset();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 0, contended: 0, unreadable: 0 });
  expect(rig.store.committed).toBe(0);
  await remove();
});

test.each(['private_key', 'password'] as const)('the %s of an SSH key is sealed anew', async (field) => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const secret = { tenant, kind: 'ssh_key', id: id('key'), path: `credential.${field}` };
  const sealed = ring.seal('open sesame', secret);
  const unit = rig.repo.begin();
  unit.create('ssh_key', id('key'), {
    name: 'fleet',
    credential:
      field === 'password'
        ? { type: 'password', password: sealed }
        : { type: 'key', algorithm: 'ed25519', public_key: 'ssh-ed25519 AAAA', private_key: sealed },
  });
  await unit.commit();
  await ring.addKey();
  await rotate(ring, termOf(), deps(rig));
  const { credential } = (await rig.repo.get('ssh_key', id('key')))!.desired;
  const now = credential.type === 'password' ? credential.password : credential.private_key;
  expect([ring.needsReseal(now), ring.unseal(now, secret)]).toEqual([false, 'open sesame']);
  expect(now.$sealed).not.toBe(sealed.$sealed);
  await remove();
});

test('a record that is damaged keeps none of the others from being sealed anew', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  await ring.addKey();
  const damaged = keys.desired(tenant, 'application', '0');
  await rig.store.txn({ if: [], then: [{ put: damaged, value: '{"build_args":{"A":"b' }] });
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 2, contended: 0, unreadable: 1 });
  expect(ring.needsReseal(await token(rig))).toBe(false);
  await remove();
});

test('the keys of the installation and answers that are kept are sealed anew, too', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const cluster = await clusterKey(rig.store, ring, ring);
  const signing = { store: rig.store, sealer: ring, clock: rig.clock, random: systemRandom };
  const before = openSigningKeys(await ensureSigningKeys(signing), ring);
  const answer = { tenant, kind: 'idempotency', id: 'abc', path: 'answer' };
  const kept = keys.idempotency(tenant, 'abc');
  await rig.store.txn({ if: [], then: [{ put: kept, value: JSON.stringify({ answer: ring.seal('{}', answer) }) }] });
  const recordedAt = (await rig.store.get(kept))?.modRevision;
  await ring.addKey();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 5, contended: 0, unreadable: 0 });
  const sealed = (await rig.store.list(keys.all)).entries.filter(({ value }) => value.includes('"$sealed"'));
  const stale = sealed.filter(({ value }) => {
    let old = false;
    JSON.parse(value, (_name, it) => ((old ||= it?.$sealed !== undefined && ring.needsReseal(it)), it));
    return old;
  });
  expect(stale).toEqual([]);
  // by which the answer has the version of its object
  expect(JSON.parse((await rig.store.get(kept))?.value ?? '')).toMatchObject({ revision: String(recordedAt) });
  await ring.addKey();
  await rotate(ring, termOf(), deps(rig));
  expect(JSON.parse((await rig.store.get(kept))?.value ?? '')).toMatchObject({ revision: String(recordedAt) });
  expect(await clusterKey(rig.store, ring, ring)).toEqual(cluster);
  const after = openSigningKeys(await ensureSigningKeys(signing), ring);
  expect(after.current.kid).toBe(before.current.kid);
  expect(after.current.key.equals(before.current.key)).toBe(true);
  await remove();
});

test('what a deployment has of the source of its application equals that also once both are sealed anew', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const compose_file = ring.seal('services: {web: {image: web}}', {
    tenant,
    kind: 'application',
    id: id('composed'),
    path: 'source.compose_file',
  });
  const source = { type: 'compose' as const, compose_file };
  const app = anApplication({ environment_id: id('env'), name: 'composed', source });
  const deployment = aDeployment(app);
  const unit = rig.repo.begin();
  unit.create('deployment', deployment.meta.id, deployment.desired);
  unit.create('application', app.meta.id, { ...app.desired, deployment_id: deployment.meta.id });
  await unit.commit();
  const seen = async () => {
    await rig.rest();
    const it = (await rig.repo.get('application', app.meta.id))!;
    const deployed = (await rig.repo.get('deployment', deployment.meta.id))!;
    const { is_source_deployed: isDeployed } = applicationSeen(it, rig.mirror.tenant(tenant));
    return { sources: [it.desired.source, deployed.desired.source], isDeployed };
  };
  const before = await seen();
  expect(before.isDeployed).toBe(true);
  await ring.addKey();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 4, contended: 0, unreadable: 0 });
  const { sources, isDeployed } = await seen();
  expect(sources[0]).not.toEqual(before.sources[0]);
  expect(sources[1]).toEqual(sources[0]);
  expect(isDeployed).toBe(true);
  await remove();
});

test('arguments of builds that an earlier release did not seal are sealed where they lie', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const args = { NPM_TOKEN: 'hunter2', LEVEL: '1' };
  const source = {
    type: 'git' as const,
    repository_url: 'https://git.example/web.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    build_context: '.',
    build_args: args,
  };
  const app = anApplication({ environment_id: id('env'), name: 'git', source });
  const deployment = aDeployment(app);
  const unit = rig.repo.begin();
  unit.create('application', app.meta.id, app.desired);
  unit.create('deployment', deployment.meta.id, deployment.desired);
  unit.create(
    'assignment',
    id('build'),
    desiredState('assignment', {
      server_id: app.desired.server_id,
      project_id: app.desired.project_id,
      environment_id: app.desired.environment_id,
      workload_id: app.meta.id,
      workload_name: 'git',
      version: deployment.meta.id,
      spec: { ...source, type: 'build', image: 'i', deadline_seconds: 1, attempt: 1 },
    }),
  );
  await unit.commit();
  const before = (await rig.repo.get('application', app.meta.id))!;
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 3, contended: 0, unreadable: 0 });
  expect(JSON.stringify((await rig.store.list(keys.all)).entries)).not.toContain('hunter2');
  const after = (await rig.repo.get('application', app.meta.id))!;
  expect({ ...after.meta, desiredRevision: 0 }).toEqual({ ...before.meta, desiredRevision: 0 });
  const build = (await rig.repo.get('assignment', id('build')))!;
  const projection = new Projection({ view: rig.mirror.tenant(tenant), unsealer: ring, capabilities: new Set() });
  expect(projection.item({ it: build, holder: undefined })).toMatchObject({ spec: { build_args: args } });
  await rig.repo.change('deployment', deployment.meta.id, (draft) => {
    expect(draft.source).toEqual({
      ...source,
      build_args: { NPM_TOKEN: expect.any(Object), LEVEL: expect.any(Object) },
    });
  });
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 0, contended: 0, unreadable: 0 });
  await remove();
});

test('an instance that repeats the variables of its deployment loses them when they are to be sealed anew', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const app = anApplication({ environment_id: id('env') });
  const unit = rig.repo.begin();
  const deployment = aDeployment(app);
  unit.create('assignment', id('instance'), {
    ...instanceDesired({
      app,
      deployment,
      service: servicesOf(app, deployment)[0]!,
      server: undefined,
      slot: 0,
      restartToken: undefined,
    }),
  });
  await unit.commit();
  const key = keys.desired(tenant, 'assignment', id('instance'));
  const written = (await rig.store.get(key))!;
  const old = JSON.parse(written.value);
  const { version, service: _service, ...desired } = old.desired;
  const { networks, slot, image, grace_seconds, restart_policy } = desired.spec;
  const [{ name: network, aliases }] = networks;
  const env = { TOKEN: ring.seal('hunter2', place) };
  const spec = { type: 'service', slot, image, env, restart_policy, grace_seconds, network, alias: aliases[0] };
  Object.assign(old, { v: 1, desired: { ...desired, deployment_id: version, spec } });
  await rig.store.txn({ if: [], then: [{ put: key, value: JSON.stringify(old) }] });
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 0, contended: 0, unreadable: 0 });
  await ring.addKey();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 3, contended: 0, unreadable: 0 });
  const expected = JSON.parse(written.value);
  // the form of earlier releases has neither
  Object.assign(expected.desired.spec, { drain_seconds: 0, image_check: false });
  expect(JSON.parse((await rig.store.get(key))!.value)).toEqual(expected);
  await ring.addKey();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 2, contended: 0, unreadable: 0 });
  await remove();
});

test('who writes at the same time wins, and the next pass seals what was written', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  await ring.addKey();
  const original = rig.store.txn.bind(rig.store);
  let raced = false;
  rig.store.txn = async (txn) => {
    if (!raced) {
      raced = true;
      await rig.repo.change('application', id('app'), (draft) => void (draft.replicas = 7));
    }
    return original(txn);
  };
  expect(await rotate(ring, termOf(), deps(rig))).toMatchObject({ contended: 1, resealed: 1 });
  expect(await rotate(ring, termOf(), deps(rig))).toMatchObject({ contended: 0, resealed: 1 });
  const stored = (await rig.repo.get('application', id('app')))!;
  expect(stored.desired.replicas).toBe(7);
  expect(ring.unseal(await token(rig), place)).toBe('hunter2');
  await remove();
});

test('a deposed leader seals nothing anew', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  await ring.addKey();
  await rig.store.txn({ if: [], then: [{ put: keys.leader('x'), value: '{}' }] });
  expect(await rotate(ring, termOf(), deps(rig))).toMatchObject({ resealed: 0, contended: 2 });
  expect(ring.needsReseal(await token(rig))).toBe(true);
  await remove();
});

test('a value that does not open is reported and left alone, and the others are sealed', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  const app = anApplication({ environment_id: id('env'), name: 'broken' });
  const sealed = ring.seal('x', { ...place, id: app.meta.id });
  const unit = rig.repo.begin();
  unit.create(
    'application',
    app.meta.id,
    desiredState('application', {
      ...app.desired,
      config: { ...app.desired.config, env: { TOKEN: { ...sealed, for: 'application/elsewhere/config.env.TOKEN' } } },
    }),
  );
  await unit.commit();
  await ring.addKey();
  expect(await rotate(ring, termOf(), deps(rig))).toEqual({ resealed: 2, contended: 0, unreadable: 1 });
  await remove();
});

test('what a pass could not seal as it failed is sealed by the next pass', async () => {
  const { rig, ring, remove } = await withSecret();
  await using _ = rig;
  await ring.addKey();
  const before = await token(rig);
  const list = rig.store.list.bind(rig.store);
  rig.replica('second', [], [keyRotation(ring)]);
  let failures = 0;
  rig.store.list = (...range) => {
    if (range[0] !== keys.all || failures > 0) return list(...range);
    failures++;
    return Promise.reject(new TypeError('a record that nothing expects'));
  };
  await rig.controllers[Symbol.asyncDispose]();
  await rig.clock.advance(limits.rotation.everyMs / 2);
  expect([failures, await token(rig)]).toEqual([1, before]);
  await rig.clock.advance(2 * limits.rotation.everyMs);
  await rig.rest();
  expect((await token(rig)).$sealed).not.toBe(before.$sealed);
  await remove();
});

test('the leader looks for older keys by itself', async () => {
  let passes = 0;
  const resealer = {
    seal: () => ({ $sealed: '', for: '' }),
    resealRecord: () => {
      passes++;
      return undefined;
    },
  };
  const { rig, remove } = await withSecret({ background: [keyRotation(resealer)] });
  await using _ = rig;
  await rig.clock.advance(3 * limits.rotation.everyMs);
  expect(passes).toBe(3 * 2);
  await remove();
});
