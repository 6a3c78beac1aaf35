import { expect, test } from 'vitest';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { keys } from '../../../store/keys.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { openRig, tenant, type Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

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

/** An application on a server of its own, with its first deployment. */
async function deploy(rig: Rig, source?: typeof git) {
  const server = aServer();
  const app = anApplication({ server_id: server.meta.id, ...(source !== undefined && { source }) });
  const deployment = aDeployment(app);
  const { id } = deployment.meta;
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, desiredState('application', { ...app.desired, deployment_id: id }));
  made.create('deployment', id, deployment.desired);
  await commit(made);
  await rig.rest();
  const phase = () => rig.mirror.tenant(tenant).get('deployment', id)?.observed?.phase;
  return { id, server: server.meta.id, phase };
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

test('a rollout has its whole deadline, however long its build took', async () => {
  const deadlines = { queueDeadlineMs: 600_000, buildDeadlineMs: 1_800_000, rolloutDeadlineMs: 600_000 };
  await using rig = await openRig({ controllers: [deploymentController(deadlines)] });
  const { id, phase } = await deploy(rig, git);
  const [build] = rig.mirror.tenant(tenant).by('assignment', 'version', id);
  const report = async (observed: Partial<ObservedOf<'assignment'>>): Promise<void> => {
    const it = await rig.repo.get('assignment', build?.meta.id ?? '');
    if (it === undefined) throw new Error('The deployment has no build');
    const report = kinds.assignment.observed.parse({ phase: 'pending', ...observed });
    await rig.repo.observe(it, { ...report, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
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
