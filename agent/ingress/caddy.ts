import type { IncomingMessage, Server } from 'node:http';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { createServer, request } from '../../agent-protocol/node-http.ts';
import type { AgentPorts } from './config.ts';
import { NameServer } from './name-server.ts';
import { openNameSocket } from './name-socket.ts';
import type { Proxy, ProxySockets, ShownCertificate } from './proxy.ts';
import { Refused } from './proxy.ts';

const loopback = '127.0.0.1';
const mostAnswerBytes = 16 * 1024 * 1024;

/** Caddy, and the agent for it, at these sockets. */
export function caddy({ admin, names: namesPath }: ProxySockets): Proxy {
  return {
    async serve(asked, wanted) {
      await using stack = new AsyncDisposableStack();
      // a name without an instance leads here, so that the proxy keeps no instance of before
      const absent = await listen(0, answerUnavailable, stack);
      const asks = await listen(wanted?.asks ?? 0, (url) => (asked.isEncrypted(hostAsked(url)) ? 200 : 404), stack);
      const backends = (name: string) => {
        const found = asked.backends(name);
        return found?.length === 0 ? [{ address: loopback, port: absent }] : found;
      };
      const open = (port: number) => NameServer.open(port, backends);
      const names = stack.use(await open(wanted?.names ?? 0).catch(() => open(0)));
      stack.use(await openNameSocket(namesPath, backends));
      const owned = stack.move();
      const ports: AgentPorts = { names: names.port, asks };
      return { ports, [Symbol.asyncDispose]: () => owned.disposeAsync() };
    },
    async config(signal) {
      const { status, body } = await ask(admin, { method: 'GET', path: '/config/' }, signal);
      if (status !== 200) throw new Error(`The proxy answered ${status}`);
      return JSON.parse(body);
    },
    async load(config, signal) {
      const body = JSON.stringify(config);
      const answer = await ask(admin, { method: 'POST', path: '/load', body }, signal);
      if (answer.status === 400) throw new Refused(answer.body.slice(0, 500));
      if (answer.status !== 200) throw new Error(`The proxy answered ${answer.status}: ${answer.body.slice(0, 500)}`);
    },
    certificate,
  };
}

function hostAsked(url: string): string {
  return new URL(url, 'http://agent').searchParams.get('domain')?.toLowerCase() ?? '';
}

function answerUnavailable(): number {
  return 503;
}

/** Answers each request with a status. Resolves with the port: another one if that is taken. */
async function listen(port: number, statusOf: (url: string) => number, stack: AsyncDisposableStack): Promise<number> {
  const server: Server = createServer((incoming, outgoing) => {
    const status = statusOf(incoming.url ?? '/');
    const body = status === 503 ? 'No instance of the application is ready.\n' : '';
    outgoing.writeHead(status, { connection: 'close', 'cache-control': 'no-store' }).end(body);
    incoming.resume();
  });
  server.listen(port, loopback);
  try {
    await once(server, 'listening');
  } catch (error) {
    if (port === 0) throw error;
    return listen(0, statusOf, stack);
  }
  server.unref();
  stack.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

interface Call {
  method: 'GET' | 'POST';
  path: string;
  body?: string;
}

function ask(
  socketPath: string,
  { body, ...call }: Call,
  signal: AbortSignal,
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'agent', ...(body !== undefined && { 'content-type': 'application/json' }) };
    const outgoing = request({ socketPath, ...call, headers, signal });
    outgoing.on('error', reject);
    outgoing.on('response', (answer: IncomingMessage) => {
      textOf(answer).then((text) => resolve({ status: answer.statusCode ?? 0, body: text }), reject);
    });
    outgoing.end(body);
  });
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer) {
    const chunk = Buffer.from(part as Uint8Array); // a stream without an encoding yields bytes
    bytes += chunk.length;
    if (bytes > mostAnswerBytes) throw new Error('The answer of the proxy is too long');
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString();
}

function certificate(host: string, port: number, signal: AbortSignal): Promise<ShownCertificate> {
  return new Promise((resolve) => {
    // it is read, not relied upon
    const socket = connect({ host: loopback, port, servername: host, rejectUnauthorized: false });
    const end = (result: ShownCertificate): void => {
      signal.removeEventListener('abort', abort);
      socket.destroy();
      resolve(result);
    };
    const abort = (): void => end({ host, error: 'The proxy did not get it in time' });
    signal.addEventListener('abort', abort, { once: true });
    socket.on('error', (error) => end({ host, error: reasonOf(error) }));
    socket.on('secureConnect', () => {
      const { issuer, valid_from, valid_to } = socket.getPeerCertificate();
      const names = issuer as Readonly<Record<string, string | string[] | undefined>>; // each field may be absent
      const name = [names['O'] ?? names['CN'] ?? 'unknown'].flat().join(', ');
      const [begins_at, expires_at] = [valid_from, valid_to].map((time) => new Date(time).toISOString());
      end({ host, issuer: name.slice(0, 200), ...(begins_at && { begins_at }), ...(expires_at && { expires_at }) });
    });
  });
}

/** The reason without what differs each time, such as addresses in memory. */
function reasonOf(error: Error): string {
  return /alert internal error/i.test(error.message)
    ? 'The proxy has none'
    : error.message
        .replace(/^.*?:SSL/, 'SSL')
        .trim()
        .slice(0, 200);
}
