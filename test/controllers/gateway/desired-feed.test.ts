import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ControlMessage } from '../../../agent-protocol/messages.ts';
import { timing } from '../../../agent-protocol/timing.ts';
import { DesiredFeed } from '../../../controllers/gateway/desired-feed.ts';
import { Projection } from '../../../controllers/gateway/projection.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';

let world: GatewayWorld;
let replica: TestReplica;
let clock: FakeClock;
let server: string;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
  clock = new FakeClock();
  server = (await world.server()).id;
});

afterEach(() => world[Symbol.asyncDispose]());

/** A feed for an agent that takes a message whenever the test says so. */
function feed() {
  const sent: { form: 'snapshot' | 'delta'; messages: Iterator<ControlMessage> }[] = [];
  const heard = { silent: 0, failures: [] as unknown[] };
  const view = replica.mirror.tenant(tenant);
  const record = (form: 'snapshot' | 'delta') => (messages: Iterable<ControlMessage>) =>
    void sent.push({ form, messages: messages[Symbol.iterator]() });
  const it = new DesiredFeed({
    mirror: replica.mirror,
    view,
    clock,
    server,
    incarnation: 'i',
    projection: new Projection({ view, unsealer: world.keyring, capabilities: new Set() }),
    out: { snapshot: record('snapshot'), delta: record('delta') },
    unsendable: () => undefined,
    failed: (error) => heard.failures.push(error),
    silent: () => void heard.silent++,
  });
  return { feed: it, sent, heard };
}

/** Instances with so many variables of 32 KiB in all that each is a message of its own. */
async function instances(count: number): Promise<string[]> {
  const workload = randomUUID();
  const env = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`V${n}`, 'x'.repeat(32 * 1024)]));
  const deployment = await world.deployment(workload, world.seal(workload, env));
  const made = [];
  for (let n = 0; n < count; n++)
    made.push(await world.assignment(server, { workload_id: workload, deployment_id: deployment }));
  await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
  return made.map(({ meta }) => meta.id);
}

describe('a set that is on its way', () => {
  it('has time as long as the agent takes its messages, and for the answer after the last', async () => {
    await instances(4);
    const { feed: it, sent, heard } = feed();
    it.start();
    await settle();
    const types: string[] = [];
    for (;;) {
      await clock.advance(timing.answerMs - 1);
      const { done, value } = sent[0]!.messages.next();
      if (done === true) break;
      types.push(value.type);
    }
    expect(types).toEqual(['snapshot.begin', ...Array(4).fill('snapshot.part'), 'snapshot.end']);
    expect(heard.silent).toBe(0);
    it.applied();
    await clock.advance(10 * timing.answerMs);
    expect(heard.silent).toBe(0);
    it.stop();
  });

  it('is given up if the agent takes nothing more of it', async () => {
    await instances(2);
    const { feed: it, sent, heard } = feed();
    it.start();
    await settle();
    sent[0]!.messages.next();
    await clock.advance(timing.answerMs - 1);
    expect(heard.silent).toBe(0);
    await clock.advance(1);
    expect(heard.silent).toBe(1);
    it.stop();
  });

  it('is given up if the agent does not store what it took', async () => {
    const { feed: it, sent, heard } = feed();
    it.start();
    await settle();
    while (sent[0]!.messages.next().done !== true);
    await clock.advance(timing.answerMs);
    expect(heard.silent).toBe(1);
    it.stop();
  });

  it('keeps what changes meanwhile for the next one, until all its parts are stored', async () => {
    const { feed: it, sent } = feed();
    it.start();
    await settle();
    while (sent[0]!.messages.next().done !== true);
    it.applied();
    const ids = await instances(3);
    for (const id of ids) it.changed(id);
    await clock.advance(1000);
    await settle();
    expect(sent.map(({ form }) => form)).toEqual(['snapshot', 'delta']);

    const [late] = await instances(1);
    it.changed(late!);
    for (let part = 0; part < 3; part++) {
      expect(sent[1]!.messages.next().value).toMatchObject({ type: 'delta', put: [{ id: expect.any(String) }] });
      it.applied();
      await clock.advance(1000);
      await settle();
      expect(sent).toHaveLength(2);
    }
    expect(sent[1]!.messages.next().done).toBe(true);
    await clock.advance(1000);
    await settle();
    expect(sent.map(({ form }) => form)).toEqual(['snapshot', 'delta', 'delta']);
    expect(sent[2]!.messages.next().value).toMatchObject({ put: [{ id: late }] });
    it.stop();
  });

  it('ends where the agent asks for a snapshot, which begins anew', async () => {
    await instances(3);
    const { feed: it, sent, heard } = feed();
    it.start();
    await settle();
    const first = sent[0]!.messages;
    expect([first.next().value.type, first.next().value.type]).toEqual(['snapshot.begin', 'snapshot.part']);
    it.needSnapshot();
    expect(first.next().done).toBe(true);
    await clock.advance(0);
    await settle();
    expect(sent.map(({ form }) => form)).toEqual(['snapshot', 'snapshot']);
    const types: string[] = [];
    for (const message of { [Symbol.iterator]: () => sent[1]!.messages }) types.push(message.type);
    expect(types).toEqual(['snapshot.begin', ...Array(3).fill('snapshot.part'), 'snapshot.end']);
    expect(heard).toEqual({ silent: 0, failures: [] });
    it.stop();
  });

  it('is asked for once, however often the agent asks before it begins', async () => {
    await instances(1);
    const { feed: it, sent } = feed();
    expect(it.needSnapshot()).toBe(false);
    it.start();
    await settle();
    expect([it.needSnapshot(), it.needSnapshot(), it.needSnapshot()]).toEqual([true, false, false]);
    await clock.advance(0);
    expect(sent).toHaveLength(2);
    expect([it.needSnapshot(), it.needSnapshot()]).toEqual([true, false]);
    await clock.advance(999);
    expect(sent).toHaveLength(2);
    await clock.advance(1);
    expect(sent).toHaveLength(3);
    it.stop();
  });
});
