import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { createHttpServer, drain } from '../../api/http/http-server.ts';
import { systemClock } from '../../time/clock.ts';

it('closes without waiting for connections that somebody upgraded to another protocol', async () => {
  const server = createHttpServer(
    (_request, response) => void response.end(),
    () => ({ 'x-request-id': 'x' }),
  );
  const upgraded = Promise.withResolvers<Socket>();
  server.on('upgrade', (_request, socket) => upgraded.resolve(socket as Socket)); // of a TCP server
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const client = connect(port, '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  const socket = await upgraded.promise;

  await drain(server, 60_000, systemClock);

  expect(socket.destroyed).toBe(false);
  expect(server.listening).toBe(false);
  client.destroy();
  socket.destroy();
  await once(server, 'close');
});
