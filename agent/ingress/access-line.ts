import { z } from 'zod';

/** A request, as the access log of the proxy has it once it is over. */
export interface Access {
  /** When it was over, in milliseconds since 1970. */
  at: number;
  host: string;
  /** 0: the client left before an answer began. */
  status: number;
  /** Absent: not known, since the answer was cut. */
  ms: number | undefined;
  bytesIn: number;
  bytesOut: number;
  /** Address of the instance; absent: it reached none. */
  address: string | undefined;
  /** No instance was ready. */
  isWithoutInstance: boolean;
  /** Absent where the host alone says it. */
  workload: string | undefined;
  /** The status that the proxy itself answered with, in place of the instance. */
  error: number | undefined;
}

const Line = z.object({
  ts: z.number(),
  request: z.object({ host: z.string() }),
  status: z.int(),
  duration: z.number(),
  size: z.number().catch(0),
  bytes_read: z.number().catch(0),
  upstream: z.string().optional().catch(undefined),
  workload: z.string().max(64).optional().catch(undefined),
  error: z.coerce.number().optional().catch(undefined),
});

const upstreamName = /^i-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})\./;
/** The agent answers there in place of an instance. */
const loopback = '127.0.0.1';

/** Returns `undefined` if the line is no request. */
export function accessOf(text: string): Access | undefined {
  const parsed = Line.safeParse(jsonOf(text));
  if (!parsed.success) return undefined;
  const { ts, request, status, duration, size, bytes_read, upstream = '', workload, error } = parsed.data;
  const address = upstreamName.exec(upstream)?.slice(1).join('.');
  return {
    at: Math.round(ts * 1000),
    host: request.host.replace(/:\d*$/, '').toLowerCase(),
    status,
    ms: duration > 0 ? duration * 1000 : undefined,
    bytesIn: amountOf(bytes_read),
    bytesOut: amountOf(size),
    address: address === loopback ? undefined : address,
    isWithoutInstance: address === loopback,
    workload,
    error,
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown; // its form is checked by the caller
  } catch {
    return undefined;
  }
}

function amountOf(value: number): number {
  return Math.max(0, Math.trunc(value));
}
