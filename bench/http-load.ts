import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { throughput } from './measure.ts';
import type { Throughput } from './measure.ts';

const headEnd = Buffer.from('\r\n\r\n');

export interface LoadRequest {
  method: string;
  path: string;
  /** Asked for in place of the host of the address. */
  host?: string;
  token?: string;
  body?: string;
}

/**
 * One client on one connection that is kept alive. It reads only the length of an answer, so that the server gets as
 * much of the machine as possible.
 */
class LoadClient {
  readonly #host: string;
  readonly #port: number;
  #socket: Socket | undefined;
  #waiting: PromiseWithResolvers<void> | undefined;
  #head: Buffer | undefined;
  /** Bytes of the body that have not come yet. */
  #left = 0;
  #closes = false;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#host = hostname;
    this.#port = Number(port);
  }

  /** @throws Error for a status of 400 and above */
  async send({ method, path, host = this.#host, token, body }: LoadRequest): Promise<void> {
    const socket = this.#socket ?? (await this.#connect());
    const lines = [`${method} ${path} HTTP/1.1`, `host: ${host}`];
    if (token !== undefined) lines.push(`authorization: Bearer ${token}`);
    if (body !== undefined) lines.push('content-type: application/json', `content-length: ${Buffer.byteLength(body)}`);
    this.#waiting = Promise.withResolvers();
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body ?? ''}`);
    await this.#waiting.promise;
  }

  close(): void {
    this.#socket?.destroy();
  }

  async #connect(): Promise<Socket> {
    const socket = connect({
      port: this.#port,
      host: this.#host,
      noDelay: true,
      // One buffer for all input: the client must cost little compared to the server.
      onread: {
        buffer: Buffer.alloc(256 * 1024),
        callback: (length, buffer) => {
          this.#read(Buffer.from(buffer.buffer, buffer.byteOffset, length));
          return true;
        },
      },
    });
    await once(socket, 'connect');
    const fail = (error: Error): void => {
      if (this.#socket === socket) this.#waiting?.reject(error);
    };
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('The server closed the connection')));
    this.#socket = socket;
    return socket;
  }

  #read(data: Buffer): void {
    if (this.#left > 0) {
      this.#left -= data.length;
      this.#endIfComplete();
      return;
    }
    const all = this.#head === undefined ? data : Buffer.concat([this.#head, data]);
    const at = all.indexOf(headEnd);
    if (at < 0) {
      this.#head = Buffer.from(all);
      return;
    }
    this.#head = undefined;
    const head = all.toString('latin1', 0, at).toLowerCase();
    const status = Number(head.slice(9, 12));
    if (status >= 400) this.#waiting?.reject(new Error(`Answered ${status}: ${all.toString()}`));
    this.#closes = head.includes('\nconnection: close');
    this.#left = Number(/\ncontent-length: (\d+)/.exec(head)?.[1] ?? 0) - (all.length - at - headEnd.length);
    this.#endIfComplete();
  }

  #endIfComplete(): void {
    if (this.#left > 0) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (this.#closes) {
      this.#socket?.destroy();
      this.#socket = undefined;
    }
    waiting?.resolve();
  }
}

/** Measures the throughput of a server with `clients` clients. Each sends its next request after the last answer. */
export async function load(
  url: string,
  clients: number,
  request: (client: number) => LoadRequest,
  ms?: number,
): Promise<Throughput> {
  const connections = Array.from({ length: clients }, () => new LoadClient(url));
  try {
    return await throughput((client) => connections[client]?.send(request(client)) ?? Promise.resolve(), clients, ms);
  } finally {
    for (const connection of connections) connection.close();
  }
}
