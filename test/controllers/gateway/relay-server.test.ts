import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { ControlSession } from '../../../agent-protocol/control-session.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { relayCall, relayStream } from '../../../controllers/gateway/relay-client.ts';
import { RelayServer } from '../../../controllers/gateway/relay-server.ts';
import { systemClock } from '../../../time/clock.ts';
import { until } from '../../harness/until.ts';

test('a replica whose places for streams of others are taken still passes their calls on', async () => {
  const clusterKey = randomBytes(32);
  let served = 0;
  const session = {
    isUp: true,
    call: () => Promise.resolve('here'),
    async *stream(_: unknown, signal: AbortSignal) {
      served++;
      yield Buffer.from('open');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    },
  } as unknown as ControlSession; // all that the relay uses of one
  const http = createServer().listen(0, '127.0.0.1');
  await once(http, 'listening');
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const local = {
    sessionOf: () => session,
    roundTripOf: () => undefined,
    opened: (_t: string, _s: string, it: never) => it,
  };
  const relay = new RelayServer({ clock: systemClock, log: pino({ level: 'silent' }), clusterKey, url, local });
  http.on('upgrade', (request, socket, head) => relay.handleUpgrade(request, socket, head, '127.0.0.1'));
  const leave = new AbortController();
  const { signal } = leave;
  const target = { url, clusterKey, clock: systemClock, tenant: 'acme', server: 's' };
  const read = (): Promise<unknown> => relayStream(target, { kind: 'metrics' }, undefined, signal).next();
  const reading = Array.from({ length: limits.relay.streams }, read);
  await until('all are served', async () => served === limits.relay.streams);
  await expect(read()).rejects.toMatchObject({ code: 'too_many' });
  await expect(relayCall(target, { method: 'ping' }, 5000, signal)).resolves.toBe('here');
  await Promise.all(reading);
  leave.abort(new Error('The test is over'));
  await relay[Symbol.asyncDispose]();
  http.closeAllConnections();
  http.close();
});
