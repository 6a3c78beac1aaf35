import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { mostTunnels, Tunnels } from '../../agent/tunnels.ts';
import type { TunnelsDeps } from '../../agent/tunnels.ts';
import { systemClock } from '../../time/clock.ts';
import { freePort } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { service } from './agent-world.ts';

let server: Server;
let port: number;
/** Connections that the instance took, oldest first. */
let taken: Socket[];

beforeEach(async () => {
  taken = [];
  server = createServer({ allowHalfOpen: true }, (socket) => {
    taken.push(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterEach(async () => {
  for (const socket of taken) socket.destroy();
  server.close();
});

/** Tunnels of an agent with one instance, whose container has the address of this process. */
function tunnels(to = port, state = 'running'): { item: WireAssignment; tunnels: Tunnels } {
  const item = service({}, { networks: [{ name: 'own', aliases: [] }], ports: [{ name: 'main', port: to }] });
  const actual = { container: { id: 'c', state }, detail: { addresses: { own: '127.0.0.1' } }, origin: 'own' };
  const observer = { of: (id: string) => (id === item.id ? [actual] : []) } as unknown as TunnelsDeps['observer'];
  const desired = { get: (id: string) => (id === item.id ? item : undefined) };
  return { item, tunnels: new Tunnels({ observer, desired, clock: systemClock }) };
}

/** A client of a tunnel. */
function client({ item, tunnels: all }: ReturnType<typeof tunnels>, assignment = item.id) {
  const stop = new AbortController();
  const waiting: (Buffer | undefined)[] = [];
  let wake = Promise.withResolvers<void>();
  const push = (it: Buffer | undefined): void => {
    waiting.push(it);
    wake.resolve();
  };
  async function* incoming(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (waiting.length === 0) {
        await wake.promise;
        wake = Promise.withResolvers();
        continue;
      }
      const next = waiting.shift();
      if (next === undefined) return;
      yield next;
    }
  }
  const read: Buffer[] = [];
  const over = (async () => {
    for await (const data of all.open({ kind: 'tunnel', assignment }, incoming(), stop.signal))
      read.push(Buffer.from(data));
  })();
  over.catch(() => undefined);
  return {
    over,
    stop,
    text: () => Buffer.concat(read).toString(),
    send: (data: string | Buffer) => push(Buffer.from(data)),
    end: () => push(undefined),
  };
}

const takes = async (count: number): Promise<Socket> => {
  await until(`it took ${count}`, async () => taken.length === count);
  return taken[count - 1]!;
};

describe('a tunnel', () => {
  test('passes bytes both ways, as they are, until the instance ends the connection', async () => {
    const it = client(tunnels());
    const socket = await takes(1);
    const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, n) => (n * 7) % 256));
    let got = 0;
    let isSame = true;
    socket.on('data', (data: Buffer) => {
      isSame &&= data.equals(bytes.subarray(got, got + data.length));
      got += data.length;
    });
    it.send(bytes);
    await until('all came', async () => got === bytes.length);
    expect(isSame).toBe(true);
    socket.end('and back');
    await it.over;
    expect(it.text()).toBe('and back');
    await until('the other direction is over', async () => socket.destroyed || socket.readableEnded);
  });

  test('ends only one direction when the client has no more to send', async () => {
    const it = client(tunnels());
    const socket = await takes(1);
    socket.resume();
    it.send('question');
    it.end();
    await once(socket, 'end');
    socket.end('answer');
    await it.over;
    expect(it.text()).toBe('answer');
  });

  test('ends with its signal', async () => {
    const it = client(tunnels());
    const socket = await takes(1);
    socket.resume();
    const ended = once(socket, 'end');
    it.stop.abort(new Error('left'));
    await expect(it.over).rejects.toThrow('left');
    await ended;
  });

  test('says that the instance cut it', async () => {
    const it = client(tunnels());
    (await takes(1)).resetAndDestroy();
    await expect(it.over).rejects.toMatchObject({ code: 'cut' });
  });

  test('is refused where nothing runs, nothing listens, or too many are open', async () => {
    const all = tunnels();
    await expect(client(all, crypto.randomUUID()).over).rejects.toMatchObject({ code: 'not_running' });
    await expect(client(tunnels(port, 'exited')).over).rejects.toMatchObject({ code: 'not_running' });
    await expect(client(tunnels(await freePort())).over).rejects.toMatchObject({ code: 'not_reachable' });
    const open = Array.from({ length: mostTunnels }, () => client(all));
    await takes(mostTunnels);
    await expect(client(all).over).rejects.toMatchObject({ code: 'too_many' });
    open[0]?.stop.abort(new Error('left'));
    await open[0]?.over.catch(() => undefined);
    const next = client(all);
    await takes(mostTunnels + 1);
    for (const one of [...open, next]) one.stop.abort();
  });
});
