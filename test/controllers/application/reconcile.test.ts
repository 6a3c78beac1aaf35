import { expect, test } from 'vitest';
import { commit } from '../../../store/unit.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import { controllers, deployed, startDeadlineMs, unreadyGraceMs } from './deployed.ts';

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
