import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import type { InstanceSample } from '../../../agent/metrics/metric-store.ts';
import { Sampler } from '../../../agent/metrics/sampler.ts';
import type { Actual } from '../../../agent/engine/observer.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import type { ContainerDetail, Usage } from '../../../agent/runtime/runtime.ts';
import type { ServerSample } from '../../../agent-protocol/metrics.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

type Answer = Usage | undefined | Error | 'hangs';

let clock: FakeClock;
let containers: ContainerDetail[];
/** What the engine answers by container. */
let answers: Record<string, Answer>;
let recorded: { at: number; instances: readonly InstanceSample[] }[];
/** Calls that did not end yet. */
let open: number;
let tick: () => Promise<void>;

function container(id: string, changes: Partial<ContainerDetail> = {}): ContainerDetail {
  return {
    id,
    labels: { [labels.workload]: 'web', [labels.assignment]: id },
    state: 'running',
    startedAt: 'first',
    pid: 10,
    memoryBytes: 0,
    ...changes,
  } as ContainerDetail; // the sampler reads these fields
}

const usage = (cpuMs: number, more: Partial<Usage> = {}): Usage => ({ cpuMs, memoryBytes: 100, ...more });

async function startSampler(): Promise<Sampler> {
  let listener: (sample: ServerSample) => void = () => undefined;
  const sampler = new Sampler({
    meter: {
      onSample(given) {
        listener = given;
        return () => undefined;
      },
    },
    runtime: {
      async usage({ id }, signal) {
        const answer = answers[id];
        open += 1;
        try {
          if (answer === 'hangs')
            await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
          if (answer instanceof Error) throw answer;
          return answer as Usage | undefined;
        } finally {
          open -= 1;
        }
      },
    },
    observer: { all: () => containers.map((detail): Actual => ({ container: detail, detail, origin: 'made' })) },
    store: {
      async record(at, _server, instances) {
        recorded.push({ at, instances });
      },
    },
    clock,
    log: pino({ level: 'silent' }),
  });
  tick = async () => {
    listener({ at: clock.now().getTime(), cores: 2, values: { cpu_percent: 1 } });
    await clock.advance(5000);
  };
  return sampler;
}

const last = (): Record<string, InstanceSample['values']> =>
  Object.fromEntries((recorded.at(-1)?.instances ?? []).map((it) => [it.instance, it.values]));

beforeEach(() => {
  clock = new FakeClock();
  containers = [container('a')];
  answers = {};
  recorded = [];
  open = 0;
});

test('rates are of the time between two samples, and absent in the first one', async () => {
  await using _ = await startSampler();
  answers['a'] = usage(1000, { receivedBytes: 0, sentBytes: 10, readBytes: 5, writtenBytes: 5 });
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 100 } });
  answers['a'] = usage(3500, { receivedBytes: 5000, sentBytes: 10, readBytes: 5, writtenBytes: 10_005 });
  await tick();
  expect(last()).toEqual({
    a: {
      cpu_percent: 50,
      memory_used_bytes: 100,
      network_rx_bps: 1000,
      network_tx_bps: 0,
      disk_read_bps: 0,
      disk_write_bps: 2000,
    },
  });
});

test('a limit of memory is shown if there is one', async () => {
  await using _ = await startSampler();
  containers = [container('a', { memoryBytes: 500 })];
  answers['a'] = usage(0);
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 100, memory_limit_bytes: 500 } });
});

test('counters that begin anew make no rate, neither after a restart nor by themselves', async () => {
  await using _ = await startSampler();
  answers['a'] = usage(9e9, { receivedBytes: 9e9 });
  await tick();
  containers = [container('a', { startedAt: 'second' })];
  answers['a'] = usage(9.1e9, { receivedBytes: 1e12 });
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 100 } });
  answers['a'] = usage(10, { receivedBytes: 10 });
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 100 } });
});

test('no instance uses more than all processors', async () => {
  await using _ = await startSampler();
  answers['a'] = usage(0);
  await tick();
  answers['a'] = usage(60_000);
  await tick();
  expect(last()['a']?.cpu_percent).toBe(200);
});

test('containers that do not answer delay the others by no more than a tick, and have no sample in it', async () => {
  await using _ = await startSampler();
  const hanging = Array.from({ length: 7 }, (__, n) => `h${n}`);
  containers = [...hanging, 'a', 'b', 'c'].map((id) => container(id));
  for (const id of hanging) answers[id] = 'hangs';
  answers['a'] = usage(0);
  answers['b'] = new Error('The engine failed');
  answers['c'] = undefined;
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 100 } });
  expect(recorded).toHaveLength(1);
  expect(open).toBe(0);
  for (const id of [...hanging, 'c']) answers[id] = usage(0);
  await tick();
  expect(Object.keys(last())).toHaveLength(9);
});

test('a tick that is due before the last one is over is skipped', async () => {
  await using sampler = await startSampler();
  answers['a'] = 'hangs';
  const first = tick();
  const second = tick();
  await Promise.all([first, second]);
  expect(recorded).toHaveLength(1);
  await sampler[Symbol.asyncDispose]();
});

test('an instance whose container is being replaced is the sum of both', async () => {
  await using _ = await startSampler();
  const both = { [labels.workload]: 'web', [labels.assignment]: 'a' };
  containers = [container('old', { labels: both }), container('new', { labels: both }), container('other')];
  for (const { id } of containers) answers[id] = usage(0);
  await tick();
  expect(last()).toEqual({ a: { memory_used_bytes: 200 }, other: { memory_used_bytes: 100 } });
});

test('containers that do not run, and those that are not known in detail, are not measured', async () => {
  await using _ = await startSampler();
  containers = [container('a', { state: 'exited' })];
  answers['a'] = usage(0);
  await tick();
  expect(recorded[0]?.instances).toEqual([]);
});
