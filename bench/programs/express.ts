/** Express 5 with only two routes, each of which answers with the bytes that it was given. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { argument, serve } from '../parent.ts';

export interface ExpressArgument {
  list: string;
  one: string;
}

const bodies = await argument<ExpressArgument>();
const app = express();
app.disable('x-powered-by').disable('etag');
for (const name of ['list', 'one'] as const) {
  const body = Buffer.from(bodies[name]);
  app.get(`/${name}/:id`, (_request, response) => {
    response.type('json').send(body);
  });
}
const server = app.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo; // a TCP server has such an address
const methods = { url: async () => `http://127.0.0.1:${port}` };
export type ExpressMethods = typeof methods;

await serve(methods);
server.close();
server.closeAllConnections();
