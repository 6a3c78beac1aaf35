import { expect, it } from 'vitest';
import type { Context } from '../../../controllers/runtime/controller.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { object } from '../../harness/objects.ts';

const server = object(
  'server',
  { name: 'one', agent_public_key: 'key' },
  { observed: { phase: 'active', machine_id: 'm' } },
);

it('is patient with an agent that went away, anew in each term of a leader', async () => {
  const clock = new FakeClock();
  const controller = serverController({ offlineAfterMs: 25_000 });
  // All that this controller asks for while an agent is away.
  const ctx = { view: { agent: () => undefined }, clock, event: () => undefined, notify: async () => undefined };
  const phase = async () => (await controller.reconcile(server, ctx as unknown as Context)).observed.phase;
  controller.begin?.();
  expect(await phase()).toBe('active');
  await clock.advance(24_000);
  expect(await phase()).toBe('active');
  await clock.advance(3_600_000);
  controller.begin?.();
  expect(await phase()).toBe('active');
  await clock.advance(25_000);
  expect(await phase()).toBe('offline');
});
