import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { desiredDigest } from '../../agent-protocol/desired-digest.ts';
import { encodeMessage } from '../../agent-protocol/codec.ts';
import { encodeData } from '../../agent-protocol/data-frame.ts';
import { OutdatedItem } from '../../agent-protocol/desired-chain.ts';
import { FakeBackend, running } from '../harness/fake-backend.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { FakeControl, protocolEnds } from '../harness/protocol-ends.ts';
import type { Ends } from '../harness/protocol-ends.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { deltaMessages } from '../../agent-protocol/desired-parts.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { deltaOf, snapshotOf } from '../harness/desired-sets.ts';
import { wireItem, wireService } from '../harness/wire-items.ts';

async function up(options: Parameters<typeof protocolEnds>[1] = {}): Promise<Ends & { clock: FakeClock }> {
  const clock = new FakeClock();
  const ends = protocolEnds(clock, options);
  await settle(30);
  expect(ends.host.isUp).toBe(true);
  return { ...ends, clock };
}

describe('the handshake', () => {
  it('welcomes an agent that proves its key', async () => {
    const { pair, backend } = await up();
    expect(pair.agent.messages.slice(0, 2).map((it) => it.type)).toEqual(['hello', 'proof']);
    expect(pair.control.messages.slice(0, 2)).toMatchObject([
      { type: 'challenge' },
      { type: 'welcome', protocol: 1, session: 'session-1', epoch: 7, beat_ms: 5000, log_retention_days: 3 },
    ]);
    expect(backend.retentionDays).toBe(3);
  });

  it('challenges with a new nonce each time', async () => {
    const nonces = new Set<unknown>();
    for (let n = 0; n < 3; n++) nonces.add((await up()).pair.control.messages[0]?.['nonce']);
    expect(nonces.size).toBe(3);
  });

  it('refuses an agent that holds another key', async () => {
    const host = new FakeControl();
    host.publicKey = 'MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAA';
    const ends = protocolEnds(new FakeClock(), { host });
    await settle(30);
    expect(ends.agentEnds).toMatchObject([{ kind: 'refused', code: 'unauthorized' }]);
    expect(host.isUp).toBe(false);
  });

  it('refuses a proof over another challenge', async () => {
    const first = await up();
    const old = first.pair.agent.messages[1]!;
    const clock = new FakeClock();
    const ends = protocolEnds(clock, { host: first.host });
    first.host.isUp = false;
    ends.pair.fault = (by, n) => (by === 'agent' && n === 2 ? 'hold' : 'deliver');
    await settle(30);
    ends.control.receive(JSON.stringify(old));
    await settle(30);
    expect(ends.host.isUp).toBe(false);
    expect(ends.agentEnds).toMatchObject([{ kind: 'refused', code: 'unauthorized' }]);
  });

  it('refuses an agent without a common protocol and says what is needed', async () => {
    const ends = protocolEnds(new FakeClock(), { protocols: [2, 3] });
    await settle(30);
    expect(ends.agentEnds).toMatchObject([
      { kind: 'refused', code: 'upgrade', message: expect.stringContaining('2, 3') },
    ]);
    expect(ends.host.hellos).toEqual([]);
  });

  it('uses the highest protocol that both speak', async () => {
    const { pair } = await up({ protocols: [1, 2, 99] });
    expect(pair.control.messages[1]).toMatchObject({ type: 'welcome', protocol: 1 });
  });

  it('passes on a refusal of the hello and of the entry', async () => {
    for (const at of ['refuseHello', 'refuseEntry'] as const) {
      const host = new FakeControl();
      host[at] = { code: 'busy', message: 'Not now', retry_after_ms: 1234 };
      const ends = protocolEnds(new FakeClock(), { host });
      await settle(30);
      expect(ends.agentEnds).toEqual([{ kind: 'refused', code: 'busy', message: 'Not now', retryAfterMs: 1234 }]);
    }
  });

  it.each([
    ['{"type":"beat","n":1,"load":{}}', /malformed|beat|load/],
    ['{"type":"applied","revision":1}', /Did not expect applied in state hello/],
    ['{"type":"proof","signature":"x"}', /Did not expect proof in state hello/],
    ['not json', /no JSON/],
    [encodeData({ stream: 1, end: false, payload: new Uint8Array(1) }), /Did not expect bytes in state hello/],
  ] as const)('begins with a hello: %s', async (frame, reason) => {
    const clock = new FakeClock();
    const ends = protocolEnds(clock);
    ends.pair.fault = () => 'hold';
    ends.control.receive(frame);
    await settle();
    expect(ends.host.ends).toHaveLength(1);
    expect(ends.host.ends[0]).toMatch(reason);
  });

  const unknown = (bytes: number): string => JSON.stringify({ type: 'of.tomorrow', text: 'x'.repeat(bytes) });

  it.each([
    ['in one message', [unknown(bounds.openingBytes)]],
    ['in many', Array.from({ length: 8 }, () => unknown(bounds.openingBytes / 8))],
  ])('takes no more bytes than a handshake has: %s', async (_, frames) => {
    const ends = protocolEnds(new FakeClock());
    ends.pair.fault = () => 'hold';
    for (const frame of frames) ends.control.receive(frame);
    await settle();
    expect(ends.host.ends).toEqual(['Sent too much before the welcome']);
    expect(ends.pair.control.messages).toHaveLength(frames.length - 1); // answers to those that it took
  });

  it('bounds nothing of what comes after the welcome by that', async () => {
    const { control, host } = await up();
    for (let n = 0; n < 3; n++) control.receive(unknown(bounds.openingBytes));
    await settle();
    expect(host.ends).toEqual([]);
  });

  it('does not wait for ever on either side', async () => {
    const clock = new FakeClock();
    const ends = protocolEnds(clock);
    ends.pair.fault = (by) => (by === 'agent' ? 'hold' : 'deliver');
    await clock.advance(21_000);
    expect(ends.host.ends).toEqual(['Handshake took too long']);
    expect(ends.agentEnds).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });
});

