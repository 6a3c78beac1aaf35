import { request as requestTls } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';

// An `import` of it loads the client behind the global `WebSocket`, too, which is not used.
const { request: requestPlain } = process.getBuiltinModule('node:http');

const askMs = 10_000;
const maxHeaderBytes = 64 * 1024;

/** Where a registry is asked: the URL of its host, and the address that is connected to. */
export interface Origin {
  url: URL;
  address: string;
}

export interface Answer {
  status: number;
  challenge: string | undefined;
}

/** One request to exactly that address. Follows no redirect, and does not read the body. @throws Error without an answer */
export function askRegistry(
  { url, address }: Origin,
  path: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Answer> {
  const family = isIP(address);
  const pinned: LookupFunction = (_name, options, found) => {
    if (options.all === true) found(null, [{ address, family }]);
    else found(null, address, family);
  };
  const isTls = url.protocol === 'https:';
  const send = isTls ? requestTls : requestPlain;
  return new Promise((resolve, reject) => {
    const outgoing = send({
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: url.port === '' ? (isTls ? 443 : 80) : url.port,
      path,
      lookup: pinned,
      agent: false,
      headers: { host: url.host, ...headers },
      maxHeaderSize: maxHeaderBytes,
      signal: AbortSignal.any([signal, AbortSignal.timeout(askMs)]),
    });
    outgoing.on('error', reject);
    outgoing.on('response', (answer) => {
      answer.destroy();
      resolve({ status: answer.statusCode ?? 0, challenge: answer.headers['www-authenticate'] });
    });
    outgoing.end();
  });
}
