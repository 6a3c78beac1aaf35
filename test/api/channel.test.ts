import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { Channel } from '../../api/streams/channel.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { until } from '../harness/until.ts';
import { within } from '../harness/within.ts';

let sockets: WebSocketServer;
let user: WebSocket;
let socket: WebSocket;

beforeEach(async () => {
  sockets = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(sockets, 'listening');
  const { port } = sockets.address() as AddressInfo; // a TCP server has such an address
  user = new WebSocket(`ws://127.0.0.1:${port}`);
  user.on('error', () => undefined);
  const open = once(user, 'open');
  [socket] = (await once(sockets, 'connection')) as [WebSocket]; // ws names it so
  await open;
});

afterEach(() => {
  user.terminate();
  socket.terminate();
  sockets.close();
});

describe('a channel whose reader sends too much', () => {
  it.each([
    ['empty messages', 0],
    ['messages of a byte', 1],
  ])('holds a bounded number of %s that nothing takes, and then all of them come', async (_what, size) => {
    const channel = new Channel(socket, new FakeClock(), { reads: true });
    const count = 100_000;
    for (let n = 0; n < count; n++) user.send(Buffer.alloc(size));
    await until('the socket is not read any more', async () => socket.isPaused);
    let taken = 0;
    for await (const _message of channel.messages()) if (++taken === count) break;
    expect(taken).toBe(count);
    channel.close(1000, 'Test ends');
  });

  it.each([
    ['pings', (it: WebSocket) => it.ping(), false],
    ['pongs', (it: WebSocket) => it.pong(), false],
    ['pings to a stream that reads', (it: WebSocket) => it.ping(), true],
    ['pongs to a stream that reads', (it: WebSocket) => it.pong(), true],
  ])('ends: %s', async (_what, send, reads) => {
    const channel = new Channel(socket, new FakeClock(), { reads });
    const closed = once(user, 'close');
    for (let n = 0; n < 150; n++) {
      send(user);
      if (n % 10 === 0) await settle(5);
    }
    const [code] = (await within('it is closed', closed)) as [number];
    expect(code).toBe(4429);
    expect(channel.signal.aborted).toBe(true);
  });
});
