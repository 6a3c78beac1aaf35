import { z } from 'zod';
import type { Client } from '../../cli/client.ts';
import { until } from './until.ts';

const Made = z.object({ sessionId: z.string() });
/** Last characters of the output that are kept. */
const keptChars = 200_000;

/** Opens a terminal of a server, by default a `/bin/sh` of the usual size, once there can be one. */
export async function openTerminal(client: Client, server: string, body: object = {}) {
  const made = await until('there are terminals', () =>
    client.request('POST', `/api/v1/servers/${server}/terminal`, { shell: '/bin/sh', ...body }),
  );
  const socket = await client.socket(`/ws/terminal/${Made.parse(made).sessionId}`, { output: 'binary' });
  let shown = '';
  let bytes = 0;
  const frames: Record<string, unknown>[] = [];
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) frames.push(JSON.parse(data.toString()) as Record<string, unknown>);
    else {
      bytes += data.length;
      shown = (shown + data.toString('latin1')).slice(-keptChars);
    }
  });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  socket.resume();
  return {
    socket,
    closed,
    bytes: () => bytes,
    text: () => shown,
    forget: () => void (shown = ''),
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
