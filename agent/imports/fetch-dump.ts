import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { https, request as requestByHttp } from '../../agent-protocol/node-http.ts';
import { networks, reachOf } from '../../network/address.ts';
import { addressesOf } from '../../network/addresses-of.ts';
import { ImportFault } from './import-fault.ts';

/** Nothing comes for so long although it is waited for: the connection is over. */
const usualIdleMs = 60_000;
const mostRedirects = 5;
const redirects: readonly (number | undefined)[] = [301, 302, 303, 307, 308];

export interface FetchOptions {
  /** Networks of which the operator of the server said that dumps may be fetched from them, also by http. */
  allowed: readonly string[];
  /** The addresses of a host; by default those of the resolver. */
  resolve?: (host: string, signal: AbortSignal) => Promise<readonly string[]>;
  idleMs?: number;
}

export interface FetchedDump {
  /** Bytes that come; absent: the other side does not say. */
  size?: number;
  bytes: AsyncIterable<Uint8Array>;
}

/**
 * Fetches a dump: from public addresses by https, from others only where the operator of the server named them. The connection
 * is made to the address that was judged, also if the name leads elsewhere later, and no redirect leads to another host. An
 * answer that is cut off fails while it is read.
 *
 * @throws ImportFault `invalid_source`, `source_failed`; the reason of the signal
 */
export async function fetchDump(address: string, options: FetchOptions, signal: AbortSignal): Promise<FetchedDump> {
  const { idleMs = usualIdleMs } = options;
  let url = parsed(address);
  for (let hop = 0; hop <= mostRedirects; hop += 1) {
    const answer = await ask(url, { address: await judged(url, options, signal), idleMs }, signal);
    const { statusCode: status, headers } = answer;
    if (status === 200) return dumpIn(answer, idleMs, signal);
    answer.destroy();
    const { location } = headers;
    if (!redirects.includes(status) || location === undefined)
      throw new ImportFault('source_failed', `${url.host} answered ${status ?? 'nothing'} where the dump was to be`);
    const next = parsed(location, url);
    if (next.host !== url.host || next.protocol !== url.protocol)
      throw new ImportFault(
        'invalid_source',
        `${url.host} leads to another host, ${next.host}: give the address that it leads to`,
      );
    url = next;
  }
  throw new ImportFault('source_failed', `${url.host} redirects more than ${mostRedirects} times`);
}

function parsed(address: string, base?: URL): URL {
  const url = URL.parse(address, base?.href);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    throw new ImportFault('invalid_source', 'The address of the dump must begin with https://');
  if (url.username !== '' || url.password !== '')
    throw new ImportFault('invalid_source', 'The address of the dump must have no user and no password in it');
  return url;
}

/** The address that is connected to. @throws ImportFault if one of the addresses of the host may not be reached */
async function judged(
  { hostname, protocol }: URL,
  { allowed, resolve = addressesOf }: FetchOptions,
  signal: AbortSignal,
): Promise<string> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const isAllowed = networks(allowed);
  const found = await resolve(host, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new ImportFault('source_failed', `The name of the host is not known: ${host}`, { cause: error });
  });
  const refused = found.find((one) => {
    const reach = reachOf(one);
    return !((reach === 'public' && protocol === 'https:') || (reach !== 'own' && isAllowed(one)));
  });
  const [first] = found;
  if (first === undefined) throw new ImportFault('source_failed', `The host has no address: ${host}`);
  if (refused === undefined) return first;
  const reach = reachOf(refused);
  const why =
    reach === 'own'
      ? `its address ${refused} is not one of the network`
      : reach === 'private'
        ? `its address ${refused} is of a private network, which the operator of the server can allow by --import-networks`
        : 'that takes https';
  throw new ImportFault('invalid_source', `The dump may not be fetched from ${host}: ${why}`);
}

function ask(
  url: URL,
  { address, idleMs }: { address: string; idleMs: number },
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? https.request : requestByHttp;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: address,
        port: url.port === '' ? undefined : url.port,
        path: `${url.pathname}${url.search}`,
        headers: { host: url.host, accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'setpoint-agent' },
        agent: false,
        signal,
        timeout: idleMs,
        ...(url.protocol === 'https:' && isIP(host) === 0 && { servername: host }),
      },
      (answer) => {
        sent.off('timeout', late);
        resolve(answer);
      },
    );
    const late = (): void => void sent.destroy(silence(idleMs));
    sent.on('timeout', late);
    sent.on('error', (error) => reject(signal.aborted ? signal.reason : lost(url, error)));
    sent.end();
  });
}

function dumpIn(answer: IncomingMessage, idleMs: number, signal: AbortSignal): FetchedDump {
  const { 'content-length': length, 'transfer-encoding': encoding, 'content-encoding': content } = answer.headers;
  // without both, the end of the connection would be taken for that of the dump
  if (length === undefined && encoding === undefined) {
    answer.destroy();
    throw new ImportFault('source_failed', 'The host of the dump does not say how long it is');
  }
  if (content !== undefined && content !== 'identity') {
    answer.destroy();
    throw new ImportFault('source_failed', `The host of the dump sends it as ${content}, which was not asked for`);
  }
  answer.socket.on('timeout', () => answer.destroy(silence(idleMs)));
  const bytes = (async function* () {
    try {
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        // an engine that works on what it has read keeps the host waiting
        answer.socket.setTimeout(0);
        yield chunk;
        answer.socket.setTimeout(idleMs);
      }
    } catch (error) {
      signal.throwIfAborted();
      throw new ImportFault('source_failed', `The dump was cut off: ${messageOf(error)}`, { cause: error });
    }
  })();
  return { bytes, ...(length !== undefined && { size: Number(length) }) };
}

function silence(idleMs: number): Error {
  return new Error(`Nothing came for ${idleMs / 1000} s`);
}

function lost({ host }: URL, error: Error): ImportFault {
  return new ImportFault('source_failed', `${host} does not send the dump: ${messageOf(error)}`, { cause: error });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 200) : 'the connection failed';
}
