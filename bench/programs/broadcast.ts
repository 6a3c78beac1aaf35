/** The package ws alone: sends each frame to all connected clients. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { argument, serve } from '../parent.ts';

const { text } = await argument<{ text: string }>();
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
await once(server, 'listening');
const { port } = server.address() as AddressInfo; // a TCP server has such an address
let sent = 0;
/** Frames to each reader between two turns of the event loop. */
const batch = 20;
/** Most bytes that may wait for a reader. */
const most = 1024 * 1024;

const methods = {
  url: async () => `ws://127.0.0.1:${port}`,
  /** Sends one frame. Resolves with its mark and the time before the first `send`, in milliseconds since 1970. */
  send: async () => {
    const at = performance.timeOrigin + performance.now();
    const mark = String((sent += 1));
    for (const client of server.clients) client.send(`{"mark":"${mark}","text":"${text}"}`);
    return { at, mark };
  },
  /** Sends `frames` frames to all clients, as fast as these read them. */
  flood: async (frames: number) => {
    for (let n = 1; n <= frames; n += 1) {
      for (const client of server.clients) client.send(text);
      if (n % batch > 0) continue;
      do await new Promise((resolve) => void setImmediate(resolve));
      while ([...server.clients].some((client) => client.bufferedAmount > most));
    }
  },
};
export type BroadcastMethods = typeof methods;

await serve(methods);
for (const client of server.clients) client.terminate();
server.close();
