import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { AgentMessage, agentCapabilities, ControlMessage } from '../../agent-protocol/messages.ts';
import { deltaOf, snapshotOf } from '../harness/desired-sets.ts';
import { FakeBackend, running } from '../harness/fake-backend.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { FakeControl, protocolEnds } from '../harness/protocol-ends.ts';
import { earlierItem, wireItem, wireService } from '../harness/wire-items.ts';
import {
  agentCapabilities as ofSecond,
  AgentMessage as SecondAgentMessage,
  ControlMessage as SecondControlMessage,
} from './fixtures/second-release/messages.ts';
import {
  AgentMessage as FirstAgentMessage,
  ControlMessage as FirstControlMessage,
} from './fixtures/without-configurations/messages.ts';

/** The release before this one, and the one before that: agents and control planes of both meet this one. */
const releases: [string, { agent: z.ZodType; control: z.ZodType; knows: readonly string[] }][] = [
  ['the first release', { agent: FirstAgentMessage, control: FirstControlMessage, knows: [] }],
  ['the second release', { agent: SecondAgentMessage, control: SecondControlMessage, knows: ofSecond }],
];
const update = { version: '1.1.0', requested_at: '2030-01-01T00:00:00.000Z' };
const failure = { ...update, reason: 'NotTrusted', message: 'It is signed by an unknown key' };
const ports = { from: 8000, to: 8999, reserved: [], own: [7070], bindings: [] };

/** A control plane that sends all the settings that it knows. */
class PresentControl extends FakeControl {
  override async enter() {
    const answer = await super.enter();
    if (answer.welcome === undefined) return answer;
    return { welcome: { ...answer.welcome, ports, registries: ['ghcr.io'], update } };
  }
}

/** A session in which both sides of this release send one message of each type that a test can cause. */
async function conversation(capabilities: readonly string[]) {
  const clock = new FakeClock();
  const backend = new FakeBackend();
  backend.failedUpdate = failure;
  backend.engineState = { version: '28', trouble: { reason: 'EngineNotRunning', message: 'Start it' } };
  const ends = protocolEnds(clock, { backend, host: new PresentControl(), capabilities: [...capabilities] });
  await settle(30);
  expect(ends.host.isUp).toBe(true);
  const { control } = ends;
  backend.onPut = running;
  const at = { incarnation: 'i', revision: 5 };
  if (capabilities.includes('services')) {
    const item = wireItem('a', { spec: wireService({ config: 'red' }) });
    control.snapshot(snapshotOf(at, [item], [], [{ id: 'red', env: { COLOUR: 'red' } }]));
  } else control.snapshot(snapshotOf(at, [earlierItem('a', { env: { COLOUR: 'red' } })]));
  control.delta(deltaOf(5, 6, [], ['a']));
  control.delta(deltaOf(9, 10, [], ['b'])); // one that does not continue the chain
  if (capabilities.includes('images.keep')) control.keepImages({ web: ['sha256:1'] }, true);
  if (capabilities.includes('logs.keep')) control.keepLogs({ whole: true, more: false, workloads: { web: {} } });
  control.settings({
    logRetentionDays: 9,
    ports,
    registries: ['ghcr.io'],
    update: { version: '1.1.0', requestedAt: update.requested_at },
  });
  await control.call({ method: 'ping' }, 1000, new AbortController().signal);
  await clock.advance(31_000);
  return { sent: ends.pair.agent.messages, received: ends.pair.control.messages };
}

describe.each(releases)('%s', (_, earlier) => {
  it('as the control plane understands all that an agent of this one says, whatever it adds', async () => {
    const { sent } = await conversation([...agentCapabilities, 'update']);
    for (const message of sent) expect(earlier.agent.safeParse(message).error, message.type).toBeUndefined();
    for (const type of ['hello', 'proof', 'report', 'beat', 'applied', 'need_snapshot', 'result', 'stream.live'])
      expect(sent.map((it) => it.type)).toContain(type);
    expect(sent[0]).toMatchObject({ type: 'hello', update: failure });
    expect(earlier.agent.parse(sent[0])).not.toHaveProperty('update');
    expect(sent.findLast(({ type }) => type === 'beat')).toMatchObject({ update: failure });
  });

  it('as the agent understands what the control plane sends to one with its capabilities', async () => {
    const { received } = await conversation(earlier.knows);
    for (const message of received) expect(earlier.control.safeParse(message).error, message.type).toBeUndefined();
    for (const type of ['welcome', 'settings', 'snapshot.begin', 'snapshot.end', 'delta', 'beat_ack', 'call'])
      expect(received.map((it) => it.type)).toContain(type);
    const settings = received.find(({ type }) => type === 'settings');
    expect(settings).toMatchObject({ log_retention_days: 9, update });
    expect(earlier.control.parse(settings)).not.toHaveProperty('update');
    expect(earlier.control.parse(settings)).toMatchObject({ log_retention_days: 9 });
  });

  it('says what this one understands, without what it does not know', async () => {
    const { sent, received } = await conversation(earlier.knows);
    for (const message of sent) {
      const said: unknown = earlier.agent.parse(message); // an agent of that release sends no other fields
      expect(AgentMessage.safeParse(said).error, message.type).toBeUndefined();
    }
    for (const message of received) {
      const said: unknown = earlier.control.parse(message);
      expect(ControlMessage.safeParse(said).error, message.type).toBeUndefined();
    }
    expect(AgentMessage.parse(earlier.agent.parse(sent[0]))).toMatchObject({ type: 'hello', server_id: 'server-1' });
  });
});

it('an agent of a later release may say in another form why an update failed', () => {
  const beat = { type: 'beat', n: 1, load: new FakeBackend().load(), engine: {}, update: { code: 7 } };
  expect(AgentMessage.parse(beat)).toMatchObject({ type: 'beat', n: 1, update: undefined });
});
