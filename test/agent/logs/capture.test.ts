import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { Capture } from '../../../agent/logs/capture.ts';
import { LogStore } from '../../../agent/logs/log-store.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import type { OutputChunk, OutputOptions } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
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

/** An agent that has stored the first lines of a container, and whose engine gives that output of it. */
async function open(output: Output) {
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
    ...mockRuntime(new MockEngine(clock)),
    output: (_: string, options: OutputOptions, stop: AbortSignal) => output(options, chunk, stop),
  };
  const capture = started.use(new Capture({ runtime, store, clock, log }));
  const stored = async (): Promise<string[]> =>
    (await store.read({ workload_id: 'w', tail: 100 }, signal)).lines.map(({ message }) => message);
  const all = started.move();
  return { capture, clock, stored, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** The same agent, which found the container running and reads its output. */
async function follow(output: Output) {
  const agent = await open(output);
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
