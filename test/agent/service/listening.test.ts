import { expect, test } from 'vitest';
import { judge, Listening } from '../../../agent/service/listening.ts';
import type { ProbeResult } from '../../../agent/runtime/probe.ts';
import type { Listener } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const wanted = 'let it listen on 0.0.0.0:8080, as many programs do by HOST and PORT';
const at = (address: string, port = 8080): Listener => ({ address, port });

test.each<[string, Listener[], string | undefined]>([
  ['everywhere', [at('0.0.0.0')], undefined],
  ['on its address', [at('10.0.0.2'), at('127.0.0.1', 9229)], undefined],
  ['everywhere by a socket of IPv6', [at('::')], 'by IPv6'],
  [
    'on the loopback',
    [at('127.0.0.1')],
    `Loopback: It listens on 127.0.0.1:8080, which nothing outside of its container reaches: ${wanted}`,
  ],
  [
    'on the loopback of IPv6',
    [at('::1')],
    `Loopback: It listens on [::1]:8080, which nothing outside of its container reaches: ${wanted}`,
  ],
  [
    'on the loopback with another port',
    [at('127.0.0.1', 3000)],
    `Loopback: It listens on 127.0.0.1:3000, which nothing outside of its container reaches: ${wanted}`,
  ],
  [
    'on another port',
    [at('0.0.0.0', 9000), at('::', 3000), at('127.0.0.1', 9229)],
    `OtherPort: It listens on port 3000, 9000 and not on 8080: ${wanted}, or set exposed_port to 3000`,
  ],
  ['nowhere', [], `Nothing: Nothing in it listens on a port yet: ${wanted}`],
])('a program that listens %s', (_name, listeners, expected) => {
  const found = judge(listeners, { port: 8080, isExposed: true });
  expect(typeof found === 'object' ? `${found.reason}: ${found.message}` : found).toBe(expected);
});

test('a service of a compose file is told of the file', () => {
  expect(judge([at('0.0.0.0', 3000)], { port: 8080, isExposed: false })).toMatchObject({
    message: expect.stringContaining('or name that port in the compose file'),
  });
});

function watched(seen: { now: readonly Listener[] | undefined; probe?: ProbeResult }) {
  const clock = new FakeClock();
  let looks = 0;
  const listening = new Listening({
    clock,
    runtime: {
      listeners: () => {
        looks += 1;
        return Promise.resolve(seen.now);
      },
    },
    prober: { probe: () => Promise.resolve(seen.probe ?? { ok: true }) },
    changed: () => undefined,
  });
  const subject = { key: 'one', container: 'c1', pid: 1, address: '10.0.0.2', port: 8080, isExposed: true };
  listening.observe({ ...subject, since: clock.monotonic() });
  return { clock, listening, subject, looks: () => looks };
}

test('a process is looked at five seconds after its start, until it listens where it is to', async () => {
  const seen = { now: [at('127.0.0.1')] };
  const { clock, listening, looks } = watched(seen);
  await clock.advance(4_000);
  expect([listening.note, looks()]).toEqual([undefined, 0]);
  await clock.advance(1_000);
  expect(listening.note?.reason).toBe('Loopback');
  seen.now = [at('0.0.0.0')];
  await clock.advance(10_000);
  expect(listening.note).toBeUndefined();
  const before = looks();
  await clock.advance(120_000);
  expect(looks()).toBe(before);
});

test('a socket of IPv6 is judged by whether it takes connections of IPv4', async () => {
  const refused = { ok: false as const, reason: 'ECONNREFUSED' };
  for (const [probe, reason] of [
    [refused, 'IPv6Alone'],
    [{ ok: true as const }, undefined],
  ] as const) {
    const { clock, listening } = watched({ now: [at('::')], probe });
    await clock.advance(5_000);
    expect(listening.note?.reason).toBe(reason);
    listening.observe(undefined);
  }
});

test('what cannot be known is not told, nor what was known of another process', async () => {
  const unknown = watched({ now: undefined });
  await unknown.clock.advance(60_000);
  expect([unknown.listening.note, unknown.looks()]).toEqual([undefined, 1]);
  const { clock, listening, subject } = watched({ now: [] });
  await clock.advance(5_000);
  expect(listening.note?.reason).toBe('Nothing');
  listening.observe({ ...subject, key: 'two', since: clock.monotonic() });
  expect(listening.note).toBeUndefined();
  listening[Symbol.dispose]();
  await clock.advance(60_000);
  expect(clock.pending).toBe(0);
});
