import { z } from 'zod';
import { decodeLines, encodeLine } from './sample-lines.ts';

/** Length of the windows in which requests are counted. They begin at whole multiples of it since 1970. */
export const windowMs = 5_000;
/** Windows are kept for so long. */
export const trafficForMs = 3_600_000;
/** Most points of one answer. */
export const mostTrafficPoints = trafficForMs / windowMs;
/** Most instances of one answer. */
export const mostTrafficInstances = 256;
/** A percentile of latencies is at most this part of itself away from the true one. */
export const latencyError = 0.05;

const Id = z.string().max(64);
/** Milliseconds since 1970 by the clock of the server. */
const Instant = z.int().min(0).max(8.64e15);
const Count = z.int().min(0);
const Milliseconds = z.number().min(0);

/** Classes of statuses. 1xx: connections that became WebSockets. */
export const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Requests that ended in some time. */
export const TrafficCounts = z.object({
  requests: Count,
  /** A request whose client left before an answer began has no status. */
  status: z.record(z.enum(statusClasses), Count),
  /**
   * From the arrival of a request to the end of its answer, of those that were answered to the end; a WebSocket has
   * none. `null`: there was none. See {@link latencyError}.
   */
  latency_ms: z.object({ p50: Milliseconds, p95: Milliseconds, p99: Milliseconds }).nullable(),
  /** Of the bodies of requests and of answers, and of WebSockets. */
  bytes_in: Count,
  bytes_out: Count,
  /** What the proxy itself answered in place of an instance, and why. */
  refused: z.object({
    /** No instance was ready, or the one that was chosen did not answer. */
    unavailable: Count,
    unauthorized: Count,
    body_too_large: Count,
  }),
  /** The client left before it was answered. */
  aborted: Count,
  /** The instance ended its answer before it was whole. */
  cut: Count,
});
export type TrafficCounts = z.infer<typeof TrafficCounts>;

const InstanceTraffic = TrafficCounts.extend({ instance_id: Id });

/** Asks for the requests to a workload, or to one of its instances. */
export const TrafficQuery = z.object({
  workload_id: Id,
  instance_id: Id.optional(),
  since: Instant,
  until: Instant,
  step_ms: z.int().min(windowMs).max(trafficForMs),
});
export type TrafficQuery = z.infer<typeof TrafficQuery>;

/** The requests of a step, or of a window. `complete`: false if some of them were not counted. */
const TrafficRow = TrafficCounts.extend({ at: Instant, complete: z.boolean() });
export type TrafficRow = z.infer<typeof TrafficRow>;

/** Answer of `traffic.read`. A time of which nothing is known has no row; one without requests has a row of zeros. */
export const TrafficPage = z.object({
  since: Instant,
  until: Instant,
  step_ms: z.int().positive(),
  rows: z.array(TrafficRow).max(mostTrafficPoints + 1),
  total: TrafficCounts.extend({ complete: z.boolean() }),
  /** Those with requests in that time, also the ones that are gone. Requests that reached none are in the total only. */
  instances: z.array(InstanceTraffic).max(mostTrafficInstances),
});
export type TrafficPage = z.infer<typeof TrafficPage>;

/** One line of the stream `traffic`: the newest window of a workload. */
export const TrafficSample = TrafficRow.extend({ instances: z.array(InstanceTraffic).max(mostTrafficInstances) });
export type TrafficSample = z.infer<typeof TrafficSample>;

/** Room for all instances of a sample. */
const maxBytes = 256 * 1024;

/** Encodes a sample as a line of the stream `traffic`. */
export function encodeTraffic(sample: TrafficSample): Uint8Array {
  return encodeLine(sample);
}

/** Decodes the bytes of the stream `traffic`. @throws CallError `malformed` if they are not lines of samples */
export function decodeTraffic(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<TrafficSample, void, undefined> {
  return decodeLines(bytes, { form: TrafficSample, maxBytes, of: 'traffic' });
}
