import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { connections, openConnections } from '../../../agent/runtime/docker/connections.ts';

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
