import { expect, test } from 'vitest';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { buildRole } from '../../../store/kinds/composed-service.ts';
import { keys } from '../../../store/keys.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { revision } from '../../../store/revision.ts';
import { commit } from '../../../store/unit.ts';
import { composedService } from '../../harness/composed-service.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { openRig, tenant, type Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

const waitsLong = { queueDeadlineMs: 24 * 3_600_000, buildDeadlineMs: 600_000, rolloutDeadlineMs: 600_000 };

const controllers = [
  deploymentController({ queueDeadlineMs: 600_000, buildDeadlineMs: 600_000, rolloutDeadlineMs: 600_000 }),
  serverController(serverSettings),
];

const git = {
  type: 'git' as const,
  repository_url: 'https://example.test/a.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
};

const composed = {
  type: 'compose' as const,
  repository: { repository_url: git.repository_url, branch: 'main', compose_path: 'compose.yaml' },
};

/** An application on a server of its own, with its first deployment, and services of a compose file that are built. */
async function deploy(rig: Rig, source?: typeof git | typeof composed, services: readonly string[] = []) {
  const server = aServer();
  const app = anApplication({ server_id: server.meta.id, ...(source !== undefined && { source }) });
  const { id } = aDeployment(app).meta;
  const build = { context: '.', dockerfile_path: 'Dockerfile', args: {} };
  const built = services.map((name) => composedService(name, id, { image: `setpoint/web:1-${name}`, build }));
  const deployment = aDeployment(app, built.length === 0 ? {} : { services: built });
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, desiredState('application', { ...app.desired, deployment_id: id }));
  made.create('deployment', id, deployment.desired);
  await commit(made);
  await rig.rest();
  const phase = () => rig.mirror.tenant(tenant).get('deployment', id)?.observed?.phase;
  return { id, server: server.meta.id, phase };
}

/** Writes what the server reports of a build of the deployment. */
async function reportBuild(
  rig: Rig,
  deployment: string,
  role: string,
  observed: Partial<ObservedOf<'assignment'>>,
): Promise<void> {
  const it = await rig.repo.get('assignment', assignmentId.task(deployment, role));
  if (it === undefined) throw new Error('The deployment has no such build');
  const report = kinds.assignment.observed.parse({ phase: 'pending', ...observed });
  await rig.repo.observe(it, { ...report, observedGeneration: it.meta.generation, conditions: [] }, []);
  await rig.rest();
}

test('a deployment that waits for a server fails when the server is deleted, and leaves no build to an agent that is gone', async () => {
  await using rig = await openRig({ controllers });
  const { id, server } = await deploy(rig, git);
  const view = rig.mirror.tenant(tenant);
  expect(view.by('assignment', 'version', id)).toHaveLength(1);

  const removed = rig.repo.begin();
  removed.requestDelete((await rig.repo.get('server', server)) as unknown as ReadonlyResource);
  await commit(removed);
  await rig.rest();
  await rig.clock.advance(60_000);
  await rig.rest();

  expect(view.get('server', server)).toBeUndefined();
  expect(view.get('deployment', id)?.observed).toMatchObject({ phase: 'failed', error: { code: 'server_gone' } });
  expect(view.by('assignment', 'version', id)).toEqual([]);
});

test('a build has its whole time once it begins, however long its server built others', async () => {
  await using rig = await openRig({ controllers: [deploymentController(waitsLong)] });
  const { id, phase } = await deploy(rig, git);
  await reportBuild(rig, id, 'build', { phase: 'pending' });
  await rig.clock.advance(3_600_000);
  await rig.rest();
  const { conditions, started_at } = rig.mirror.tenant(tenant).get('deployment', id)!.observed!;
  expect([phase(), started_at]).toEqual(['queued', undefined]);
  expect(conditions.find(({ type }) => type === 'Ready')?.message).toBe('Its build waits for others on its server');
  await reportBuild(rig, id, 'build', { phase: 'running' });
  await rig.clock.advance(659_000);
  await rig.rest();
  expect(phase()).toBe('building');
  await rig.clock.advance(1_000);
  await rig.rest();
  expect(rig.mirror.tenant(tenant).get('deployment', id)?.observed?.error).toMatchObject({
    code: 'build_timeout',
    message: expect.stringContaining('did not end in time'),
  });
});

