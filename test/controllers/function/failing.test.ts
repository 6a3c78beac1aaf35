import { expect, test } from 'vitest';
import { openFunctionRig } from './function-rig.ts';

test('a function none of whose instances starts is in error, and is no more once one has lasted', async () => {
  await using it = await openFunctionRig();
  const first = await it.deploy();
  await it.built(first);
  await it.report({ ready: true });
  expect((await it.ready()).reason).toBe('Serving');
  const message = 'No instance of it starts: its process ended: no database';
  for (let n = 0; n < 3; n += 1) {
    await it.report({ error: { code: 'not_started', message } });
    expect((await it.fn()).observed).toMatchObject({ phase: 'error', notified: true, active_version_id: first });
    expect(await it.ready()).toEqual({ reason: 'NotServing', message });
  }
  await it.report({ ready: true });
  await it.report({ ready: true });
  expect((await it.fn()).observed).toMatchObject({ phase: 'running' });
  expect((await it.ready()).reason).toBe('Serving');
  expect(it.served()?.desired.spec).not.toHaveProperty('warm');
});
