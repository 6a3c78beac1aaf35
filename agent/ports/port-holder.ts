import { createServer, type Server } from 'node:net';
import { userOfPort } from '../machine/listeners.ts';
import type { PortProblem } from './port-publisher.ts';
import { unheldPort } from './port-problems.ts';

/**
 * Holds ports of this machine by listening sockets: no other program can take them, and it shows if one already has. A
 * connection that arrives here was led to no instance: it is reset.
 */
export class PortHolder implements AsyncDisposable {
  readonly #servers = new Map<number, Server>();

  /** Holds the port. Returns why that failed; `undefined`: it is held. */
  async hold(port: number): Promise<PortProblem | undefined> {
    if (this.#servers.has(port)) return undefined;
    const server = createServer((socket) => void socket.resetAndDestroy());
    const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
      server.once('error', resolve);
      server.listen({ port, host: '0.0.0.0', exclusive: true }, () => resolve(undefined));
    });
    if (error !== undefined)
      return unheldPort(port, error.code, error.code === 'EADDRINUSE' ? await userOfPort(port) : undefined);
    server.on('error', () => undefined); // a connection that could not be accepted
    server.unref();
    this.#servers.set(port, server);
    return undefined;
  }

  async release(port: number): Promise<void> {
    const server = this.#servers.get(port);
    this.#servers.delete(port);
    if (server) await new Promise((resolve) => server.close(resolve));
  }

  get ports(): number[] {
    return [...this.#servers.keys()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const port of this.ports) await this.release(port);
  }
}
