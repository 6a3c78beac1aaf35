import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import type { Clock } from '../../time/clock.ts';
import type { Load } from '../../agent-protocol/messages.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';

interface Sample {
  at: number;
  busy: number;
  total: number;
  received: number;
  sent: number;
}

const everyMs = 5_000;
const kibibyte = 1024;
/** Interfaces whose traffic also passes another interface. */
const inner = /^(?:lo|veth|docker|br-|virbr|tun|tap|cni|flannel)/;

/** Measures the machine every 5 s; rates are averages over the last interval. */
export class LoadMeter {
  readonly #clock: Clock;
  readonly #disk: () => Promise<DiskSpace>;
  #last: Sample | undefined;
  #load: Load;
  #cancel: () => void = () => undefined;

  constructor(deps: { clock: Clock; disk: () => Promise<DiskSpace> }) {
    this.#clock = deps.clock;
    this.#disk = deps.disk;
    this.#load = {
      cpu_percent: 0,
      cores: availableParallelism(),
      load1: 0,
      memory_used_bytes: 0,
      memory_total_bytes: 0,
      disk_used_bytes: 0,
      disk_total_bytes: 0,
      network_rx_bps: 0,
      network_tx_bps: 0,
    };
  }

  get load(): Load {
    return this.#load;
  }

  /** Takes the first sample, and one more every 5 s until disposal. */
  async start(): Promise<void> {
    await this.#measure();
    this.#cancel = this.#clock.timer(everyMs, () => void this.start());
  }

  [Symbol.dispose](): void {
    this.#cancel();
  }

  async #measure(): Promise<void> {
    const [memory, network, disk] = await Promise.all([
      readMemory(),
      readNetwork(),
      this.#disk().catch(() => undefined),
    ]);
    const sample = { at: this.#clock.monotonic(), ...readProcessors(), ...network };
    const before = this.#last;
    this.#last = sample;
    const seconds = before === undefined ? 0 : (sample.at - before.at) / 1000;
    const rate = (now: number, then: number): number =>
      seconds > 0 ? Math.max(0, Math.round((now - then) / seconds)) : 0;
    const total = before === undefined ? 0 : sample.total - before.total;
    this.#load = {
      ...this.#load,
      cpu_percent:
        before === undefined || total <= 0 ? 0 : Math.round(((sample.busy - before.busy) / total) * 1000) / 10,
      load1: loadavg()[0] ?? 0,
      memory_used_bytes: memory.total - memory.available,
      memory_total_bytes: memory.total,
      disk_used_bytes: disk === undefined ? 0 : disk.totalBytes - disk.freeBytes,
      disk_total_bytes: disk?.totalBytes ?? 0,
      network_rx_bps: before === undefined ? 0 : rate(sample.received, before.received),
      network_tx_bps: before === undefined ? 0 : rate(sample.sent, before.sent),
    };
  }
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

async function readMemory(): Promise<{ total: number; available: number }> {
  const text = await readFile('/proc/meminfo', 'utf8').catch(() => '');
  const value = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * kibibyte;
  return { total: value('MemTotal'), available: value('MemAvailable') };
}

/** Reads /proc/net/dev: bytes through the machine's own interfaces since it started. */
export function parseNetwork(text: string): { received: number; sent: number } {
  let received = 0;
  let sent = 0;
  for (const line of text.split('\n').slice(2)) {
    const [name = '', numbers = ''] = line.trim().split(/:\s*/);
    if (name === '' || inner.test(name)) continue;
    const fields = numbers.split(/\s+/).map(Number);
    received += fields[0] ?? 0;
    sent += fields[8] ?? 0;
  }
  return { received, sent };
}

async function readNetwork(): Promise<{ received: number; sent: number }> {
  return parseNetwork(await readFile('/proc/net/dev', 'utf8').catch(() => ''));
}
