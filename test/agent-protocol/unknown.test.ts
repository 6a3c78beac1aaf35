import { expect, test } from 'vitest';
import { understand } from '../../agent-protocol/assignment.ts';
import { desiredDigest } from '../../agent-protocol/desired-digest.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { running } from '../harness/fake-backend.ts';
import { protocolEnds } from '../harness/protocol-ends.ts';
import { wireItem } from '../harness/wire-items.ts';

/** A session between an agent and a control plane, of which one speaks of what the other does not know. */
async function session() {
  const ends = protocolEnds(new FakeClock());
  await settle(30);
  expect(ends.host.isUp).toBe(true);
  const { agent, control } = ends;
  return {
    ...ends,
    toAgent: async (message: object) => {
      agent.receive(JSON.stringify(message));
      await settle(30);
    },
    toControl: async (message: object) => {
      control.receive(JSON.stringify(message));
      await settle(30);
    },
    answers: () => ends.pair.agent.messages.map((message) => message as Record<string, unknown>),
  };
}

const task = { ...wireItem('t'), spec: { type: 'task', what: { name: 'backup', volume: 'v' } }, priority: 'low' };

test('an item of an unknown type is kept as it came, in a snapshot and in a delta', async () => {
  const { toAgent, backend, host, agentEnds } = await session();
  const later = { ...task, id: 'u', run: 'paused' };
  const known = wireItem('a');
  const digest = desiredDigest([known, task]);
  await toAgent({ type: 'snapshot.begin', incarnation: 'i', revision: 5, count: 2, digest, keep: [] });
  await toAgent({ type: 'snapshot.part', items: [known, task] });
  await toAgent({ type: 'snapshot.end', revision: 5 });
  await toAgent({ type: 'delta', from: 5, to: 6, put: [later], drop: [] });
  expect(host.applications).toEqual([5, 6]);
  expect(backend.items.get('t')).toEqual(task);
  expect(backend.items.get('u')).toEqual(later);
  expect(['a', 't', 'u'].map((id) => understand(backend.items.get(id)!)?.id)).toEqual(['a', undefined, undefined]);
  expect(agentEnds).toEqual([]);
});

test('a call of an unknown method is answered as unsupported, one without what it needs as invalid', async () => {
  const { toAgent, answers, agentEnds } = await session();
  await toAgent({ type: 'call', id: 1, timeout_ms: 1000, params: { method: 'volumes.list' } });
  await toAgent({ type: 'call', id: 2, timeout_ms: 1000, params: { method: 'git.head', branch: 'main' } });
  await toAgent({ type: 'call', id: 3, timeout_ms: 1000, params: { method: 'ping', more: true } });
  expect(answers().filter(({ type }) => type === 'result')).toEqual([
    {
      type: 'result',
      id: 1,
      error: { code: 'unsupported', message: 'The agent does not know method volumes.list: upgrade the agent' },
    },
    { type: 'result', id: 2, error: { code: 'invalid', message: expect.stringMatching(/^repository_url: /) } },
    { type: 'result', id: 3, ok: {} },
  ]);
  expect(agentEnds).toEqual([]);
});

test('a stream of an unknown kind is reset as unsupported', async () => {
  const { toAgent, answers, agentEnds } = await session();
  await toAgent({ type: 'stream.open', stream: 9, params: { kind: 'teleport', port: 5432 }, credit: 1000 });
  expect(answers().at(-1)).toEqual({
    type: 'stream.reset',
    stream: 9,
    code: 'unsupported',
    message: 'The agent does not know kind teleport: upgrade the agent',
  });
  expect(agentEnds).toEqual([]);
});

test('a report of an unknown phase says that the agent has the item, and no more', async () => {
  const { toControl, host, answers } = await session();
  const report = { ...running({ id: 'a', generation: 3 }), phase: 'migrating', progress: 0.5 };
  const event = { seq: 1, type: 'progress', reason: 'Half', message: 'Half is done', drift: false };
  const other = { ...running({ id: 'b', generation: 1 }), events: { source: 's', items: [event] } };
  await toControl({ type: 'report', seq: 7, full: false, items: [report, other] });
  expect(host.reports.at(-1)?.items).toEqual([
    { ...running({ id: 'a', generation: 3 }), phase: 'pending', unknown: true },
    { ...other, events: { source: 's', items: [{ ...event, type: 'normal' }] } },
  ]);
  expect(host.ends).toEqual([]);
  expect(answers()).not.toContainEqual(expect.objectContaining({ type: 'unsupported' }));
});

test('an unknown reason to reject a report has it sent again, and an unknown refusal has the agent come again', async () => {
  const { toAgent, backend, agentEnds } = await session();
  backend.setReport(running({ id: 'a', generation: 1 }));
  await settle(30);
  await toAgent({ type: 'report_ack', seq: 1, rejected: [{ id: 'a', why: 'quarantined' }] });
  expect(agentEnds).toEqual([]);
  await toAgent({ type: 'refuse', code: 'quota', message: 'Too many servers', retry_after_ms: 4000 });
  expect(agentEnds).toEqual([{ kind: 'refused', code: 'busy', message: 'Too many servers', retryAfterMs: 4000 }]);
});

test('a report keeps progress that this release reads, and loses any other', async () => {
  const { toControl, host } = await session();
  const base = { ...running({ id: 'a', generation: 3 }), ready: false };
  const progress = { step: 'copying', done: 3, total: 7, unit: 'bytes' };
  const others = [
    0.5,
    null,
    'half',
    { step: 'x'.repeat(33) },
    { step: 'Half of it' },
    { step: '' },
    { step: 'copying', done: -1 },
    { step: 'copying', done: 0.5, total: 1 },
    { step: 'copying', done: 2 ** 60 },
    { step: 'copying', done: 1, unit: 'GB/s' },
  ];
  const items = [{ ...base, progress: { ...progress, speed: 9 } }, ...others.map((it) => ({ ...base, progress: it }))];
  await toControl({ type: 'report', seq: 7, full: false, items });
  const [first, ...rest] = host.reports.at(-1)?.items ?? [];
  expect(first).toStrictEqual({ ...base, progress });
  expect(rest).toStrictEqual(others.map(() => base));
  expect(host.ends).toEqual([]);
});
