import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { connections, listeners, listenersIn, openConnections } from '../../../agent/runtime/docker/connections.ts';

const line = (local: string, remote: string, state: string): string =>
  `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0`;
const any = '00000000:1F90';
const outside = '050011AC:D431';

test.each([
  ['an established one', [line(any, '00000000:0000', '0A'), line('020011AC:1F90', outside, '01')], 1],
  ['one whose answer is still on its way', [line(any, '00000000:0000', '0A'), line('020011AC:1F90', outside, '04')], 1],
  ['one that is over', [line(any, '00000000:0000', '0A'), line('020011AC:1F90', outside, '06')], 0],
  ['one that the container itself made', [line(any, '00000000:0000', '0A'), line('020011AC:D431', outside, '01')], 0],
  ['one of its own processes', [line(any, '00000000:0000', '0A'), line('0100007F:1F90', '0100007F:D431', '01')], 0],
  [
    'one over IPv4 to a socket of IPv6',
    [
      line('00000000000000000000000000000000:1F90', '00000000000000000000000000000000:0000', '0A'),
      line('0000000000000000FFFF0000020011AC:1F90', '0000000000000000FFFF0000050011AC:D431', '01'),
      line('0000000000000000FFFF00000100007F:1F90', '0000000000000000FFFF00000100007F:D431', '01'),
    ],
    1,
  ],
  ['what is no table', ['  sl  local_address rem_address   st', 'x', ''], 0],
])('%s counts as it should', (_, lines, count) => {
  expect(openConnections(lines.join('\n'))).toBe(count);
});

test('where programs listen is read from the table, without the name server of the engine', () => {
  const none = '00000000:0000';
  const lines = [
    line(any, none, '0A'),
    line('0100007F:0BB8', none, '0A'),
    line('0B00007F:A3C1', none, '0A'),
    line('020011AC:1F90', outside, '01'),
    line('00000000000000000000000000000000:0050', none, '0A'),
    line('00000000000000000000000001000000:0051', none, '0A'),
    line('0000000000000000FFFF00000100007F:0052', none, '0A'),
    line('nonsense:0052', none, '0A'),
  ];
  expect(listenersIn(lines.join('\n'))).toEqual([
    { address: '0.0.0.0', port: 8080 },
    { address: '127.0.0.1', port: 3000 },
    { address: '::', port: 80 },
    { address: '::1', port: 81 },
    { address: '::ffff:127.0.0.1', port: 82 },
  ]);
});

test('a process listens where the kernel shows it; of one that is gone nothing is known', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const signal = AbortSignal.timeout(5_000);
  expect(await listeners({ id: 'x', pid: process.pid }, signal)).toContainEqual({ address: '127.0.0.1', port });
  expect(await listeners({ id: 'x', pid: 0 }, signal)).toBeUndefined();
  expect(await listeners({ id: 'x', pid: 2 ** 22 + 1 }, signal)).toBeUndefined();
  server.close();
});

test('a process has the connections that the kernel shows, without those to itself', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port);
  await once(client, 'connect');
  const signal = AbortSignal.timeout(5_000);
  expect(await connections({ id: 'x', pid: process.pid }, signal)).toBeTypeOf('number');
  expect(await connections({ id: 'x', pid: 0 }, signal)).toBe(0);
  expect(await connections({ id: 'x', pid: 2 ** 22 + 1 }, signal)).toBe(0);
  client.destroy();
  server.close();
});