describe('the desired set', () => {
  const position = (revision: number) => ({ incarnation: 'i', revision });

  it('comes as a snapshot in parts and then as a chain of deltas', async () => {
    const { control, backend, host } = await up();
    const items = Array.from({ length: 30 }, (_, n) =>
      wireItem(`a${n}`, { spec: wireService({ env: { BIG: 'x'.repeat(20_000) } }) }),
    );
    control.snapshot(snapshotOf(position(10), items, []));
    control.delta(deltaOf(10, 12, [wireItem('b')], ['a0']));
    await settle(50);
    expect(host.applications).toEqual([10, 12]);
    expect(backend.at).toEqual(position(12));
    expect(backend.items.size).toBe(30);
    expect(backend.items.has('a0')).toBe(false);
  });

  it('is sent in frames that stay near their aim', async () => {
    const { control, pair } = await up();
    const items = Array.from({ length: 30 }, (_, n) =>
      wireItem(`a${n}`, { spec: wireService({ env: { BIG: 'x'.repeat(50_000) } }) }),
    );
    control.snapshot(snapshotOf(position(10), items, []));
    await settle(50);
    const parts = pair.control.sent.filter((frame) => String(frame).startsWith('{"type":"snapshot.part"'));
    expect(parts.length).toBeGreaterThan(4);
    for (const part of parts) expect(part.length).toBeLessThan(400_000);
  });

  it('is asked for again when a delta does not continue it, once, and deltas are ignored until it came', async () => {
    const { control, backend, host } = await up();
    control.snapshot(snapshotOf(position(10), [wireItem('a')], []));
    control.delta(deltaOf(11, 12, [wireItem('b')], []));
    control.delta(deltaOf(12, 13, [wireItem('c')], []));
    await settle(30);
    expect(host.snapshotsAsked).toEqual(['Delta continues 11, the set is at 10']);
    expect([...backend.items.keys()]).toEqual(['a']);
    control.snapshot(snapshotOf(position(14), [wireItem('a'), wireItem('c')], []));
    control.delta(deltaOf(14, 15, [], ['a']));
    await settle(30);
    expect([...backend.items.keys()]).toEqual(['c']);
    expect(host.applications).toEqual([10, 14, 15]);
  });

  it('must begin with a snapshot in each session, whatever the agent has from before', async () => {
    const backend = new FakeBackend();
    backend.at = position(10);
    backend.items.set('a', wireItem('a'));
    const { control, host } = await up({ backend });
    control.delta(deltaOf(10, 11, [], ['a']));
    await settle(30);
    expect(host.snapshotsAsked).toEqual(['Delta came before a snapshot']);
    expect(backend.items.has('a')).toBe(true);
  });

  it('is not taken if a delta was delivered twice', async () => {
    const { control, backend, host, pair } = await up();
    control.snapshot(snapshotOf(position(10), [wireItem('a')], []));
    await settle(30);
    pair.fault = (by, _, frame) => (by === 'control' && String(frame).includes('"delta"') ? 'duplicate' : 'deliver');
    control.delta(deltaOf(10, 12, [wireItem('b')], []));
    await settle(30);
    expect(host.snapshotsAsked).toEqual(['Delta continues 10, the set is at 12']);
    expect([...backend.items.keys()]).toEqual(['a']);
  });

  it.each([
    ['a part is missing', ['begin', 'end'], 'Snapshot does not have the items that it announced'],
    ['a part came twice', ['begin', 'part', 'part', 'end'], 'Snapshot does not have the items that it announced'],
    ['an item is another one', ['begin', 'other', 'end'], 'Snapshot does not have the digest that it announced'],
    ['its begin is missing', ['part', 'end'], 'Snapshot ended before it began'],
    ['its end is of another one', ['begin', 'part', 'late'], 'Snapshot ended at another revision than it began'],
    ['a delta comes within it', ['begin', 'part', 'delta', 'end'], 'Delta came within a snapshot'],
  ])('is not taken if %s', async (_, frames, why) => {
    const { agent, backend, host } = await up();
    const digest = desiredDigest([wireItem('a')]);
    const text: Record<string, string> = {
      begin: encodeMessage({ type: 'snapshot.begin', incarnation: 'i', revision: 5, count: 1, digest, keep: [] }),
      part: encodeMessage({ type: 'snapshot.part', items: [wireItem('a')] }),
      other: encodeMessage({ type: 'snapshot.part', items: [wireItem('a', { generation: 2 })] }),
      end: encodeMessage({ type: 'snapshot.end', revision: 5 }),
      late: encodeMessage({ type: 'snapshot.end', revision: 6 }),
      delta: encodeMessage({ type: 'delta', from: 5, to: 6, put: [], drop: [] }),
    };
    for (const frame of frames) agent.receive(text[frame]!);
    await settle(30);
    expect(host.snapshotsAsked).toEqual([why]);
    expect(backend.stored).toEqual([]);
  });

  it('asks for a snapshot when an item goes back to a lower generation, and calls that no fault', async () => {
    const backend = new FakeBackend();
    backend.delta = () => Promise.reject(new OutdatedItem('a'));
    const { control, host, faults } = await up({ backend });
    control.snapshot(snapshotOf(position(10), [wireItem('a')], []));
    control.delta(deltaOf(10, 11, [wireItem('a')], []));
    await settle(30);
    expect(host.snapshotsAsked).toEqual(['Assignment a must not go back to a lower generation']);
    expect([host.applications, faults]).toEqual([[10], []]);
  });

  it('keeps what it says is to be kept, and nothing else', async () => {
    const { control, backend } = await up();
    control.snapshot(snapshotOf(position(10), [wireItem('a'), wireItem('b'), wireItem('c')], []));
    await settle(30);
    control.snapshot(snapshotOf(position(11), [wireItem('c', { generation: 2 })], ['a', 'unknown']));
    await settle(30);
    expect([...backend.items.keys()].sort()).toEqual(['a', 'c']);
    expect(backend.items.get('c')?.generation).toBe(2);
  });

  it('is asked for again when it could not be stored', async () => {
    const { control, backend, host, faults } = await up();
    backend.failStoring = new Error('disk full');
    control.snapshot(snapshotOf(position(10), [wireItem('a')], []));
    control.delta(deltaOf(10, 11, [], ['a']));
    await settle(30);
    expect(host.snapshotsAsked).toEqual(['Set could not be stored']);
    expect(faults).toEqual([backend.failStoring]);
    expect(host.applications).toEqual([]);
  });

  it('has every drop confirmed as gone, also of what the agent never had', async () => {
    const { control, host } = await up();
    control.snapshot(snapshotOf(position(10), [], []));
    control.delta(deltaOf(10, 10, [], ['never']));
    await settle(30);
    expect(host.reports.at(-1)?.items).toMatchObject([{ id: 'never', gone: true }]);
  });
});

