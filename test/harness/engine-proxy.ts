import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { engineSocket } from './docker.ts';

/** The real engine behind a socket of its own, so that one agent can lose it while it goes on for all others. */
export class EngineProxy implements AsyncDisposable {
  readonly path: string;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  /** Closed at first: there is no such socket. */
  constructor(path: string) {
    this.path = path;
  }

  async open(): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (client) => this.#join(client)).listen(this.path);
    await once(server, 'listening');
    this.#server = server;
  }

  /** As when the engine ends: what is connected is cut, and the socket goes away. */
  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = once(server, 'close');
    server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    await rm(this.path, { force: true });
  }

  #join(client: Socket): void {
    const upstream = connect({ path: engineSocket, allowHalfOpen: true });
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        end();
      });
    }
    client.pipe(upstream);
    upstream.pipe(client);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
