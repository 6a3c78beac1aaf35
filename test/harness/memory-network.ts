import type { Server } from 'node:http';
import { duplexPair } from 'node:stream';
import type { Duplex } from 'node:stream';

/** Connections in memory to HTTP servers that listen nowhere: bytes arrive without a turn of the event loop between. */
export class MemoryNetwork {
  /** Servers that take connections; a new one goes to the first that is there. */
  readonly #servers: Server[] = [];
  readonly #connections = new Map<Server, Set<readonly [Duplex, Duplex]>>();

  attach(server: Server): void {
    this.#servers.push(server);
    this.#connections.set(server, new Set());
  }

  /** The server takes no connection any more; those it has go on. */
  detach(server: Server): void {
    const at = this.#servers.indexOf(server);
    if (at >= 0) this.#servers.splice(at, 1);
  }

  /** Breaks the connections of a server as the death of its process does. */
  cut(server: Server): void {
    for (const connection of this.#connections.get(server) ?? []) breakUp(connection);
  }

  /**
   * The near end of a new connection; fails a moment later, as a real one, if no server takes it. It breaks when the
   * process that dials dies.
   */
  dial(death?: AbortSignal): Duplex {
    return this.dialTo(this.#servers[0], death);
  }

  /** A connection to one server, which takes it once it is awake. */
  dialTo(server: Server | undefined, death?: AbortSignal, awake?: Promise<void>): Duplex {
    const [near, far] = duplexPair();
    if (server === undefined) {
      process.nextTick(() => near.destroy(new Error('connect ECONNREFUSED')));
      return near;
    }
    const connection = [near, far] as const;
    const open = this.#connections.get(server);
    open?.add(connection);
    const die = (): void => breakUp(connection);
    death?.addEventListener('abort', die, { once: true });
    far.once('close', () => {
      open?.delete(connection);
      death?.removeEventListener('abort', die);
    });
    const take = (): void => {
      if (!far.destroyed) server.emit('connection', Object.assign(far, { remoteAddress: '192.0.2.1' }));
    };
    if (awake === undefined) take();
    else void awake.then(take);
    return near;
  }
}

function breakUp([near, far]: readonly [Duplex, Duplex]): void {
  for (const end of [near, far]) end.destroy(new Error('read ECONNRESET'));
}
