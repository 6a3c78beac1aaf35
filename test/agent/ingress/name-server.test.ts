import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { Resolver } from 'node:dns/promises';
import { expect, it } from 'vitest';
import { NameServer } from '../../../agent/ingress/name-server.ts';

function resolverOf(server: NameServer): Resolver {
  const resolver = new Resolver({ timeout: 2000, tries: 1 });
  resolver.setServers([`127.0.0.1:${server.port}`]);
  return resolver;
}

it('answers with the instances of a name, whose names say their addresses', async () => {
  const instances = [
    { address: '172.18.0.3', port: 8080 },
    { address: '172.18.0.14', port: 3000 },
  ];
  await using server = await NameServer.open(0, (name) => (name === 'a.host.setpoint' ? instances : undefined));
  const resolver = resolverOf(server);
  const found = await resolver.resolveSrv('A.host.setpoint');
  expect(found.map(({ name, port }) => [name, port])).toEqual([
    ['i-172-18-0-3.setpoint', 8080],
    ['i-172-18-0-14.setpoint', 3000],
  ]);
  expect(await resolver.resolve4('i-172-18-0-3.setpoint')).toEqual(['172.18.0.3']);
  await expect(resolver.resolveSrv('b.host.setpoint')).rejects.toThrow(/ENOTFOUND/);
  await expect(resolver.resolve4('i-999-1-1-1.setpoint')).rejects.toThrow(/ENOTFOUND/);
});

it('answers in one datagram however many instances there are', async () => {
  const instances = Array.from({ length: 100 }, (_, index) => ({ address: `172.18.100.${index}`, port: 8080 }));
  await using server = await NameServer.open(0, () => instances);
  const found = await resolverOf(server).resolveSrv('a.host.setpoint');
  expect(found.length).toBeGreaterThan(10);
});

it('lives through what is no question', async () => {
  await using server = await NameServer.open(0, () => [{ address: '127.0.0.1', port: 1 }]);
  const socket = createSocket('udp4');
  for (const junk of ['', 'x', '\0'.repeat(12), `${'\0'.repeat(5)}\u0001${'\0'.repeat(6)}\u003f${'a'.repeat(20)}`]) {
    socket.send(Buffer.from(junk, 'latin1'), server.port, '127.0.0.1');
  }
  expect(await resolverOf(server).resolveSrv('a.host.setpoint')).toHaveLength(1);
  socket.close();
  await once(socket, 'close');
});
