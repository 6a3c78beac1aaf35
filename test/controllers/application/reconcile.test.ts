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

test('a restart that takes long is no trouble as long as another instance serves in its place', async () => {
  await using rig = await openRig({ controllers });
  const one = await deployed(rig);
  const up = { ready: true, stable: true };
  await one.report(up);
  const ready = () => rig.mirror.tenant(tenant).get('application', one.app)?.observed;
  const condition = () => ready()?.conditions.find(({ type }) => type === 'Ready');
  expect(condition()).toMatchObject({ status: 'true', reason: 'Running' });
  const restart = rig.repo.begin();
  restart.change((await rig.repo.get('application', one.app))!, (draft) => void (draft.restart_token = 'again'));
  await commit(restart);
  await rig.rest();
  await one.report({ ready: true }, 1);
  await one.report({ phase: 'starting', ready: false });
  const message = '1 of 1 instances are not ready yet, and others serve in their place';
  expect(condition()).toMatchObject({ status: 'true', reason: 'Covered', message });
  await rig.clock.advance(2 * unreadyGraceMs);
  await rig.rest();
  expect(one.phase()).toBe('running');
  expect(condition()).toMatchObject({ status: 'true', reason: 'Covered' });
  expect(ready()?.ready_replicas).toBe(1);
  expect(ready()?.notified ?? []).toEqual([]);
  expect(ready()?.conditions.find(({ type }) => type === 'Reconciling')?.message).toBe(
    '1 of 1 instances to become ready',
  );
  // the other one ends, too: the grace begins then
  await one.report({ ready: false }, 1);
  expect(one.phase()).toBe('running');
  expect(condition()).toMatchObject({ status: 'false', reason: 'NoReadyInstance' });
  await rig.clock.advance(unreadyGraceMs);
  await rig.rest();
  expect(one.phase()).toBe('error');
  await one.report(up);
  expect(condition()).toMatchObject({ status: 'true', reason: 'Running' });
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
