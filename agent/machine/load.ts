import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import type { Clock } from '../../time/clock.ts';
import type { Load } from '../../agent-protocol/messages.ts';
import { sampleMs } from '../../agent-protocol/metrics.ts';
import type { Measured, ServerSample, ServerValue } from '../../agent-protocol/metrics.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { readMemory } from './memory.ts';

interface Counters {
  /** Monotonic. */
  at: number;
  busy: number;
  total: number;
  interfaces: Interfaces;
}

/** Bytes through each of the machine's own interfaces since it was made. */
type Interfaces = ReadonlyMap<string, { received: number; sent: number }>;

/** A disk that does not answer in this time, such as one on a network, is not known in that measurement. */
const diskMs = 2_000;
/** Interfaces whose traffic also passes another interface. */
const inner = /^(?:lo|veth|docker|br-|virbr|tun|tap|cni|flannel)/;

/**
 * Measures the machine every 5 s; rates are averages over the last interval. It measures in the middle of the 5 s by
 * which samples are kept, so that a delay does not move a sample to the next ones.
 */
export class LoadMeter {
  readonly #clock: Clock;
  readonly #disk: () => Promise<DiskSpace>;
  readonly #cores = availableParallelism();
  readonly #listeners = new Set<(sample: ServerSample) => void>();
  #last: Counters | undefined;
  /** The question to the disk that has no answer yet. */
  #asked: Promise<DiskSpace | undefined> | undefined;
  #sample: ServerSample;
  #cancel: () => void = () => undefined;
  #isOver = false;

  constructor(deps: { clock: Clock; disk: () => Promise<DiskSpace> }) {
    this.#clock = deps.clock;
    this.#disk = deps.disk;
    this.#sample = { at: deps.clock.now().getTime(), cores: this.#cores, values: {} };
  }

  /** The newest sample; rates are absent in the first one. */
  get sample(): ServerSample {
    return this.#sample;
  }

  /** The newest sample in the form of beats, which have 0 for what is not known. */
  get load(): Load {
    const { cores, values } = this.#sample;
    return {
      cpu_percent: values.cpu_percent ?? 0,
      cores,
      load1: values.load1 ?? 0,
      memory_used_bytes: values.memory_used_bytes ?? 0,
      memory_total_bytes: values.memory_total_bytes ?? 0,
      disk_used_bytes: values.disk_used_bytes ?? 0,
      disk_total_bytes: values.disk_total_bytes ?? 0,
      network_rx_bps: values.network_rx_bps ?? 0,
      network_tx_bps: values.network_tx_bps ?? 0,
    };
  }

  /** Calls the listener with each new sample. Returns a function that removes it. */
  onSample(listener: (sample: ServerSample) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes the first sample, and one more every 5 s until disposal. */
  async start(): Promise<void> {
    await this.#measure();
    this.#later();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#cancel();
  }

  #later(): void {
    if (this.#isOver) return;
    const past = (this.#clock.now().getTime() + sampleMs / 2) % sampleMs;
    // The interval of a rate must not be too short, as at the start or after a change of the wall clock.
    const left = sampleMs - past;
    this.#cancel = this.#clock.timer(left < sampleMs / 2 ? left + sampleMs : left, () => void this.start());
  }

  async #measure(): Promise<void> {
    const [memory, interfaces, disk] = await Promise.all([measureMemory(), readInterfaces(), this.#space()]);
    const now = { at: this.#clock.monotonic(), ...readProcessors(), interfaces };
    const before = this.#last;
    this.#last = now;
    const values: Partial<Record<ServerValue, number>> = {
      ...loadBetween(before, now),
      ...memory,
      ...(disk !== undefined && {
        disk_used_bytes: disk.totalBytes - disk.freeBytes,
        disk_total_bytes: disk.totalBytes,
      }),
    };
    const [load1] = loadavg();
    if (load1 !== undefined) values.load1 = load1;
    this.#sample = { at: this.#clock.now().getTime(), cores: this.#cores, values };
    if (!this.#isOver) for (const listener of this.#listeners) listener(this.#sample);
  }

  /** Returns `undefined` if the disk cannot be measured, or not in time. One that does not answer is not asked again. */
  async #space(): Promise<DiskSpace | undefined> {
    if (this.#asked !== undefined) return undefined; // each question keeps a thread of this process until its answer
    const asked = this.#disk()
      .catch(() => undefined)
      .finally(() => (this.#asked = undefined));
    this.#asked = asked;
    const late = Promise.withResolvers<undefined>();
    const cancel = this.#clock.timer(diskMs, () => late.resolve(undefined));
    try {
      return await Promise.race([asked, late.promise]);
    } finally {
      cancel();
    }
  }
}

/** Rates are absent without an interval. That of the processor is absent where its counters began anew. */
function loadBetween(before: Counters | undefined, now: Counters): Measured<ServerValue> {
  if (before === undefined) return {};
  const total = now.total - before.total;
  const busy = now.busy - before.busy;
  const seconds = (now.at - before.at) / 1000;
  const passed = bytesBetween(before.interfaces, now.interfaces);
  return {
    ...(total > 0 && busy >= 0 && { cpu_percent: Math.min(100, Math.round((busy / total) * 1000) / 10) }),
    ...(seconds > 0 &&
      passed !== undefined && {
        network_rx_bps: Math.round(passed.received / seconds),
        network_tx_bps: Math.round(passed.sent / seconds),
      }),
  };
}

/**
 * What passed the interfaces that were there both times. One whose counters fell was made anew meanwhile: all that it
 * has is new. `undefined` if there is none.
 */
export function bytesBetween(before: Interfaces, now: Interfaces): { received: number; sent: number } | undefined {
  const both = [...now].flatMap(([name, after]) => {
    const earlier = before.get(name);
    return earlier === undefined ? [] : [{ earlier, after }];
  });
  if (both.length === 0) return undefined;
  const sum = { received: 0, sent: 0 };
  for (const { earlier, after } of both)
    for (const way of ['received', 'sent'] as const)
      sum[way] += after[way] >= earlier[way] ? after[way] - earlier[way] : after[way];
  return sum;
}

function readProcessors(): { busy: number; total: number } {
  let busy = 0;
  let idle = 0;
  for (const { times } of cpus()) {
    busy += times.user + times.nice + times.sys + times.irq;
    idle += times.idle;
  }
  return { busy, total: busy + idle };
}

async function measureMemory(): Promise<Measured<ServerValue>> {
  const memory = await readMemory();
  if (memory === undefined) return {};
  return { memory_used_bytes: memory.total - memory.available, memory_total_bytes: memory.total };
}

/** Reads /proc/net/dev. */
export function parseInterfaces(text: string): Interfaces {
  const found = new Map<string, { received: number; sent: number }>();
  for (const line of text.split('\n').slice(2)) {
    const [name = '', numbers = ''] = line.trim().split(/:\s*/);
    if (name === '' || inner.test(name)) continue;
    const fields = numbers.split(/\s+/).map(Number);
    found.set(name, { received: fields[0] ?? 0, sent: fields[8] ?? 0 });
  }
  return found;
}

async function readInterfaces(): Promise<Interfaces> {
  return parseInterfaces(await readFile('/proc/net/dev', 'utf8').catch(() => ''));
}
