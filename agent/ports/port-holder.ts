import { createServer, type Server } from 'node:net';
import type { PortProblem } from '../publication.ts';
import { unheldPort } from './port-problems.ts';

/**
 * Holds ports of this machine with listening sockets, so that no other program takes them and that it shows when one
 * has. Connections that get as far as here found no instance: they are reset.
 */
export class PortHolder implements AsyncDisposable {
  readonly #servers = new Map<number, Server>();

  /** @returns why it cannot be had; `undefined`: it is held. */
  async hold(port: number): Promise<PortProblem | undefined> {
    if (this.#servers.has(port)) return undefined;
    const server = createServer((socket) => void socket.resetAndDestroy());
    const problem = await new Promise<PortProblem | undefined>((resolve) => {
      server.once('error', (error: NodeJS.ErrnoException) => resolve(unheldPort(port, error.code)));
      server.listen({ port, host: '0.0.0.0', exclusive: true }, () => resolve(undefined));
    });
    if (problem !== undefined) return problem;
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