describe('reports', () => {
  it('that something is gone which the agent never had are repeated until they are stored', async () => {
    const { control, host, clock } = await up();
    await clock.advance(1000);
    host.reports.length = 0;
    host.onReport = (report) => Promise.resolve(report.items.map(({ id }) => ({ id, why: 'unavailable' })));
    control.snapshot(snapshotOf({ incarnation: 'i', revision: 10 }, [], []));
    control.delta(deltaOf(10, 11, [], ['never']));
    await clock.advance(1500);
    const sentReports = (): number =>
      host.reports.filter((it) => it.items.some(({ id, gone }) => id === 'never' && gone)).length;
    const before = sentReports();
    expect(before).toBeGreaterThan(1);
    host.onReport = () => Promise.resolve([]);
    await clock.advance(1500);
    expect(sentReports()).toBe(before + 1);
    await clock.advance(10_000);
    expect(sentReports()).toBe(before + 1);
  });

  it('begin with the complete one, which is empty if there is nothing', async () => {
    const { host } = await up();
    expect(host.reports).toEqual([{ type: 'report', seq: 1, full: true, items: [] }]);
  });

  it('that are complete may take several frames, and the last one says so', async () => {
    const backend = new FakeBackend();
    for (let n = 0; n < 1200; n++) backend.setReport(running({ id: `a${n}`, generation: 1 }));
    const { host, clock } = await up({ backend });
    await clock.advance(2000);
    expect(host.reports.map((it) => [it.full, it.more ?? false, it.items.length])).toEqual([
      [true, true, 500],
      [true, true, 500],
      [true, false, 200],
    ]);
  });

  it('report the first change at once and later ones a quarter of a second apart, the latest per object', async () => {
    const { host, backend, clock } = await up();
    await clock.advance(5000);
    host.reports.length = 0;
    const restarts = (n: number) => ({ ...running({ id: 'a', generation: 1 }), restarts: n });
    for (let n = 1; n <= 4; n++) {
      backend.setReport(restarts(n));
      await settle();
    }
    expect(host.reports.map((it) => it.items[0]?.restarts)).toEqual([1, 2, 3, 4]);
    backend.setReport(restarts(5));
    await settle();
    backend.setReport(restarts(6));
    await settle();
    expect(host.reports).toHaveLength(4);
    await clock.advance(250);
    expect(host.reports.map((it) => it.items[0]?.restarts)).toEqual([1, 2, 3, 4, 6]);
  });

  it('are in flight one at a time', async () => {
    const host = new FakeControl();
    const first = Promise.withResolvers<never[]>();
    const { agent, backend, clock, pair } = await up({ host });
    await clock.advance(1000);
    host.reports.length = 0;
    host.onReport = () => first.promise;
    backend.setReport(running({ id: 'a', generation: 1 }));
    await settle();
    backend.setReport(running({ id: 'b', generation: 1 }));
    await clock.advance(3000);
    expect(host.reports.map((it) => it.items.map((item) => item.id))).toEqual([['a']]);
    const sent = (): number => pair.agent.messages.filter((it) => it.type === 'report').length;
    const before = sent();
    agent.receive(encodeMessage({ type: 'report_ack', seq: host.reports[0]!.seq - 1, rejected: [] }));
    await clock.advance(3000);
    expect(sent()).toBe(before);
    first.resolve([]);
    await settle();
    expect(host.reports.map((it) => it.items.map((item) => item.id))).toEqual([['a'], ['b']]);
  });

  it('that could not be stored are sent again, in their latest state; others are not', async () => {
    const { host, backend, clock } = await up();
    await clock.advance(1000);
    host.reports.length = 0;
    host.onReport = () =>
      Promise.resolve([
        { id: 'a', why: 'unavailable' },
        { id: 'b', why: 'not_assigned' },
        { id: 'c', why: 'stale_generation' },
      ]);
    for (const id of ['a', 'b', 'c']) backend.setReport(running({ id, generation: 1 }));
    await clock.advance(300);
    host.onReport = () => Promise.resolve([]);
    await clock.advance(2000);
    expect(host.reports.at(-1)?.items.map((item) => item.id)).toEqual(['a']);
    expect(backend.acknowledgements.flatMap((it) => it.rejected)).toEqual(['a']);
    await clock.advance(5000);
    expect(host.reports.filter((it) => it.items.some((item) => item.id === 'b'))).toHaveLength(1);
  });

  it('that are never acknowledged end the connection', async () => {
    const { host, backend, clock, agentEnds } = await up();
    host.onReport = () => new Promise(() => undefined);
    backend.setReport(running({ id: 'a', generation: 1 }));
    await clock.advance(61_000);
    expect(agentEnds).toEqual([{ kind: 'lost', why: 'Report was not acknowledged in time' }]);
  });

  it('in a flood end the connection', async () => {
    const { control, host } = await up();
    host.onReport = () => new Promise(() => undefined);
    for (let seq = 10; seq < 14; seq++) control.receive(encodeMessage({ type: 'report', seq, full: false, items: [] }));
    expect(host.ends).toEqual(['Reports without waiting for their acknowledgement']);
  });

  it('whose storing fails end the session, and the error is not sent to the agent', async () => {
    const { host, backend, agentEnds } = await up();
    host.onReport = () => Promise.reject(new Error('secret detail'));
    backend.setReport(running({ id: 'a', generation: 1 }));
    await settle(30);
    expect(host.ends).toEqual(['Failed: secret detail']);
    expect(JSON.stringify(agentEnds)).not.toContain('secret detail');
  });
});

