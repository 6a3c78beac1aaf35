import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { SessionEvents } from '../../../controllers/gateway/session-events.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import type { Guard } from '../../../store/store.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant as acme } from '../../harness/gateway-world.ts';
import { desiredState } from '../../harness/states.ts';
import { until } from '../../harness/until.ts';
import { createProject, openRig, tenant } from '../runtime/rig.ts';

const event = { type: 'warning', reason: 'ProcessExited', message: 'It exited with 1' } as const;

/** A session's events, and a live key that is taken again and again. */
async function withEvents() {
  const rig = await openRig();
  const id = await createProject(rig.repo, 'one');
  const key = keys.agent(tenant, 'a-server');
  let fence: Guard | undefined;
  const take = async (): Promise<void> => {
    const { revision } = await rig.store.txn({ if: [], then: [{ put: key, value: 'held' }] });
    fence = { key, is: 'at', revision };
  };
  await take();
  await rig.rest();
  const events = new SessionEvents({
    store: rig.store,
    mirror: rig.mirror,
    clock: rig.clock,
    log: pino({ level: 'silent' }),
    view: rig.mirror.tenant(tenant),
    fence: () => fence,
    driftCorrected: () => undefined,
  });
  return {
    rig,
    events,
    take,
    lose: () => (fence = undefined),
    record: () => events.record('project', id, event),
    counts: () => readEvents(rig.mirror.key(keys.events(tenant, 'project', id))?.value).map(({ count }) => count),
  };
}

test('an event that waits is written under the live key as it is then', async () => {
  const { rig, events, take, record, counts } = await withEvents();
  await using _ = rig;
  record();
  await rig.rest();
  record();
  await take();
  await rig.clock.advance(limits.events.intervalMs);
  await rig.rest();
  expect(counts()).toEqual([2]);
  await events[Symbol.asyncDispose]();
});

test('an event that waits while the live key is lost is written once it is held again', async () => {
  const { rig, events, take, lose, record, counts } = await withEvents();
  await using _ = rig;
  record();
  await rig.rest();
  record();
  lose();
  await rig.clock.advance(limits.events.intervalMs);
  await rig.rest();
  expect(counts()).toEqual([1]);
  await take();
  await rig.clock.advance(limits.events.intervalMs);
  await rig.rest();
  expect(counts()).toEqual([2]);
  await events[Symbol.asyncDispose]();
});

test('what an agent reported is in the events when it leaves at once', async () => {
  await using world = await GatewayWorld.start();
  const replica = await world.replica();
  const server = await world.server();
  const workload = randomUUID();
  await world.create('application', workload, desiredState('application', { server_id: server.id }));
  const deployment_id = await world.deployment(workload);
  const { meta } = await world.assignment(server.id, { workload_id: workload, deployment_id });
  const backend = new FakeBackend();
  const agent = await world.agent(replica, server, backend);
  await until('the item came', async () => backend.items.has(meta.id));
  for (const seq of [1, 2, 3]) {
    backend.setReport({
      ...running(meta),
      restarts: seq,
      events: { source: 's1', items: [{ ...event, seq, drift: false }] },
    });
    const view = replica.mirror.tenant(acme);
    await eventually(replica.mirror, () => view.get('assignment', meta.id)?.observed?.restarts === seq);
  }
  await agent[Symbol.asyncDispose]();
  await until(
    'all are there',
    async () => readEvents((await world.store.get(keys.events(acme, 'application', workload)))?.value)[0]?.count === 3,
  );
});
