import { expect, test } from 'vitest';
import { kinds } from '../../../store/kinds/kinds.ts';
import { openFunctionRig } from './function-rig.ts';

const minute = 60_000;

test('a call by the schedule whose server is away is made when that is back, and the instants since are missed', async () => {
  await using it = await openFunctionRig({ trigger: { type: 'cron', schedule: '*/10 * * * *', timezone: 'UTC' } });
  const first = await it.deploy();
  await it.built(first);
  await it.report({ ready: true });
  await it.server('offline');
  for (let n = 0; n < 35; n += 1) await it.pass(minute);
  const [call] = it.calls();
  const { firing, missed } = (await it.fn()).observed!;
  expect(it.calls()).toHaveLength(1);
  expect(firing).toMatchObject({ at: call?.desired.spec.type === 'call' && call.desired.spec.scheduled_at });
  expect([firing?.ended, missed?.length]).toEqual([undefined, 2]);

  await it.server('active');
  const one = (await it.rig.repo.get('assignment', call!.meta.id))!;
  const said = kinds.assignment.observed.parse({
    phase: 'succeeded',
    result: { execution_id: crypto.randomUUID(), status: 'succeeded' },
  });
  await it.rig.repo.observe(one, { ...said, observedGeneration: one.meta.generation, conditions: [] }, []);
  await it.pass(minute);
  expect(it.calls()).toEqual([]);
  for (let n = 0; n < 10; n += 1) await it.pass(minute);
  expect(it.calls()[0]?.desired.spec).toMatchObject({ missed });
});

test('a call that a server which answers does not take is given up', async () => {
  await using it = await openFunctionRig({ trigger: { type: 'cron', schedule: '*/10 * * * *', timezone: 'UTC' } });
  const version = await it.deploy();
  await it.built(version);
  await it.report({ ready: true });
  for (let n = 0; n < 10 && it.calls().length === 0; n += 1) await it.pass(minute);
  const first = it.calls()[0]?.desired.spec;
  for (let n = 0; n < 12; n += 1) await it.pass(minute);
  expect(it.calls()[0]?.desired.spec).toMatchObject({ missed: [first?.type === 'call' && first.scheduled_at] });
});

test('a call by the schedule that goes on is not broken off by another limit, which the next one has', async () => {
  await using it = await openFunctionRig({ trigger: { type: 'cron', schedule: '*/10 * * * *', timezone: 'UTC' } });
  const version = await it.deploy();
  await it.built(version);
  await it.report({ ready: true });
  for (let n = 0; n < 11 && it.calls().length === 0; n += 1) await it.pass(minute);
  const [call] = it.calls();
  const { timeout_seconds: before } = (await it.fn()).desired;
  await it.change({ timeout_seconds: 900 });
  expect(it.calls().map(({ meta }) => [meta.id, meta.generation])).toEqual([[call!.meta.id, call!.meta.generation]]);
  expect(call!.desired.spec).toMatchObject({ type: 'call', deadline_seconds: before + 60 });
  const said = kinds.assignment.observed.parse({
    phase: 'succeeded',
    result: { execution_id: crypto.randomUUID(), status: 'succeeded' },
  });
  await it.rig.repo.observe(call!, { ...said, observedGeneration: call!.meta.generation, conditions: [] }, []);
  await it.pass(minute);
  for (let n = 0; n < 11 && it.calls().length === 0; n += 1) await it.pass(minute);
  expect(it.calls()[0]!.desired.spec).toMatchObject({ type: 'call', deadline_seconds: 960 });
});

test('a call by the schedule that goes on has the time that it began with, also where the limit is lowered', async () => {
  await using it = await openFunctionRig({ trigger: { type: 'cron', schedule: '*/10 * * * *', timezone: 'UTC' } });
  await it.change({ timeout_seconds: 900 });
  const version = await it.deploy();
  await it.built(version);
  await it.report({ ready: true });
  for (let n = 0; n < 11 && it.calls().length === 0; n += 1) await it.pass(minute);
  const [call] = it.calls();
  expect(call!.desired.spec).toMatchObject({ type: 'call', deadline_seconds: 960 });
  await it.change({ timeout_seconds: 30 });
  for (let n = 0; n < 14; n += 1) await it.pass(minute);
  expect(it.calls().map(({ meta }) => meta.id)).toEqual([call!.meta.id]);
  expect((await it.fn()).observed?.firing?.ended).toBeUndefined();
  for (let n = 0; n < 6; n += 1) await it.pass(minute);
  expect(it.calls().map(({ meta }) => meta.id)).not.toContain(call!.meta.id);
});
