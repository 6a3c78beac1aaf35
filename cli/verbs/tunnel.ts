import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';

const Address = z.object({ internal_connection_string: z.string() });
const Frame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready') }),
  z.object({ type: z.literal('error'), message: z.string() }),
]);

/** Most bytes in one message, which the control plane takes at once. */
const messageBytes = 32 * 1024;
/** Bytes that may wait for the control plane before the program is not read any more. */
const waitingBytes = 256 * 1024;

/**
 * Listens on a port of this machine and leads each connection to a database, through the control plane and the agent of its
 * server, until the signal aborts. Prints the address that programs take.
 */
export async function connectDatabase(
  client: Client,
  name: string,
  { project, port = 0 }: { project?: string; port?: number },
  signal: AbortSignal,
): Promise<void> {
  const it = await findObject(client, 'databases', name, project);
  const credentials = Address.parse(await client.request('GET', `${pathOf('databases', it)}/credentials`));
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    socket.on('error', () => socket.destroy());
    lead(client, it.id, socket).catch((error: unknown) => {
      console.error(error instanceof Error ? error.message : String(error));
      socket.destroy();
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening', { signal });
  const local = server.address() as AddressInfo; // it listens on a port, not on a path
  const address = new URL(credentials.internal_connection_string);
  address.hostname = '127.0.0.1';
  address.port = String(local.port);
  console.log(address.href);
  console.error(`database ${name} is reached by this address until Ctrl-C`);
  if (!signal.aborted) await once(signal, 'abort');
  server.close();
  for (const socket of open) socket.destroy();
}

/** Joins a connection of a program with the database, until both directions are over. @throws Error why it is not */
async function lead(client: Client, id: string, socket: Socket): Promise<void> {
  const tunnel = await client.socket(`/ws/databases/${id}/tunnel`, {});
  socket.once('close', () => tunnel.terminate());
  if (socket.destroyed) return tunnel.terminate();
  const ended = endOf(tunnel, socket);
  tunnel.resume();
  await ended;
  socket.end();
}

/** Resolves when the database ended the connection. @throws Error as the control plane says, or if it was lost */
function endOf(tunnel: WebSocket, socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let fault: string | undefined;
    let isReady = false;
    const sent = (): void => {
      if (isReady && tunnel.bufferedAmount <= waitingBytes) socket.resume();
    };
    socket.on('data', (data: Buffer) => {
      for (let at = 0; at < data.length; at += messageBytes)
        tunnel.send(data.subarray(at, at + messageBytes), { binary: true }, sent);
      if (tunnel.bufferedAmount > waitingBytes) socket.pause();
    });
    socket.once('end', () => tunnel.send(JSON.stringify({ type: 'end' }), () => undefined));
    tunnel.on('message', (data: Buffer, isBinary) => {
      if (isBinary) {
        if (!socket.write(data)) {
          tunnel.pause();
          socket.once('drain', () => tunnel.resume());
        }
        return;
      }
      const frame = Frame.safeParse(JSON.parse(data.toString()));
      if (!frame.success) return;
      if (frame.data.type === 'error') fault = frame.data.message;
      else {
        isReady = true;
        socket.resume();
      }
    });
    tunnel.on('error', (error) => (fault ??= error.message));
    tunnel.on('close', (code) => {
      if (socket.destroyed || (fault === undefined && isReady && code === 1000)) resolve();
      else reject(new Error(fault ?? `The connection to the control plane was lost (${code})`));
    });
  });
}
