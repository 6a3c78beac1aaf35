import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { createServer } from 'node:net';
import type { Backends } from './name-server.ts';
import { responseTo } from './name-server.ts';

/**
 * The kernel lets one more connection wait until it is accepted, and refuses every other at once: a proxy that asks an
 * agent that is frozen waits for two of its questions only. It asks one at a time, so that none is refused otherwise.
 */
const backlog = 1;
/** The proxy gives a question up after a second. */
const mostMs = 2_000;

/**
 * Answers the proxy which instances it may choose, on a socket at that path. Each connection has one question and its
 * answer, as datagrams have them: without their length before them. Replaces a socket that a killed agent left.
 *
 * @throws Error if there can be no socket at that path
 */
export async function openNameSocket(path: string, backends: Backends): Promise<AsyncDisposable> {
  const connections = new Set<Socket>();
  const server = createServer((connection) => {
    connections.add(connection);
    connection.on('close', () => connections.delete(connection));
    connection.on('error', () => connection.destroy()); // the proxy went away, and asks again
    connection.setTimeout(mostMs, () => connection.destroy());
    connection.once('data', (query: Buffer) => {
      const response = responseTo(query, backends);
      if (response === undefined) connection.destroy();
      else connection.end(response);
    });
  });
  await rm(path, { force: true });
  server.listen({ path, backlog });
  await once(server, 'listening');
  return {
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      for (const connection of connections) connection.destroy();
      await closed;
    },
  };
}
