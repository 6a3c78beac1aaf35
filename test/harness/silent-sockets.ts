import { Worker } from 'node:worker_threads';

/** Each thread keeps so many connections open, asks for another WebSocket on each that ends, and never says a word. */
const program = `
  const { connect } = require('node:net');
  const { parentPort, workerData: { port, path, count } } = require('node:worker_threads');
  const request = 'GET ' + path + ' HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n' +
    'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n' +
    'Sec-WebSocket-Protocol: setpoint-agent.v1\\r\\n\\r\\n';
  const answered = { taken: 0, refused: 0 };
  const open = () => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request));
    socket.once('data', (data) => {
      answered[data.toString('latin1', 9, 12) === '101' ? 'taken' : 'refused']++;
      parentPort.postMessage(answered);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => setTimeout(open, 5));
  };
  for (let n = 0; n < count; n++) open();
`;

export interface Flood extends AsyncDisposable {
  /** Requests of all threads that were taken, and that were refused. */
  answered(): { taken: number; refused: number };
}

/** Four threads that keep 50 connections each. */
export function flood(url: string, path: string): Flood {
  const port = Number(new URL(url).port);
  const counts = new Map<number, { taken: number; refused: number }>();
  const threads = Array.from({ length: 4 }, (_, n) => {
    const worker = new Worker(program, { eval: true, workerData: { port, path, count: 50 } });
    worker.on('message', (answered: { taken: number; refused: number }) => counts.set(n, answered));
    return worker;
  });
  const sum = (what: 'taken' | 'refused'): number => [...counts.values()].reduce((all, it) => all + it[what], 0);
  return {
    answered: () => ({ taken: sum('taken'), refused: sum('refused') }),
    async [Symbol.asyncDispose]() {
      await Promise.all(threads.map((worker) => worker.terminate()));
    },
  };
}
