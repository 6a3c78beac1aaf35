import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:http2';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent as TlsAgent, request as requestTls } from 'node:https';
import type { ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

/** An answer, with the text that it has. */
export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

interface Asking {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Keeps its connection for further requests. */
  agent?: Agent;
}

/** Sends a request for a host to a port of this machine, whatever its name leads to. */
export function askHost(
  address: `${'http' | 'https'}://${string}`,
  port: number,
  asking: Asking = {},
): Promise<Answer> {
  const url = new URL(address);
  const { method = 'GET', headers = {}, body, agent } = asking;
  const common = {
    host: '127.0.0.1',
    port,
    method,
    path: url.pathname + url.search,
    headers: { host: url.hostname, ...headers },
    timeout: 20_000,
    ...(agent !== undefined && { agent }),
  };
  return new Promise((resolve, reject) => {
    const tls = { ...common, servername: url.hostname, rejectUnauthorized: false };
    const outgoing: ClientRequest = url.protocol === 'https:' ? requestTls(tls) : request(common);
    outgoing.on('error', reject);
    outgoing.on('timeout', () => outgoing.destroy(new Error('No answer within 20 s')));
    outgoing.on('response', (answer: IncomingMessage) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part: string) => (text += part));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }));
    });
    outgoing.end(body);
  });
}

/** Between two requests of a client: clients that never pause take the processor from what they ask. */
const pauseMs = 10;

/** Clients that send requests one after another until they are told to stop. */
export class Load {
  #isStopped = false;
  #count = 0;
  readonly #failures: string[] = [];
  readonly #clients: Promise<void>[];

  constructor(address: `${'http' | 'https'}://${string}`, port: number, clients: number) {
    const Kind = address.startsWith('https:') ? TlsAgent : Agent;
    this.#clients = Array.from({ length: clients }, async () => {
      const agent = new Kind({ keepAlive: true, maxSockets: 1 });
      while (!this.#isStopped) {
        try {
          const { status } = await askHost(address, port, { agent });
          if (status !== 200) this.#failures.push(`status ${status}`);
        } catch (error) {
          this.#failures.push(String(error));
        }
        this.#count += 1;
        await delay(pauseMs);
      }
      agent.destroy();
    });
  }

  /** Requests so far. */
  get count(): number {
    return this.#count;
  }

  async stop(): Promise<{ count: number; failures: readonly string[] }> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
    return { count: this.#count, failures: this.#failures };
  }
}

/** Requests one after another on one connection of HTTP/2, as long as it is kept, until it is told to stop. */
export class Http2Load {
  #isStopped = false;
  #count = 0;
  readonly #failures: string[] = [];
  readonly #client: Promise<void>;

  constructor(address: `https://${string}`, port: number) {
    this.#client = this.#run(new URL(address).hostname, port);
  }

  async stop(): Promise<{ count: number; failures: readonly string[] }> {
    this.#isStopped = true;
    await this.#client;
    return { count: this.#count, failures: this.#failures };
  }

  async #run(host: string, port: number): Promise<void> {
    const session = connect(`https://127.0.0.1:${port}`, { servername: host, rejectUnauthorized: false });
    session.on('error', (error) => this.#failures.push(String(error)));
    while (!this.#isStopped && this.#failures.length === 0) {
      try {
        const stream = session.request({ ':path': '/', ':authority': host });
        const [headers] = (await once(stream, 'response')) as [{ ':status'?: number }]; // what the event has
        stream.resume();
        await once(stream, 'end');
        if (headers[':status'] !== 200) this.#failures.push(`status ${headers[':status']}`);
      } catch (error) {
        this.#failures.push(String(error));
      }
      this.#count += 1;
    }
    session.close();
  }
}

/** The socket of a WebSocket of a host, after its handshake. */
export async function upgraded(host: string, port: number): Promise<Duplex> {
  const headers = { host, connection: 'Upgrade', upgrade: 'websocket' };
  const outgoing = requestTls({ host: '127.0.0.1', port, servername: host, rejectUnauthorized: false, headers });
  outgoing.end();
  const [, socket] = (await once(outgoing, 'upgrade')) as [IncomingMessage, Duplex]; // what the event has
  socket.on('error', () => socket.destroy());
  return socket;
}

/** Sends a text and resolves with what comes back. */
export async function echoed(socket: Duplex, text: string): Promise<string> {
  socket.write(text);
  const [answer] = (await once(socket, 'data')) as [Buffer]; // what the event has
  return answer.toString();
}
