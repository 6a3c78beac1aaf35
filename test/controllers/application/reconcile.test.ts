import { expect, test } from 'vitest';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { openRig, tenant, type Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

const unreadyGraceMs = 30_000;
const startDeadlineMs = 600_000;
const controllers = [
  applicationController({ unreadyGraceMs, startDeadlineMs }),
  deploymentController({ queueDeadlineMs: 600_000, buildDeadlineMs: 600_000, rolloutDeadlineMs: 600_000 }),
];

/** An application of one instance, and what its agent reports of that. */
async function deployed(rig: Rig) {
  const server = aServer();
  const app = anApplication({ server_id: server.meta.id });
  const deployment = aDeployment(app);
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create(
    'application',
    app.meta.id,
    desiredState('application', { ...app.desired, deployment_id: deployment.meta.id }),
  );
  made.create('deployment', deployment.meta.id, deployment.desired);
  await commit(made);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const instance = assignmentId.slot(deployment.meta.id, 0);
  return {
    app: app.meta.id,
    deployment: deployment.meta.id,
    instance,
    phase: () => view.get('application', app.meta.id)?.observed?.phase,
    report: async (observed: Partial<ObservedOf<'assignment'>>): Promise<void> => {
      const it = await rig.repo.get('assignment', instance);
      if (it === undefined) throw new Error('The application has no instance');
      const full = kinds.assignment.observed.parse({ phase: 'running', ...observed });
      await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
      await rig.rest();
    },
  };
}

test('an application in error stays so for as long as it has no ready instance', async () => {
  await using rig = await openRig({ controllers });
  const { phase, report } = await deployed(rig);
  await report({ ready: true, stable: true });
  expect(phase()).toBe('running');
  await report({ ready: false });
  await rig.clock.advance(unreadyGraceMs - 1);
  await rig.rest();
  expect(phase()).toBe('running');
  await rig.clock.advance(1);
  await rig.rest();
  expect(phase()).toBe('error');
  await rig.clock.advance(startDeadlineMs);
  await rig.rest();
  expect(phase()).toBe('error');
});

test('a new leader has an application in error wait no longer than one that runs', async () => {
  await using rig = await openRig({ controllers });
  const { app, phase, report } = await deployed(rig);
  await report({ ready: true, stable: true });
  await report({ ready: false });
  await rig.clock.advance(unreadyGraceMs);
  await rig.rest();
  await rig.controllers[Symbol.asyncDispose]();
  rig.replica('next', controllers);
  await rig.clock.advance(1000);
  await rig.rest();
  expect(phase()).toBe('error');
  await rig.clock.advance(unreadyGraceMs);
  await rig.rest();
  const conditions = rig.mirror.tenant(tenant).get('application', app)?.observed?.conditions ?? [];
  expect(conditions.find(({ type }) => type === 'Reconciling')?.reason).toBe('Waiting');
});

test('an application goes after its deployments, and those after their instances', async () => {
  await using rig = await openRig({ controllers });
  const { app, deployment, instance, report } = await deployed(rig);
  await report({ ready: true, stable: true });
  const removed = rig.repo.begin();
  const it = await rig.repo.get('application', app);
  if (it === undefined) throw new Error('The application is gone already');
  removed.requestDelete(it);
  await commit(removed);
  await rig.rest();
  await rig.clock.advance(60_000);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const left = () => [
    view.get('application', app),
    view.get('deployment', deployment),
    view.get('assignment', instance),
  ];
  expect(left().map((one) => one?.meta.deletionRequestedAt !== undefined)).toEqual([true, true, true]);

  const gone: string[] = [];
  const unsubscribe = rig.mirror.subscribe(({ kind, after }) => {
    if (after === undefined) gone.push(kind);
  });
  const agent = rig.repo.begin();
  const slot = await rig.repo.get('assignment', instance);
  if (slot === undefined) throw new Error('The instance is gone already');
  agent.release(slot, 'agent');
  await commit(agent);
  await rig.rest();
  unsubscribe();
  expect(gone).toEqual(['assignment', 'deployment', 'application']);
});
