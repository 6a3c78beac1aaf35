import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { Capture } from '../../../agent/logs/capture.ts';
import { LogStore } from '../../../agent/logs/log-store.ts';
import type { OutputChunk, OutputOptions } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';
import { until } from '../../harness/until.ts';

const writer = { workload: 'w', instance: 'i' };
const log = pino({ level: 'silent' });
/** What the agent stored before it ended. */
const known = ['one', 'two', 'three'];

type Output = (
  options: OutputOptions,
  chunk: (text: string, isRecorded: boolean) => OutputChunk,
  signal: AbortSignal,
) => AsyncGenerator<OutputChunk>;

/**
 * An agent that has stored the first lines of a container, and whose engine gives that output of it. `begun`: when its
 * process began.
 */
async function open(output: Output, begun?: (clock: FakeClock) => string) {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-capture-'));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const clock = new FakeClock();
  const store = started.use(
    await LogStore.open({ folder, maxBytes: 1e6, segmentBytes: 1e5, retentionDays: 1, clock, log }),
  );
  const at = clock.now().getTime();
  const { signal } = new AbortController();
  const lines = known.map((message) => ({ at, stream: 'stdout', level: 'info', instance: 'i', message }) as const);
  await store.append('w', lines, signal);
  await store.flushed('w');
  const chunk = (text: string, isRecorded: boolean): OutputChunk => ({
    stream: 'stdout',
    data: Buffer.from(`${text}\n`),
    ...(isRecorded && { at: new Date(at).toISOString() }),
  });
  const runtime = {
    inspect: async () => begun && { startedAt: begun(clock) },
    output: (_: string, options: OutputOptions, stop: AbortSignal) => output(options, chunk, stop),
  };
  const capture = started.use(new Capture({ runtime, store, clock, log }));
  const stored = async (): Promise<string[]> =>
    (await store.read({ workload_id: 'w', tail: 100 }, signal)).lines.map(({ message }) => message);
  const all = started.move();
  return { capture, clock, stored, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** The same agent, which found the container running and reads its output. */
async function follow(output: Output, begun?: (clock: FakeClock) => string) {
  const agent = await open(output, begun);
  agent.capture.follow('c', writer);
  return agent;
}

test('no line of a record that comes with pauses is stored twice', async () => {
  const paused = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  await using agent = await follow(async function* ({ recorded }, chunk) {
    yield chunk('one', true);
    paused.resolve();
    await goOn.promise;
    for (const text of ['two', 'three', 'while the agent was away']) yield chunk(text, true);
    recorded?.();
    yield chunk('live', false);
  });
  await paused.promise;
  await agent.clock.advance(5000);
  goOn.resolve();
  await until('the live line is stored', async () => (await agent.stored()).includes('live'));
  expect(await agent.stored()).toEqual([...known, 'while the agent was away', 'live']);
});

test('what was written while the agent was away is stored where the record ends, though nothing follows', async () => {
  const over = Promise.withResolvers<void>();
  await using agent = await follow(async function* ({ recorded }, chunk) {
    for (const text of [...known, 'while the agent was away']) yield chunk(text, true);
    recorded?.();
    await over.promise;
  });
  await until('the line is stored', async () => (await agent.stored()).includes('while the agent was away'));
  expect(await agent.stored()).toEqual([...known, 'while the agent was away']);
  over.resolve();
});

test('a prompt that waits in a container that was found running is stored once the record has ended', async () => {
  const [shown, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using agent = await follow(async function* ({ recorded }, chunk, signal) {
    for (const text of known) yield chunk(text, true);
    yield { ...chunk('', true), data: Buffer.from('Continue? ') };
    shown.resolve();
    await goOn.promise;
    recorded?.();
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  });
  await shown.promise;
  await agent.clock.advance(3000);
  expect(await agent.stored()).toEqual(known);
  goOn.resolve();
  await until('the prompt is stored', async () => {
    await agent.clock.advance(1000);
    return (await agent.stored()).length > known.length;
  });
  expect((await agent.stored()).slice(known.length)).toEqual([expect.stringContaining('Continue?')]);
});

test('the output of a container whose start failed is not waited for', async () => {
  await using agent = await open(async function* ({ attached }, chunk, signal) {
    attached?.();
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    yield chunk('never', false);
  });
  const { capture } = agent;
  const { signal } = new AbortController();
  const refused = capture.start('c', writer, () => Promise.reject(new Error('No such device')), signal);
  await expect(refused).rejects.toThrow('No such device');
  await capture.finished('c', signal);
  expect(await agent.stored()).toEqual(known);
});

test('text without a line feed is stored once nothing follows it, and what goes on for long is stored as well', async () => {
  const { signal } = new AbortController();
  const goOn = Promise.withResolvers<void>();
  const tick = { next: Promise.withResolvers<void>() };
  const part = (text: string): OutputChunk => ({ stream: 'stdout', data: Buffer.from(text) });
  await using agent = await open(async function* ({ attached }) {
    attached?.();
    yield part('name? ');
    await goOn.promise;
    yield part('joe\n');
    for (let n = 0; n < 100; n += 1) {
      yield part(`\r${n} %`);
      await tick.next.promise;
    }
    yield part('\rdone\n');
  });
  const { capture, clock } = agent;
  await capture.start('c', writer, () => Promise.resolve(), signal);
  const stored = async (): Promise<string[]> => (await agent.stored()).slice(known.length);
  await idle();
  await clock.advance(999);
  expect(await stored()).toEqual([]);
  await clock.advance(1);
  await until('the text is stored', async () => (await stored()).includes('name? …'));
  goOn.resolve();
  await idle();
  for (let n = 0; n < 100; n += 1) {
    await clock.advance(200);
    const { next } = tick;
    tick.next = Promise.withResolvers();
    next.resolve();
    await idle();
  }
  await until('the last state is stored', async () => (await stored()).includes('done'));
  const progress = (await stored()).slice(2);
  expect(progress.length).toBeLessThan(4);
  expect(progress.at(-1)).toBe('done');
  expect(progress.slice(0, -1).every((line) => /^\d+ %…$/.test(line))).toBe(true);
  expect((await stored()).slice(0, 2)).toEqual(['name? …', '…joe']);
});

test('a line tells of output that the engine removed while the agent was away', async () => {
  const over = Promise.withResolvers<void>();
  const begun = (clock: FakeClock): string => new Date(clock.now().getTime() - 1000).toISOString();
  await using agent = await follow(async function* ({ recorded }, chunk) {
    yield chunk('much later', true);
    recorded?.();
    await over.promise;
  }, begun);
  await until('the line is stored', async () => (await agent.stored()).includes('much later'));
  expect((await agent.stored()).slice(known.length)).toEqual([
    expect.stringMatching(/^Output between .* is missing: the engine had removed it/),
    'much later',
  ]);
  over.resolve();
});
