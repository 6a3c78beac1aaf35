import { describe, expect, it } from 'vitest';
import { encodeMessage } from '../../agent-protocol/codec.ts';
import { desiredDigest } from '../../agent-protocol/desired-digest.ts';
import { AgentMessage } from '../../agent-protocol/messages.ts';
import { deltaOf, snapshotOf } from '../harness/desired-sets.ts';
import { running } from '../harness/fake-backend.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { protocolEnds } from '../harness/protocol-ends.ts';
import { earlierItem, wireItem, wireService } from '../harness/wire-items.ts';
import { DesiredChain } from './fixtures/without-configurations/desired-chain.ts';
import type { WireAssignment } from './fixtures/without-configurations/assignment.ts';
import {
  AgentMessage as EarlierAgentMessage,
  ControlMessage as EarlierControlMessage,
} from './fixtures/without-configurations/messages.ts';

/** The set of an agent that does not know configurations, behind its side of the chain. */
function earlierAgent() {
  const items = new Map<string, WireAssignment>();
  const applied: number[] = [];
  const asked: string[] = [];
  const chain = new DesiredChain(
    {
      item: (id) => items.get(id),
      async snapshot(_, all) {
        items.clear();
        for (const item of all) items.set(item.id, item);
      },
      async delta(_, put, drop) {
        for (const id of drop) items.delete(id);
        for (const item of put) items.set(item.id, item);
      },
      report: () => undefined,
    },
    {
      applied: (revision) => applied.push(revision),
      needSnapshot: (why) => asked.push(why),
      absent: () => undefined,
      failed: (error) => {
        throw error;
      },
    },
  );
  const receive = (frame: unknown): void => {
    const message = EarlierControlMessage.parse(frame);
    if (message.type === 'delta' || message.type === 'snapshot.begin') chain.receive(message);
    else if (message.type === 'snapshot.part' || message.type === 'snapshot.end') chain.receive(message);
    else throw new Error(`Not of a desired set: ${message.type}`);
  };
  return { items, applied, asked, receive };
}

async function up() {
  const ends = protocolEnds(new FakeClock());
  await settle(30);
  expect(ends.host.isUp).toBe(true);
  return ends;
}

const big = (id: string) => earlierItem(id, { env: { BIG: id.padEnd(300_000) } });

describe('an agent that does not know configurations', () => {
  it('takes a change that is too large for one frame as one that goes on', async () => {
    const agent = earlierAgent();
    for (const message of snapshotOf({ incarnation: 'i', revision: 5 }, [big('a'), big('b')])) agent.receive(message);
    const frames = [...deltaOf(5, 9, [big('c'), big('d'), big('e')], ['a'])];
    for (const frame of frames) agent.receive(JSON.parse(encodeMessage(frame)));
    await settle(30);
    expect(frames.length).toBeGreaterThan(2);
    expect([...agent.items.keys()]).toEqual(['b', 'c', 'd', 'e']);
    expect(agent.items.get('e')?.spec).toMatchObject({ env: { BIG: 'e'.padEnd(300_000) } });
    expect(agent.applied).toEqual([5, ...frames.map(() => 9)]);
    expect(agent.asked).toEqual([]);
  });

  it('says so in a hello that is understood', () => {
    const hello = {
      type: 'hello',
      protocols: [1],
      agent_version: '0.1.0',
      server_id: 's',
      public_key: 'k',
      boot_id: 'b',
      machine_id: 'm',
      runtime: 'docker',
      runtime_version: '20',
      capabilities: [],
      store: null,
    };
    expect(AgentMessage.parse(EarlierAgentMessage.parse(hello))).toEqual(hello);
  });
});

describe('an agent that does not know of progress', () => {
  it('reports tasks as before', () => {
    const report = { ...running({ id: 'a', generation: 1 }), phase: 'running', ready: false };
    const frame = { type: 'report', seq: 1, full: false, items: [report] };
    expect(AgentMessage.parse(EarlierAgentMessage.parse(frame))).toStrictEqual(frame);
  });
});

describe('a control plane that does not know configurations', () => {
  it('is understood by an agent that does', async () => {
    const { agent, backend, host } = await up();
    const [a, b] = [earlierItem('a'), earlierItem('b', { env: { COLOUR: 'blue' } })];
    const frames = [
      { type: 'snapshot.begin', incarnation: 'i', revision: 5, count: 1, digest: desiredDigest([a]), keep: [] },
      { type: 'snapshot.part', items: [a] },
      { type: 'snapshot.end', revision: 5 },
      { type: 'delta', from: 5, to: 6, put: [b], drop: [] },
    ];
    for (const frame of frames) agent.receive(JSON.stringify(EarlierControlMessage.parse(frame)));
    await settle(30);
    expect(host.applications).toEqual([5, 6]);
    expect([backend.envOf('a'), backend.envOf('b')]).toEqual([{}, { COLOUR: 'blue' }]);
  });

  it('takes the report of a task without its progress', async () => {
    const { pair, backend } = await up();
    const report = { ...running({ id: 'a', generation: 1 }), ready: false };
    backend.setReport({ ...report, progress: { step: 'building', done: 2, total: 7, unit: 'steps' } });
    await settle(30);
    expect(pair.agent.messages.at(-1)).toMatchObject({ type: 'report', items: [{ progress: { step: 'building' } }] });
    expect(EarlierAgentMessage.parse(pair.agent.messages.at(-1))).toMatchObject({ items: [report] });
    expect(EarlierAgentMessage.parse(pair.agent.messages.at(-1))).not.toHaveProperty('items.0.progress');
  });

  it('understands all that such an agent says', async () => {
    const { pair, backend, control } = await up();
    const item = earlierItem('a');
    backend.onPut = running;
    control.snapshot(snapshotOf({ incarnation: 'i', revision: 5 }, [item]));
    control.delta(deltaOf(7, 8, [], []));
    control.delta(deltaOf(7, 8, [], ['a']));
    await settle(50);
    const types = pair.agent.messages.map((message) => EarlierAgentMessage.parse(message).type);
    for (const type of ['hello', 'proof', 'report', 'beat', 'applied', 'need_snapshot']) expect(types).toContain(type);
  });
});

describe('configurations', () => {
  const red = { id: 'red', env: { COLOUR: 'red' } };
  const referring = (id: string, config = 'red') => wireItem(id, { spec: wireService({ config }) });

  it('come with the items that refer to them', async () => {
    const { control, backend, host } = await up();
    control.snapshot(snapshotOf({ incarnation: 'i', revision: 5 }, [referring('a'), referring('b')], [], [red]));
    control.delta(deltaOf(5, 6, [referring('c')], []));
    await settle(50);
    expect(host.applications).toEqual([5, 6]);
    expect(['a', 'b', 'c'].map((id) => backend.envOf(id))).toEqual([red.env, red.env, red.env]);
  });

  it('are asked for with everything else when one is lacking', async () => {
    const { control, backend, host } = await up();
    control.snapshot(snapshotOf({ incarnation: 'i', revision: 5 }, [referring('a')], [], [red]));
    control.delta(deltaOf(5, 6, [referring('b', 'blue')], []));
    await settle(50);
    expect(host.applications).toEqual([5]);
    expect(host.snapshotsAsked).toEqual(['Set could not be stored']);
    expect([...backend.items.keys()]).toEqual(['a']);
  });
});
