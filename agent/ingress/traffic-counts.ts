import { z } from 'zod';
import type { statusClasses, TrafficCounts } from '../../agent-protocol/traffic.ts';
import type { Access } from './access-line.ts';
import { bucketOf, percentile } from './latencies.ts';
import type { Latencies } from './latencies.ts';

const fields = [
  'requests',
  '1xx',
  '2xx',
  '3xx',
  '4xx',
  '5xx',
  'bytes_in',
  'bytes_out',
  'unavailable',
  'unauthorized',
  'body_too_large',
  'aborted',
  'cut',
] as const satisfies readonly ((typeof statusClasses)[number] | keyof TrafficCounts | keyof TrafficCounts['refused'])[];
type Field = (typeof fields)[number];

/** Requests of one instance, or of none, in some time. Counts can be added up. */
export class Counts {
  readonly #values: Record<Field, number>;
  readonly #latencies: Latencies;

  constructor(values: Partial<Record<Field, number>> = {}, latencies: Latencies = new Map()) {
    this.#values = { ...zeros, ...values };
    this.#latencies = latencies;
  }

  /** Buckets of latencies that it has. */
  get size(): number {
    return this.#latencies.size;
  }

  count(access: Access): void {
    const values = this.#values;
    const { status, ms } = access;
    values.requests += 1;
    values.bytes_in += access.bytesIn;
    values.bytes_out += access.bytesOut;
    if (access.isWithoutInstance || isBadGateway(access.error)) values.unavailable += 1;
    else if (access.error === 401) values.unauthorized += 1;
    else if (access.error === 413) values.body_too_large += 1;
    if (status < 100) {
      values.aborted += 1;
      return;
    }
    const kind = classes[Math.trunc(status / 100) - 1];
    if (kind !== undefined) values[kind] += 1;
    if (ms === undefined) values.cut += 1;
    else if (status >= 200) this.#measured(bucketOf(ms), 1);
  }

  add(other: Counts): void {
    for (const field of fields) this.#values[field] += other.#values[field];
    for (const [bucket, count] of other.#latencies) this.#measured(bucket, count);
  }

  get shown(): TrafficCounts {
    const { requests, bytes_in, bytes_out, unavailable, unauthorized, body_too_large, aborted, cut } = this.#values;
    const of = (part: number): number => percentile(this.#latencies, part) ?? 0;
    const pick = (name: (typeof classes)[number]): number => this.#values[name];
    return {
      requests,
      status: { '1xx': pick('1xx'), '2xx': pick('2xx'), '3xx': pick('3xx'), '4xx': pick('4xx'), '5xx': pick('5xx') },
      latency_ms: this.#latencies.size === 0 ? null : { p50: of(0.5), p95: of(0.95), p99: of(0.99) },
      bytes_in,
      bytes_out,
      refused: { unavailable, unauthorized, body_too_large },
      aborted,
      cut,
    };
  }

  /** As it is stored; see {@link StoredCounts}. */
  toJSON(): StoredCounts {
    return [fields.map((field) => this.#values[field]), [...this.#latencies].flat()];
  }

  static from([values, cells]: StoredCounts): Counts {
    const latencies: Latencies = new Map();
    for (let n = 0; n + 1 < cells.length; n += 2) latencies.set(cells[n] ?? 0, cells[n + 1] ?? 0);
    return new Counts(Object.fromEntries(fields.map((field, n) => [field, values[n] ?? 0])), latencies);
  }

  #measured(bucket: number, count: number): void {
    this.#latencies.set(bucket, (this.#latencies.get(bucket) ?? 0) + count);
  }
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;
const zeros = Object.fromEntries(fields.map((field) => [field, 0])) as Record<Field, number>; // all fields are in it

/** The values in the order of their fields, then each bucket of latencies with its count. */
export const StoredCounts = z.tuple([z.array(z.number()), z.array(z.int())]);
export type StoredCounts = z.infer<typeof StoredCounts>;

/** The instance that was chosen did not answer. */
function isBadGateway(error: number | undefined): boolean {
  return error !== undefined && error >= 502 && error <= 504;
}