test('a build that never has its turn ends when a deployment has waited long enough, and says why', async () => {
  await using rig = await openRig({ controllers: [deploymentController(waitsLong)] });
  const { id } = await deploy(rig, git);
  await reportBuild(rig, id, 'build', { phase: 'pending' });
  await rig.clock.advance(24 * 3_600_000);
  await rig.rest();
  expect(rig.mirror.tenant(tenant).get('deployment', id)?.observed?.error).toMatchObject({
    code: 'build_timeout',
    message: expect.stringContaining('had others before it'),
  });
});

test('each build of a compose file has its whole time, and what waits between two of them is not of it', async () => {
  await using rig = await openRig({ controllers: [deploymentController(waitsLong)] });
  const { id, phase } = await deploy(rig, composed, ['web', 'worker']);
  const built = { phase: 'succeeded' as const, image_digest: `sha256:${'0'.repeat(64)}` };
  await reportBuild(rig, id, buildRole('web'), { phase: 'running' });
  await reportBuild(rig, id, buildRole('worker'), { phase: 'pending' });
  await rig.clock.advance(600_000);
  await reportBuild(rig, id, buildRole('web'), built);
  await rig.clock.advance(3_600_000);
  await rig.rest();
  expect(phase()).toBe('building');
  await reportBuild(rig, id, buildRole('worker'), { phase: 'running' });
  await rig.clock.advance(659_000);
  await rig.rest();
  expect(phase()).toBe('building');
  await reportBuild(rig, id, buildRole('worker'), built);
  expect(phase()).toBe('deploying');
});

test('a rollout has its whole deadline, however long its build took', async () => {
  const deadlines = { queueDeadlineMs: 600_000, buildDeadlineMs: 1_800_000, rolloutDeadlineMs: 600_000 };
  await using rig = await openRig({ controllers: [deploymentController(deadlines)] });
  const { id, phase } = await deploy(rig, git);
  const report = (observed: Partial<ObservedOf<'assignment'>>) => reportBuild(rig, id, 'build', observed);
  await report({ phase: 'running' });
  expect(phase()).toBe('building');
  await rig.clock.advance(1_200_000);
  await report({ phase: 'succeeded', image_digest: `sha256:${'0'.repeat(64)}` });
  expect(phase()).toBe('deploying');
  await rig.clock.advance(599_000);
  await rig.rest();
  expect(phase()).toBe('deploying');
  await rig.clock.advance(1_000);
  await rig.rest();
  expect(phase()).toBe('failed');
});

test('a build goes only after its deployment has stored what it made, so that its server never lacks both', async () => {
  await using rig = await openRig({ controllers });
  const { id } = await deploy(rig, git);
  const build = rig.mirror.tenant(tenant).by('assignment', 'version', id)[0]?.meta.id ?? '';
  const { generation } = (await rig.repo.get('assignment', build))!.meta;
  const report = kinds.assignment.observed.parse({ phase: 'succeeded', image_digest: `sha256:${'0'.repeat(64)}` });
  const since = await rig.store.revision();
  await rig.repo.observe(
    (await rig.repo.get('assignment', build))!,
    { ...report, observedGeneration: generation, conditions: [] },
    [],
  );
  await rig.rest();
  const order: string[] = [];
  const last = await rig.store.revision();
  for await (const batch of rig.store.watch(keys.all, revision(since + 1), AbortSignal.timeout(10_000))) {
    for (const { key, value } of batch.events) {
      if (key === keys.observed(tenant, 'deployment', id) && value?.includes('"deploying"') === true)
        order.push('stored');
      if (key === keys.desired(tenant, 'assignment', build)) order.push('gone');
    }
    if (batch.revision >= last) break;
  }
  expect(order.slice(0, 2)).toEqual(['stored', 'gone']);
});

test('the deadline of a rollout starts afresh with the term of a leader, also if the same process leads again', async () => {
  await using rig = await openRig({ controllers });
  const { phase } = await deploy(rig);
  await rig.clock.advance(500_000);
  await rig.rest();
  expect(phase()).toBe('deploying');

  await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
  await rig.clock.advance(60_000);
  await rig.rest();
  await rig.clock.advance(400_000);
  await rig.rest();
  expect(phase()).toBe('deploying');
  await rig.clock.advance(200_000);
  await rig.rest();
  expect(phase()).toBe('failed');
});

