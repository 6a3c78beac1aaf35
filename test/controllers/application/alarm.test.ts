import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant, type Rig } from '../runtime/rig.ts';
import { controllers, deployed, startDeadlineMs, unreadyGraceMs } from './deployed.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig({ controllers });
  const made = rig.repo.begin();
  const administrator = { email: 'ann@example.test', role: 'admin' as const };
  made.create('user', randomUUID(), desiredState('user', administrator));
  await commit(made);
});
afterEach(() => rig[Symbol.asyncDispose]());

/** What users have been notified of an application, oldest first. */
const told = (): string[] =>
  rig.mirror
    .tenant(tenant)
    .list('notification')
    .filter(({ desired }) => desired.type.startsWith('application_'))
    .toSorted((a, b) => a.meta.desiredRevision - b.meta.desiredRevision)
    .map(({ desired }) => `${desired.type}: ${desired.message}`);

async function server(id: string, phase: ObservedOf<'server'>['phase']): Promise<void> {
  const it = await rig.repo.get('server', id);
  if (it === undefined) throw new Error('The server is gone');
  await rig.repo.observe(it, { phase, observedGeneration: it.meta.generation, conditions: [] }, []);
  await rig.rest();
}

const up = { ready: true, stable: true };
const crashes = { crash_loop: true, last_output: 'no database' };
const looping = 'application_error: Its process keeps exiting: its log shows why\n\nno database';
const back = 'application_recovered: Every instance is ready';

test('a process that keeps exiting after its server came back is notified, and not the absence of the server', async () => {
  const one = await deployed(rig);
  await one.report(up);
  await server(one.server, 'offline');
  expect(one.phase()).toBe('error');
  await server(one.server, 'error');
  await server(one.server, 'active');
  expect(told()).toEqual([]);
  await one.report(crashes);
  expect(told()).toEqual([looping]);
  await server(one.server, 'offline');
  await server(one.server, 'active');
  expect(told()).toEqual([looping]);
  await one.report(up);
  expect(told()).toEqual([looping, back]);
});

test('a process that keeps exiting from its start on is notified', async () => {
  const one = await deployed(rig);
  await one.report(up);
  const run = async (state: 'running' | 'stopped'): Promise<void> => {
    const it = await rig.repo.get('application', one.app);
    const change = rig.repo.begin();
    change.change(it!, (draft) => void (draft.run = state));
    await commit(change);
    await rig.rest();
  };
  await run('stopped');
  await one.report({ phase: 'stopped' });
  await run('running');
  expect(one.phase()).toBe('deploying');
  await one.report(crashes);
  expect(told()).toEqual([looping]);
  await run('stopped');
  await one.report({ phase: 'stopped' });
  await run('running');
  await one.report(up);
  expect(told()).toEqual([looping]);
});

test('one of three instances that keeps exiting is notified once, and once more when none serves', async () => {
  const one = await deployed(rig, 3);
  for (const slot of [0, 1, 2]) await one.report(up, slot);
  await one.report(crashes, 1);
  const part = 'application_error: An instance keeps exiting: 2 of 3 instances are ready\n\nno database';
  expect(told()).toEqual([part]);
  await one.report({ ...up, crash_loop: true }, 1);
  await one.report(crashes, 1);
  expect(told()).toEqual([part]);
  await one.report(crashes, 0);
  await one.report(crashes, 2);
  expect(told()).toEqual([part, looping]);
  for (const slot of [0, 1]) await one.report(up, slot);
  await one.report({ ready: false }, 2);
  expect(told()).toEqual([part, looping]);
  await one.report(up, 2);
  expect(told()).toEqual([part, looping, back]);
});

test('a process that keeps exiting is notified of with its code, also while it is ready at times', async () => {
  const one = await deployed(rig);
  await one.report(up);
  const last = { crash_loop: true, last_output: 'lost it', last_exit: { code: 7, lines: 'lost it' } };
  await one.report({ ...up, ...last });
  const message = 'application_error: Its process keeps exiting, last with code 7: its log shows why\n\nlost it';
  expect(told()).toEqual([message]);
  await one.report({ ...last, ready: false });
  await one.report({ ...up, ...last });
  expect(one.phase()).toBe('running');
  await one.report({ ...last, ready: false });
  expect(one.phase()).toBe('running');
  await rig.clock.advance(unreadyGraceMs);
  await rig.rest();
  expect(one.phase()).toBe('error');
  expect(told()).toEqual([message, message]);
  await one.report(up);
  expect(told()).toEqual([message, message, back]);
});

test('a process that keeps exiting is notified also where it was notified that no instance is ready', async () => {
  const one = await deployed(rig);
  await one.report(up);
  await one.report({ ready: false });
  await rig.clock.advance(startDeadlineMs);
  await rig.rest();
  const unready = 'application_error: No instance has become ready';
  expect(told()).toEqual([unready]);
  await one.report(crashes);
  await one.report({ ...up, crash_loop: true });
  await one.report(crashes);
  expect(told()).toEqual([unready, looping]);
});