describe('liveness', () => {
  it('is kept by beats, which carry the load', async () => {
    const { clock, host, agentEnds } = await up();
    await clock.advance(60_000);
    expect(host.loads.length).toBe(13); // the first one at once
    expect(host.engines.at(-1)).toEqual({ version: '1' });
    expect(host.ends).toEqual([]);
    expect(agentEnds).toEqual([]);
  });

  it('tells of a failed update from the beginning, and until it is not failed any more', async () => {
    const clock = new FakeClock();
    const backend = new FakeBackend();
    const failed = { version: '1.1.0', requested_at: '2030-01-01T00:00:00.000Z', reason: 'DiskFull', message: 'm' };
    backend.failedUpdate = failed;
    const { host } = protocolEnds(clock, { backend });
    await settle(30);
    expect(host.hellos[0]?.update).toEqual(failed);
    await clock.advance(5000);
    expect(host.updates.at(-1)).toEqual(failed);
    backend.failedUpdate = undefined;
    await clock.advance(5000);
    expect(host.updates.at(-1)).toBeUndefined();
  });

  it('is measured by its beats, of which each tells how long the answer to the one before took', async () => {
    const { clock, host, pair } = await up();
    pair.fault = (by, _n, frame) => (by === 'control' && String(frame).includes('"beat_ack"') ? 'hold' : 'deliver');
    await clock.advance(5000);
    await clock.advance(120);
    pair.control.release();
    await clock.advance(4880);
    await clock.advance(5000);
    expect(host.roundTrips).toEqual([undefined, 0, 120, 0]);
  });

  it('ends after three silent beats, on both sides, and leaves no timer', async () => {
    const { clock, host, pair, agentEnds } = await up();
    pair.agent.stalled = true;
    pair.control.stalled = true;
    await clock.advance(14_000);
    expect([host.ends, agentEnds]).toEqual([[], []]);
    await clock.advance(11_000);
    expect(host.ends).toEqual(['Agent is silent']);
    expect(agentEnds).toEqual([{ kind: 'lost', why: 'Control plane is silent' }]);
    expect(clock.pending).toBe(0);
  });

  it('does not depend on the wall clock', async () => {
    const { clock, host, agentEnds } = await up();
    clock.jump(3_600_000);
    await clock.advance(10_000);
    clock.jump(-7_200_000);
    await clock.advance(10_000);
    expect([host.ends, agentEnds]).toEqual([[], []]);
  });

  it('is not disturbed by messages of types that are not known: they are answered', async () => {
    const { agent, control, pair, host } = await up();
    agent.receive('{"type":"levitate"}');
    control.receive('{"type":"telepathy"}');
    await settle(30);
    expect(pair.agent.messages.at(-1)).toEqual({ type: 'unsupported', what: 'levitate' });
    expect(pair.control.messages.at(-1)).toEqual({ type: 'unsupported', what: 'telepathy' });
    expect(host.ends).toEqual([]);
  });

  it('ends, and nothing else does, when a host fails on a message', async () => {
    const one = await up();
    one.backend.configure = () => {
      throw new Error('bug');
    };
    one.control.settings({ logRetentionDays: 1 });
    await settle(30);
    expect(one.agentEnds).toEqual([{ kind: 'lost', why: 'The agent failed' }]);
    expect(one.faults).toMatchObject([{ message: 'bug' }]);
    const two = await up();
    two.host.loaded = () => {
      throw new Error('bug');
    };
    await two.clock.advance(6000);
    expect(two.host.ends).toEqual(['Failed: bug']);
    expect(two.agentEnds).toEqual([{ kind: 'lost', why: 'Internal error' }]);
  });

  it('ends with a flood of messages', async () => {
    const { control, host } = await up();
    for (let n = 0; n < 2500; n++) control.receive('{"type":"applied","revision":1}');
    expect(host.ends).toEqual(['Too many messages']);
  });

  it('is not ended by answers to what it asked, however many they are', async () => {
    const { control, backend, host } = await up();
    backend.onCall = async () => ({ lines: [], truncated: false });
    backend.onStream = () => Readable.from([Buffer.from('x')]);
    const call: CallParams = { method: 'logs.read', query: { workload_id: 'w', tail: 1 } };
    for (let n = 0; n < 150; n++) {
      await Promise.all(Array.from({ length: 10 }, () => control.call(call, 1000, new AbortController().signal)));
      const readers = Array.from({ length: 10 }, async () => {
        for await (const _ of control.stream({ kind: 'metrics' }, new AbortController().signal)) break;
      });
      await Promise.all(readers);
    }
    expect(host.ends).toEqual([]);
  });

  it('ends with a flood of results of no call, and of ends of no stream', async () => {
    for (const answer of ['{"type":"result","id":77,"ok":1}', '{"type":"stream.end","stream":77}']) {
      const { control, host } = await up();
      for (let n = 0; n < bounds.messagesPer10s + 1; n++) control.receive(answer);
      expect(host.ends).toEqual(['Too many messages']);
    }
  });

  it('ends with a flood of pings, and of frames that carry no byte that was granted', async () => {
    const unread = encodeData({ stream: 77, end: false, payload: new Uint8Array(1000) });
    const empty = encodeData({ stream: 1, end: false, payload: new Uint8Array(0) });
    const floods: ((ends: Ends) => void)[] = [
      ({ control }) => control.pinged(),
      ({ control }) => control.receive(unread),
      ({ control }) => control.receive(empty),
    ];
    for (const flood of floods) {
      const ends = await up();
      ends.backend.onStream = () => Readable.from([Buffer.from('x')]);
      const reader = ends.control.stream({ kind: 'metrics' }, new AbortController().signal)[Symbol.asyncIterator]();
      await reader.next();
      for (let n = 0; n < 1900; n++) flood(ends);
      expect(ends.host.ends).toEqual([]);
      for (let n = 0; n < 200; n++) flood(ends);
      expect(ends.host.ends).toEqual(['Too many messages']);
      await reader.return?.();
    }
  });

  it('is not ended by bytes that were on their way when their readers left', async () => {
    const { control, backend, host } = await up();
    backend.onStream = async function* (_params, signal) {
      while (!signal.aborted) yield new Uint8Array(10_000);
    };
    for (let n = 0; n < bounds.streams; n++) {
      const reader = control.stream({ kind: 'metrics' }, new AbortController().signal)[Symbol.asyncIterator]();
      await reader.next();
      await reader.return?.();
    }
    await settle(200);
    expect(host.ends).toEqual([]);
  });

  it('ends in order by a goodbye that says when to come back', async () => {
    const { control, agentEnds, host } = await up();
    control.goodbye('Control plane stops', 5000);
    await settle(30);
    expect(agentEnds).toEqual([{ kind: 'goodbye', reason: 'Control plane stops', retryAfterMs: 5000 }]);
    expect(host.ends).toEqual(['Control plane stops']);
  });

  it('makes of a set only what the socket takes, for an agent that reads nothing', async () => {
    const { control, pair, host } = await up();
    pair.control.stalled = true;
    const item = wireItem('a', { spec: wireService({ env: { BIG: 'x'.repeat(250_000) } }) });
    let made = 0;
    function* items() {
      for (; made < 1000; made++) yield { item };
    }
    control.delta(deltaMessages(0, 1, items()));
    await settle(30);
    expect(made).toBeLessThan(20);
    expect(pair.control.buffered).toBeLessThan(2 * 1024 * 1024);
    expect(host.ends).toEqual([]);
  });

  it('ends with an agent that reads nothing of what cannot wait, at a bounded cost', async () => {
    const { control, pair, host } = await up();
    pair.control.stalled = true;
    for (let n = 0; n < 2_000_000 && host.ends.length === 0; n++) control.settings({ logRetentionDays: n });
    expect(host.ends).toEqual(['Reads too slowly']);
    expect(pair.control.buffered).toBeLessThan(2 * 1024 * 1024);
  });

  it('ends with an agent that sends beats and reads none of the answers', async () => {
    const { control, pair, host, backend } = await up();
    pair.control.stalled = true;
    control.settings({ logRetentionDays: 1, registries: ['x'.repeat(2 * bounds.gateBytes)] });
    const beat = (n: number) => control.receive(encodeMessage({ type: 'beat', n, load: backend.load() }));
    for (let n = 0; n < bounds.urgentFrames; n++) beat(n);
    expect(host.ends).toEqual([]);
    beat(bounds.urgentFrames);
    expect(host.ends).toEqual(['Reads too slowly']);
  });
});

