import { z } from 'zod';
import { decodeLines, encodeLine } from './sample-lines.ts';

/** Interval of the samples, which are kept for an hour. */
export const sampleMs = 5_000;
/** Interval of the means and maxima, which are kept for a week. */
export const meanMs = 300_000;
export const sampledForMs = 3_600_000;
export const meansForMs = 7 * 24 * 3_600_000;
/** Most points of one answer: a week of means. */
export const mostPoints = meansForMs / meanMs;
/** Most instances of which an agent keeps values, running or gone. */
export const mostInstances = 256;

/** What is measured of a server. Rates are bytes per second; `cpu_percent` is of all its processors. */
export const serverValues = [
  'cpu_percent',
  'load1',
  'memory_used_bytes',
  'memory_total_bytes',
  'disk_used_bytes',
  'disk_total_bytes',
  'network_rx_bps',
  'network_tx_bps',
] as const;
export type ServerValue = (typeof serverValues)[number];

/** What is measured of an instance. Rates are bytes per second; 100 of `cpu_percent` are one processor. */
export const instanceValues = [
  'cpu_percent',
  'memory_used_bytes',
  'memory_limit_bytes',
  'network_rx_bps',
  'network_tx_bps',
  'disk_read_bps',
  'disk_write_bps',
] as const;
export type InstanceValue = (typeof instanceValues)[number];

/** Absent in a measurement: not known at that time. */
export type Measured<V extends string> = Readonly<Partial<Record<V, number>>>;

const Id = z.string().max(64);
/** Milliseconds since 1970 by the clock of the server. */
const Instant = z.int().min(0).max(8.64e15);

/** Asks for the values of an instance, of all instances of a workload together, or, without either, of the server. */
export const MetricsQuery = z.object({
  workload_id: Id.optional(),
  /** Of that workload. */
  instance_id: Id.optional(),
  since: Instant,
  until: Instant,
  step_ms: z.int().min(sampleMs).max(sampledForMs),
});
export type MetricsQuery = z.infer<typeof MetricsQuery>;

const Value = z.number().nullable();

/** The newest values of an instance. */
const Latest = z.object({
  workload_id: Id,
  instance_id: Id,
  values: z.partialRecord(z.enum(instanceValues), z.number()),
});

/** The newest values of a workload on one server: the sums over its instances there. */
export const WorkloadLoad = z.object({
  workload_id: Id,
  instances: z.int().positive(),
  values: z.partialRecord(z.enum(instanceValues), z.number()),
});
export type WorkloadLoad = z.infer<typeof WorkloadLoad>;

/**
 * Answer of `metrics.read`: one row per step of which anything is known, in order. A row has the time at which its step
 * begins, then the mean and then the maximum of each value, in the order of {@link serverValues} or
 * {@link instanceValues}; null: not known.
 */
export const MetricsPage = z.object({
  since: Instant,
  until: Instant,
  /** At least that of the query: what is kept for that age may be coarser. */
  step_ms: z.int().positive(),
  rows: z.array(z.tuple([Instant], Value).refine((row) => row.length <= 1 + 2 * serverValues.length)).max(mostPoints),
  /** Of a server: the newest values of the instances that run. */
  latest: z.array(Latest).max(mostInstances).optional(),
});
export type MetricsPage = z.infer<typeof MetricsPage>;

/** One line of the stream `metrics`: the newest sample of the server. */
export const ServerSample = z.object({
  at: Instant,
  cores: z.int().positive(),
  values: z.partialRecord(z.enum(serverValues), z.number()),
});
export type ServerSample = z.infer<typeof ServerSample>;

/** Encodes a sample as a line of the stream `metrics`. */
export function encodeSample(sample: ServerSample): Uint8Array {
  return encodeLine(sample);
}

/** Decodes the bytes of the stream `metrics`. @throws CallError `malformed` if they are not lines of samples */
export function decodeSamples(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSample, void, undefined> {
  return decodeLines(bytes, { form: ServerSample, maxBytes: 4096, of: 'metrics' });
}
