import { expect, test } from 'vitest';
import { openFunctionRig } from './function-rig.ts';
import type { FunctionRig } from './function-rig.ts';

/** Lets the only version of the function serve, then stops the function. Resolves with the id of the version. */
async function stopped(it: FunctionRig): Promise<string> {
  const first = await it.deploy();
  await it.built(first);
  await it.report({ ready: true });
  await it.change({ run: 'stopped' });
  await it.report({ phase: 'stopped' });
  return first;
}

const served = (it: FunctionRig) => [it.served()?.desired.version, it.served()?.desired.run];

test('a stopped function that is deployed serves nothing until its new version is built', async () => {
  await using it = await openFunctionRig();
  const first = await stopped(it);
  const second = await it.deploy();
  await it.pass(60_000);
  expect(served(it)).toEqual([first, 'stopped']);
  expect([(await it.fn()).observed?.phase, (await it.ready()).reason]).toEqual(['deploying', 'Building']);
  await it.built(second);
  expect(served(it)).toEqual([second, 'running']);
  await it.report({ ready: true });
  await it.report({ ready: true });
  expect([(await it.fn()).observed?.active_version_id, (await it.ready()).reason]).toEqual([second, 'Serving']);
  expect((await it.fn()).observed?.at_rest).toBeUndefined();
});

test('a stopped function stays stopped where its new version is not built, and the version before starts when it is asked for', async () => {
  await using it = await openFunctionRig();
  const first = await stopped(it);
  const second = await it.deploy();
  await it.built(second, { phase: 'failed', error: { code: 'build_failed', message: 'SyntaxError' } });
  await it.pass(60_000);
  expect(served(it)).toEqual([first, 'stopped']);
  expect((await it.fn()).observed?.phase).toBe('stopped');
  expect(await it.ready()).toEqual({
    reason: 'VersionFailed',
    message:
      'Version 2 failed: SyntaxError. The function stays stopped, as it was: deploy it again, or start it with the version before',
  });
  await it.change({ version_id: first, attempt: 3 });
  expect(served(it)).toEqual([first, 'running']);
  await it.report({ ready: true });
  expect((await it.ready()).reason).toBe('Serving');
});

test('a stopped function stays stopped where its new version does not start', async () => {
  await using it = await openFunctionRig();
  const first = await stopped(it);
  const second = await it.deploy();
  await it.built(second);
  await it.report({ error: { code: 'not_started', message: 'its process ended: no database' } });
  await it.pass(60_000);
  expect(served(it)).toEqual([first, 'stopped']);
  await it.report({ phase: 'stopped' });
  expect((await it.fn()).observed).toMatchObject({ phase: 'stopped', active_version_id: first });
  expect((await it.ready()).message).toContain('Version 2 does not start: its process ended: no database');
});

test('a running function serves on while its next version is built and where that fails', async () => {
  await using it = await openFunctionRig();
  const first = await it.deploy();
  await it.built(first);
  await it.report({ ready: true });
  const second = await it.deploy();
  expect(served(it)).toEqual([first, 'running']);
  await it.built(second, { phase: 'failed', error: { code: 'build_failed', message: 'SyntaxError' } });
  expect(served(it)).toEqual([first, 'running']);
  expect((await it.fn()).observed?.phase).toBe('running');
});

test('the schedule of a stopped function rests while the version that is to serve is built', async () => {
  await using it = await openFunctionRig({ trigger: { type: 'cron', schedule: '* * * * *', timezone: 'UTC' } });
  await stopped(it);
  const second = await it.deploy();
  for (let n = 0; n < 5; n += 1) await it.pass(60_000);
  expect(it.calls()).toEqual([]);
  await it.built(second);
  await it.report({ ready: true });
  await it.pass(60_000);
  expect(it.calls()).toHaveLength(1);
});
