import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { constants, gzip as gzipOf } from 'node:zlib';

const gzip = promisify(gzipOf);

/** A shorter answer is sent as it is: it fits into a few packets. */
const fromBytes = 16 * 1024;

/** What was made of answers that are kept, for as long as these are. */
const known = new WeakMap<Buffer, Promise<Buffer>>();

/** Whether a client takes answers that are compressed by gzip. */
export function takesGzip(headers: IncomingHttpHeaders): boolean {
  return /(^|[,\s])gzip\s*($|,|;\s*q=(1|0\.[0-9]*[1-9]))/.test(headers['accept-encoding']?.toString() ?? '');
}

/** A long answer, compressed; `undefined`: it is too short to gain from that. Its caller has made sure that the client takes it. */
export async function packed(body: string | Buffer): Promise<Buffer | undefined> {
  if (Buffer.byteLength(body) < fromBytes) return undefined;
  const pack = (): Promise<Buffer> => gzip(body, { level: constants.Z_BEST_SPEED });
  if (typeof body === 'string') return pack();
  const made = known.get(body) ?? pack();
  known.set(body, made);
  return made;
}
