/** The package ws alone: sends one frame to everybody who is connected. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { argument, serve } from '../parent.ts';

const { text } = await argument<{ text: string }>();
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
await once(server, 'listening');
const { port } = server.address() as AddressInfo; // a TCP server has such an address
let sent = 0;

const methods = {
  url: async () => `ws://127.0.0.1:${port}`,
  /** Resolves with the mark of the frame and the instant before the first `send`. */
  send: async () => {
    const at = performance.timeOrigin + performance.now();
    const mark = String((sent += 1));
    for (const client of server.clients) client.send(`{"mark":"${mark}","text":"${text}"}`);
    return { at, mark };
  },
};
export type BroadcastMethods = typeof methods;

await serve(methods);
for (const client of server.clients) client.terminate();
server.close();