test('a rollout waits for a volume that is being copied, however long, and has its whole deadline after that', async () => {
  await using rig = await openRig({ controllers });
  const { id, phase } = await deploy(rig);
  const volume = crypto.randomUUID();
  const application = (await rig.repo.get('deployment', id))?.desired.application_id ?? '';
  const unit = rig.repo.begin();
  const copyFrom = { docker_volume: 'blog_data', containers: ['blog-db-1'] };
  unit.create('volume', volume, desiredState('volume', { name: 'rows', copy_from: copyFrom }));
  await commit(unit);
  const mounts = [{ volume_id: volume, path: '/data', read_only: false }];
  await rig.repo.change('application', application, (draft) => void (draft.mounts = mounts));
  const observe = async (state: ObservedOf<'volume'>, reason: string, message: string): Promise<void> => {
    const it = await rig.repo.get('volume', volume);
    if (it === undefined) throw new Error('There is no volume');
    const at = { observedGeneration: 1, changedAt: new Date(0).toISOString() };
    const condition = { type: 'Ready', status: 'false' as const, reason, message, ...at };
    await rig.repo.observe(it, { ...state, observedGeneration: 1, conditions: [condition] }, []);
    await rig.rest();
  };
  const shown = () => {
    const { conditions = [] } = rig.mirror.tenant(tenant).get('deployment', id)?.observed ?? {};
    return conditions.find(({ type }) => type === 'Ready')?.message;
  };
  await observe({ phase: 'pending' }, 'CopyWaits', 'Stop blog-db-1');
  await rig.clock.advance(24 * 3_600_000);
  await rig.rest();
  expect([phase(), shown()]).toEqual(['deploying', 'It waits for volume rows: Stop blog-db-1']);
  await observe({ phase: 'pending' }, 'Copying', 'Docker volume blog_data is being copied: 1.00 of 2.00 GiB');
  expect(shown()).toBe('It waits for volume rows: Docker volume blog_data is being copied');
  await observe({ phase: 'bound', copied: true }, 'Bound', '');
  expect(shown()).toBe('Its instances are being started');
  await rig.clock.advance(599_000);
  await rig.rest();
  expect(phase()).toBe('deploying');
  await rig.clock.advance(1_000);
  await rig.rest();
  expect(phase()).toBe('failed');
});

test('a rollout whose volume cannot be copied fails at its deadline with the reason and what to do', async () => {
  await using rig = await openRig({ controllers });
  const { id, phase } = await deploy(rig);
  const volume = crypto.randomUUID();
  const application = (await rig.repo.get('deployment', id))?.desired.application_id ?? '';
  const unit = rig.repo.begin();
  const copyFrom = { docker_volume: 'blog_data', containers: [] };
  unit.create('volume', volume, desiredState('volume', { name: 'rows', copy_from: copyFrom }));
  await commit(unit);
  const mounts = [{ volume_id: volume, path: '/data', read_only: false }];
  await rig.repo.change('application', application, (draft) => void (draft.mounts = mounts));
  const it = await rig.repo.get('volume', volume);
  if (it === undefined) throw new Error('There is no volume');
  const at = { observedGeneration: 1, changedAt: new Date(0).toISOString() };
  const observe = async (reason: string): Promise<void> => {
    const condition = { type: 'Ready', status: 'false' as const, reason, message: 'Free 3 GiB', ...at };
    const now = (await rig.repo.get('volume', volume)) ?? it;
    await rig.repo.observe(now, { phase: 'error', observedGeneration: 1, conditions: [condition] }, []);
    await rig.rest();
  };
  for (const reason of ['NoSpace', 'Copying', 'NoSpace']) {
    await observe(reason); // each try of the copy leaves the deadline as it is
    expect(phase()).toBe('deploying');
    await rig.clock.advance(200_000);
    await rig.rest();
  }
  expect(phase()).toBe('failed');
  expect(rig.mirror.tenant(tenant).get('deployment', id)?.observed?.error).toEqual({
    code: 'volume_not_copied',
    message: 'Volume rows was not copied in time: Free 3 GiB. Then deploy again',
  });
});
