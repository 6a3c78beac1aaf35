/** Many readers of one WebSocket URL. They note when frames arrived, by the marks in the frames. */
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { argument, serve } from '../parent.ts';

export interface ReadersArgument {
  url: string;
  count: number;
  /** A regular expression whose first group is the mark of a frame. Frames without a mark are only counted. */
  mark: string;
  /** A part of every frame that is counted; by default all are. */
  counted?: string;
}

/** The times at which a mark arrived, in milliseconds since 1970, one per reader. */
export interface Arrivals {
  mark: string;
  at: number[];
}

const { url, count, mark, counted } = await argument<ReadersArgument>();
const form = new RegExp(mark);
let arrivals = new Map<string, number[]>();
let frames = 0;
const now = (): number => performance.timeOrigin + performance.now();

const sockets: WebSocket[] = [];
for (let n = 0; n < count; n += 1) {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.on('message', (data: Buffer) => {
    const at = now();
    if (counted === undefined || data.includes(counted)) frames += 1;
    const found = form.exec(data.toString('latin1', 0, Math.min(data.length, 400)))?.[1];
    if (found === undefined) return;
    const known = arrivals.get(found);
    if (known === undefined) arrivals.set(found, [at]);
    else known.push(at);
  });
  await once(socket, 'open');
  sockets.push(socket);
}

const methods = {
  /** Number of frames that were counted since the start. */
  frames: async () => frames,
  /** Marks that arrived since the last call. */
  take: async (): Promise<Arrivals[]> => {
    const taken = [...arrivals].map(([key, at]) => ({ mark: key, at }));
    arrivals = new Map();
    return taken;
  },
};
export type ReadersMethods = typeof methods;

await serve(methods);
for (const socket of sockets) socket.terminate();
