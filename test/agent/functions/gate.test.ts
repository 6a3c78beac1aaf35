import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { drainMs, machineGate } from '../../../agent/functions/gate.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function connected(port: number, request: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(request);
  return socket;
}

const upgrade = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

describe('a port of a function', () => {
  it('refuses a WebSocket, and is closed even if who asked for it keeps the connection', async () => {
    const clock = new FakeClock();
    const port = await freePort();
    const gate = await machineGate(clock).open(port, { call: () => new Promise(() => undefined) });
    const held = await connected(port, upgrade);
    expect(await text(held)).toMatch(/^HTTP\/1\.1 501 /);
    // leaves before it is answered
    (await connected(port, upgrade)).resetAndDestroy();
    await gate[Symbol.asyncDispose]();
    held.destroy();
  });

  it('ends what is under way once its time is over', async () => {
    const clock = new FakeClock();
    const port = await freePort();
    const begun = Promise.withResolvers<void>();
    const gate = await machineGate(clock).open(port, {
      call: () => {
        begun.resolve();
        return new Promise(() => undefined);
      },
    });
    const busy = await connected(port, 'GET / HTTP/1.1\r\nHost: h\r\n\r\n');
    await begun.promise;
    const closed = gate[Symbol.asyncDispose]();
    await clock.advance(drainMs);
    await closed;
    busy.destroy();
  });
});
