import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

/** A proxy that serves a server below a path, which it takes off, with WebSockets, as an installation may have before it. */
export interface PathProxy extends AsyncDisposable {
  /** With the path, without a slash at its end. */
  url: string;
  /** What was asked for outside the path: none of it is answered. */
  strays: readonly string[];
}

/** `path`: with a slash in front and none at its end. `target`: where its server listens. */
export async function startPathProxy(path: string, target: string): Promise<PathProxy> {
  const strays: string[] = [];
  const sockets = new Set<Duplex>();
  const upstream = new URL(target);
  /** The request as the server gets it; `undefined` if it is not below the path. */
  const passedOn = (incoming: IncomingMessage) => {
    const { method, url = '', headers } = incoming;
    if (!url.startsWith(`${path}/`)) {
      strays.push(url);
      return undefined;
    }
    const { hostname, port } = upstream;
    return request({ hostname, port, method, path: url.slice(path.length), headers, agent: false });
  };
  const server = createServer((incoming, answer) => {
    const outgoing = passedOn(incoming);
    if (outgoing === undefined) {
      answer.writeHead(404).end();
      return;
    }
    outgoing.on('error', () => answer.destroy());
    outgoing.on('response', (response) => {
      answer.writeHead(response.statusCode ?? 502, response.rawHeaders);
      response.pipe(answer);
    });
    answer.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  server.on('upgrade', (incoming, socket: Duplex, head: Buffer) => {
    const outgoing = passedOn(incoming);
    const end = (): void => void socket.destroy();
    socket.on('error', end);
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    if (outgoing === undefined) {
      end();
      return;
    }
    outgoing.on('error', end);
    outgoing.on('response', end); // a refused upgrade
    outgoing.on('upgrade', (response, other, rest) => {
      const lines = [`HTTP/1.1 ${response.statusCode} ${response.statusMessage}`];
      for (let at = 0; at < response.rawHeaders.length; at += 2)
        lines.push(`${response.rawHeaders[at]}: ${response.rawHeaders[at + 1]}`);
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
      socket.write(rest);
      other.write(head);
      other.on('error', end);
      other.on('close', end);
      socket.on('close', () => other.destroy());
      other.pipe(socket);
      socket.pipe(other);
    });
    outgoing.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  return {
    url: `http://127.0.0.1:${port}${path}`,
    strays,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
