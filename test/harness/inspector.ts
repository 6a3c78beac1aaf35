import { WebSocket } from 'ws';
import { z } from 'zod';
import type { Program } from './program.ts';
import { within } from './within.ts';

/** The environment of a program whose memory the test measures. The port is one that is free. */
export const inspected = { NODE_OPTIONS: '--inspect=127.0.0.1:0' };

const Answer = z.object({ id: z.int(), result: z.unknown().optional(), error: z.unknown().optional() });
const Memory = z.object({ result: z.object({ value: z.object({ heapUsed: z.int(), external: z.int() }) }) });
const answerMs = 60_000;

/**
 * Bytes that a program holds and cannot free: objects after a collection of garbage, and the buffers beside the heap.
 * Resident memory says less, as V8 collects when it likes to and keeps the pages. The program was started with
 * {@link inspected}.
 */
export async function liveBytesOf(program: Program): Promise<number> {
  const url = [...(await program.log()).matchAll(/^Debugger listening on (ws:\S+)$/gm)].at(-1)?.[1];
  if (url === undefined) throw new Error('The program was not started with an inspector');
  const socket = new WebSocket(url);
  try {
    await within('the inspector opens', new Promise((resolve) => socket.once('open', resolve)));
    // The second one frees buffers whose owners the first one collected.
    for (const id of [1, 2]) await ask(socket, id, 'HeapProfiler.collectGarbage', {});
    const read = { expression: 'process.memoryUsage()', returnByValue: true };
    const { value } = Memory.parse(await ask(socket, 3, 'Runtime.evaluate', read)).result;
    return value.heapUsed + value.external;
  } finally {
    socket.terminate();
  }
}

async function ask(socket: WebSocket, id: number, method: string, params: object): Promise<unknown> {
  const answered = new Promise<unknown>((resolve, reject) => {
    const take = (data: Buffer): void => {
      const answer = Answer.parse(JSON.parse(data.toString()));
      if (answer.id !== id) return;
      socket.off('message', take);
      if (answer.error === undefined) resolve(answer.result);
      else reject(new Error(`The inspector refused ${method}: ${JSON.stringify(answer.error)}`));
    };
    socket.on('message', take);
  });
  socket.send(JSON.stringify({ id, method, params }));
  return within(`the inspector answers ${method}`, answered, answerMs);
}