describe('calls', () => {
  const never = new AbortController().signal;

  it('answer with what the agent says', async () => {
    const { control, backend } = await up();
    backend.onCall = (params) => Promise.resolve({ asked: params.method });
    await expect(control.call({ method: 'ping' }, 1000, never)).resolves.toEqual({ asked: 'ping' });
  });

  it('fail with the words of the agent, and with none of its other errors', async () => {
    const { control, backend } = await up();
    backend.onCall = () => Promise.reject(new CallError('branch_not_found', 'There is no branch main'));
    await expect(control.call({ method: 'ping' }, 1000, never)).rejects.toMatchObject({
      code: 'branch_not_found',
      message: 'There is no branch main',
    });
    backend.onCall = () => Promise.reject(new TypeError('x is not a function'));
    await expect(control.call({ method: 'ping' }, 1000, never)).rejects.toMatchObject({
      code: 'failed',
      message: expect.not.stringContaining('function'),
    });
  });

  it('fail at their deadline, and the agent stops its work', async () => {
    const { control, backend, clock } = await up();
    const aborted = Promise.withResolvers<unknown>();
    backend.onCall = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted.resolve(signal.reason);
          reject(signal.reason as Error);
        });
      });
    const call = control.call({ method: 'ping' }, 5000, never);
    const outcome = expect(call).rejects.toMatchObject({ code: 'timeout' });
    await clock.advance(5001);
    await outcome;
    await expect(aborted.promise).resolves.toMatchObject({ code: 'timeout' });
  });

  it('fail as away when the connection breaks', async () => {
    const { control, backend, pair } = await up();
    backend.onCall = () => new Promise(() => undefined);
    const outcome = expect(control.call({ method: 'ping' }, 5000, never)).rejects.toMatchObject({ code: 'away' });
    await settle();
    pair.cut();
    await outcome;
    await expect(control.call({ method: 'ping' }, 5000, never)).rejects.toMatchObject({ code: 'away' });
  });

  it('end with their signal', async () => {
    const { control, backend } = await up();
    backend.onCall = () => new Promise(() => undefined);
    const stop = new AbortController();
    const outcome = expect(control.call({ method: 'ping' }, 5000, stop.signal)).rejects.toThrow('enough');
    stop.abort(new Error('enough'));
    await outcome;
  });

  it('whose caller left end at the agent, which sends no answer to them', async () => {
    const { control, backend, pair } = await up({ capabilities: ['calls.cancel'] });
    const aborted = Promise.withResolvers<unknown>();
    backend.onCall = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted.resolve(signal.reason);
          reject(signal.reason as Error);
        });
      });
    const stop = new AbortController();
    const outcome = expect(control.call({ method: 'ping' }, 60_000, stop.signal)).rejects.toThrow('enough');
    await settle(30);
    stop.abort(new Error('enough'));
    await outcome;
    await settle(30);
    await expect(aborted.promise).resolves.toMatchObject({ code: 'cancelled' });
    expect(pair.control.messages.filter(({ type }) => type === 'call.cancel')).toEqual([
      { type: 'call.cancel', id: 1 },
    ]);
    expect(pair.agent.messages.filter(({ type }) => type === 'result')).toEqual([]);
  });

  it('are cancelled only at an agent that knows how, and only while they go on', async () => {
    const { control, backend, pair } = await up();
    const other = await up({ capabilities: ['calls.cancel'] });
    backend.onCall = () => new Promise(() => undefined);
    const stop = new AbortController();
    const outcome = expect(control.call({ method: 'ping' }, 5000, stop.signal)).rejects.toThrow('enough');
    await other.control.call({ method: 'ping' }, 5000, stop.signal);
    await settle(30);
    stop.abort(new Error('enough'));
    await outcome;
    await settle(30);
    for (const it of [pair, other.pair])
      expect(it.control.messages.map(({ type }) => type)).not.toContain('call.cancel');
  });

  it('are bounded in number on both sides', async () => {
    const { control, backend, agent, pair } = await up();
    backend.onCall = () => new Promise(() => undefined);
    const calls = Array.from({ length: 32 }, () => control.call({ method: 'ping' }, 5000, never));
    await expect(control.call({ method: 'ping' }, 5000, never)).rejects.toMatchObject({ code: 'too_many' });
    await settle(50);
    agent.receive(encodeMessage({ type: 'call', id: 999, timeout_ms: 1000, params: { method: 'ping' } }));
    await settle(30);
    expect(pair.agent.messages.at(-1)).toMatchObject({ type: 'result', id: 999, error: { code: 'too_many' } });
    pair.cut();
    await Promise.allSettled(calls);
  });

  it('whose answer is too large fail as such, and the connection stays', async () => {
    const { control, backend, host } = await up();
    backend.onCall = () => Promise.resolve('x'.repeat(2_000_000));
    await expect(control.call({ method: 'ping' }, 1000, never)).rejects.toMatchObject({ code: 'too_large' });
    expect(host.ends).toEqual([]);
  });
});
