import { z } from 'zod';
import type { Client } from '../../cli/client.ts';
import { until } from '../harness/until.ts';

const Made = z.object({ sessionId: z.string() });

/** Opens a terminal of a server, of 91 columns and 31 rows, once its agent can. */
export async function openTerminal(client: Client, server: string) {
  const body = { shell: '/bin/bash', cols: 91, rows: 31 };
  const made = await until('there are terminals', () =>
    client.request('POST', `/api/v1/servers/${server}/terminal`, body),
  );
  const socket = await client.socket(`/ws/terminal/${Made.parse(made).sessionId}`, { output: 'binary' });
  let shown = '';
  const frames: Record<string, unknown>[] = [];
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) shown += data.toString();
    else frames.push(JSON.parse(data.toString()) as Record<string, unknown>);
  });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  socket.resume();
  return {
    socket,
    closed,
    end: () => frames.find(({ type }) => type === 'exit' || type === 'error'),
    type: (text: string) => socket.send(JSON.stringify({ type: 'input', data: text })),
    resize: (cols: number, rows: number) => socket.send(JSON.stringify({ type: 'resize', cols, rows })),
    shows: (what: RegExp | string) =>
      until(
        `it shows ${String(what)}`,
        async () => (typeof what === 'string' ? shown.includes(what) : what.test(shown)),
        { explain: async () => JSON.stringify([shown.slice(-3000), frames]) },
      ),
  };
}
