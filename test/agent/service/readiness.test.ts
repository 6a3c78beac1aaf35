import { expect, test } from 'vitest';
import type { ProbeResult } from '../../../agent/runtime/probe.ts';
import { Readiness } from '../../../agent/service/readiness.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { probeTimes } from '../../harness/wire-items.ts';

const target = { type: 'http', address: '10.0.0.1', port: 80, path: '/', timeoutMs: 5_000 } as const;

/** An instance that started now. The test sets how it answers its health check. */
function instance(first: ProbeResult = { ok: true }, times: Partial<typeof probeTimes> = {}) {
  const clock = new FakeClock();
  const answers: { now: ProbeResult } = { now: first };
  const readiness = new Readiness({
    clock,
    prober: { probe: () => Promise.resolve(answers.now) },
    changed: () => undefined,
    suspected: () => undefined,
  });
  readiness.observe({
    key: 'one',
    since: clock.monotonic(),
    stableMs: 10_000,
    check: { target, times: { ...probeTimes, ...times } },
  });
  return { clock, answers, readiness };
}

/** Moves on until it is so; answers with how long that took. */
async function untilSo(clock: FakeClock, isSo: () => boolean): Promise<number> {
  const from = clock.monotonic();
  while (!isSo() && clock.monotonic() - from < 120_000) await clock.step(1_000);
  return clock.monotonic() - from;
}

test('an instance that answers from its start on is stable ten seconds after it', async () => {
  const { clock, readiness } = instance();
  await untilSo(clock, () => readiness.health.ready);
  await untilSo(clock, () => readiness.health.stable);
  expect(clock.monotonic()).toBeGreaterThanOrEqual(10_000);
  expect(clock.monotonic()).toBeLessThan(12_000);
});

test('an instance that did not answer at first is stable ten seconds after its first answer', async () => {
  const { clock, answers, readiness } = instance();
  answers.now = { ok: false, reason: 'It starts' };
  await clock.advance(30_000);
  answers.now = { ok: true };
  await untilSo(clock, () => readiness.health.ready);
  expect(readiness.health).toEqual({ ready: true, stable: false, problem: undefined });
  expect(await untilSo(clock, () => readiness.health.stable)).toBeGreaterThanOrEqual(9_000);
});

test('what its check sees is shown a few seconds after its start, in the words of the first time', async () => {
  const { clock, answers, readiness } = instance({
    ok: false,
    reason: 'GET / answered 400',
    body: 'Bad\n\u001b[1m host',
  });
  await clock.advance(4_000);
  expect(readiness.health).toEqual({ ready: false, stable: false, problem: undefined });
  answers.now = { ok: false, reason: 'GET / answered 400', body: 'Bad host at 12:00' };
  await clock.advance(3_000);
  const seen = 'GET / answered 400: "Bad [1m host"';
  expect(readiness.health).toMatchObject({ problem: undefined, seen });
  await clock.advance(30_000);
  expect(readiness.health).toMatchObject({ problem: seen, seen });
  answers.now = { ok: false, reason: 'GET / answered 500' };
  await clock.advance(2_000);
  expect(readiness.health.seen).toBe('GET / answered 500');
  answers.now = { ok: true };
  await untilSo(clock, () => readiness.health.ready);
  expect(readiness.health.seen).toBeUndefined();
});

test('an instance that was unready for a while is stable ten seconds after it answers again', async () => {
  const { clock, answers, readiness } = instance();
  await untilSo(clock, () => readiness.health.stable);
  answers.now = { ok: false, reason: 'It hangs' };
  await untilSo(clock, () => !readiness.health.ready);
  await clock.advance(30_000);
  answers.now = { ok: true };
  await untilSo(clock, () => readiness.health.ready);
  expect(readiness.health).toEqual({ ready: true, stable: false, problem: undefined });
  expect(await untilSo(clock, () => readiness.health.stable)).toBeGreaterThanOrEqual(9_000);
});

test('an instance that the engine cannot be asked about stays as it is', async () => {
  const silence = { ok: undefined, reason: 'The container engine does not answer' };
  const { clock, answers, readiness } = instance(silence);
  await clock.advance(60_000);
  expect(readiness.health).toEqual({ ready: false, stable: false, problem: undefined });
  expect(readiness.settled).toBe(false);
  answers.now = { ok: true };
  await untilSo(clock, () => readiness.health.stable);
  answers.now = silence;
  await clock.advance(120_000);
  expect(readiness.health).toEqual({ ready: true, stable: true, problem: undefined });
  answers.now = { ok: false, reason: 'It hangs' };
  expect(await untilSo(clock, () => !readiness.health.ready)).toBeLessThan(10_000);
});

test('an instance is ready after as many successes in a row as it shall have', async () => {
  const { clock, answers, readiness } = instance({ ok: false, reason: 'It starts' }, { successes: 3 });
  await clock.advance(60_000);
  answers.now = { ok: true };
  await clock.advance(1_000);
  answers.now = { ok: false, reason: 'Not yet' };
  await clock.advance(2_000);
  expect(readiness.health.ready).toBe(false);
  answers.now = { ok: true };
  expect(await untilSo(clock, () => readiness.health.ready)).toBeGreaterThan(1_000);
});

test('an instance is probed as often, and fails as late, as it shall', async () => {
  const { clock, answers, readiness } = instance({ ok: true }, { interval_seconds: 60, failures: 1 });
  await untilSo(clock, () => readiness.health.stable);
  answers.now = { ok: false, reason: 'It hangs' };
  await clock.advance(40_000);
  expect(readiness.health.ready).toBe(true);
  await clock.advance(20_000);
  expect(readiness.health).toEqual({ ready: false, stable: false, problem: 'It hangs', seen: 'It hangs' });
});

test('a failure within the time of the start is not reported', async () => {
  const { clock, readiness } = instance({ ok: false, reason: 'It starts' }, { start_seconds: 300 });
  await clock.advance(299_000);
  expect(readiness.health.problem).toBeUndefined();
  await clock.advance(2_000);
  expect(readiness.health.problem).toBe('It starts');
});
