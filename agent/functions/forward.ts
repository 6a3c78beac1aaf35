import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { request } from '../../agent-protocol/node-http.ts';
import type { Call } from './call.ts';
import { CallFault } from './call-fault.ts';
import type { Slot } from './pool.ts';

/** Most bytes of one request, and of one answer. */
const mostBytes = 64 * 1024 * 1024;
/** Headers that are of one connection, and those that only the agent sets. */
const dropped = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-setpoint-execution',
  'x-setpoint-trigger',
  'x-setpoint-scheduled-at',
]);

/**
 * Sends a call to an instance, and its answer to whoever called. Resolves with the status once all of the answer was taken.
 * @throws CallFault `too_large`; Error if the instance or who called broke off
 */
export type Forward = (slot: Slot, call: Call, execution: string, signal: AbortSignal) => Promise<number>;

export const forward: Forward = async (slot, call, execution, signal) => {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined); // it may break off before anything is taken
  const outgoing = request({
    host: slot.launched.address,
    port: slot.launched.port,
    method: call.method,
    path: call.path,
    agent: slot.connections,
    headers: {
      ...framed(call),
      'x-setpoint-execution': execution,
      'x-setpoint-trigger': call.trigger,
      ...(call.scheduledAt !== undefined && { 'x-setpoint-scheduled-at': call.scheduledAt }),
    },
  });
  let body: Readable | undefined;
  const abort = (): void => {
    const reason: unknown = signal.reason;
    const why = reason instanceof Error ? reason : new Error('The call was broken off');
    const fault = faultOfCaller({ call, outgoing, body }, why) ?? why;
    reject(fault);
    broken.reject(fault);
    outgoing.destroy(why);
    body?.destroy(why);
  };
  outgoing.once('response', resolve);
  outgoing.once('upgrade', (_, socket) => {
    socket.destroy();
    reject(new Error('The function answered 101, which no call asks for'));
  });
  outgoing.on('error', reject); // further ones follow it
  outgoing.once('close', () => reject(new Error('The function closed the connection without an answer')));
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    if (call.body instanceof Readable)
      // the instance may answer before it has read all; its own end is what counts
      pipeline(call.body, bounded, outgoing, { signal }).catch((error: unknown) => {
        if (error instanceof CallFault) reject(error);
      });
    else outgoing.end(call.body);
    const incoming = await promise;
    body = Readable.from(bounded(incoming), { objectMode: false });
    body.on('error', () => undefined); // who takes it gets the error, too
    await Promise.race([
      call.answer({ status: incoming.statusCode ?? 502, headers: kept(incoming.headers), body }),
      broken.promise,
    ]);
    return incoming.statusCode ?? 502;
  } catch (error) {
    outgoing.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
};

/** What held a call up is no fault of the instance where that has read all that was sent, or waits for its answer to be taken. */
function faultOfCaller(
  { call, outgoing, body }: { call: Call; outgoing: ClientRequest; body: Readable | undefined },
  cause: Error,
): CallFault | undefined {
  if (body !== undefined && body.readableLength > 0)
    return new CallFault('not_taken', 'Who called did not take the answer in time', { cause });
  const isUnsent = call.body instanceof Readable && !call.body.readableEnded && call.body.readableLength === 0;
  return isUnsent && !outgoing.writableNeedDrain
    ? new CallFault('not_sent', 'Who called did not send the request in time', { cause })
    : undefined;
}

/** The headers of a request, with how long its body is, whatever its method: an instance keeps its connection. */
function framed({ headers, body }: Call): OutgoingHttpHeaders {
  const all = kept(headers);
  if (!(body instanceof Readable)) {
    delete all['content-length'];
    return body.byteLength > 0 ? { ...all, 'content-length': body.byteLength } : all;
  }
  if (headers['transfer-encoding'] === undefined) return all;
  delete all['content-length'];
  return { ...all, 'transfer-encoding': 'chunked' };
}

function kept(headers: IncomingMessage['headers']): OutgoingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || dropped.has(name.toLowerCase()) ? [] : [[name, value]],
    ),
  );
}

async function* bounded(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.byteLength;
    if (bytes > mostBytes)
      throw new CallFault('too_large', `A request and an answer may have at most ${mostBytes / 1024 / 1024} MiB`);
    yield chunk;
  }
}
