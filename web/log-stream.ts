import { useEffect, useState } from 'preact/hooks';
import { openSocket, Refused } from './api.ts';
import type { Login } from './api.ts';

export interface Line {
  key: number;
  timestamp: string;
  stream: string;
  message: string;
}

const keptLines = 2000;
const retryMs = 2000;

/** The last lines of a log stream as they arrive; after a lost connection the stream continues after the last line. */
export function useLog(login: Login, path: string): readonly Line[] {
  const [lines, setLines] = useState<readonly Line[]>([]);
  useEffect(() => {
    let cursor: string | undefined;
    let count = 0;
    let waiting: Line[] = [];
    let paint: number | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let socket: WebSocket | undefined;
    let isOver = false;
    const add = (line: Omit<Line, 'key'>): void => {
      waiting.push({ key: (count += 1), ...line });
      paint ??= requestAnimationFrame(() => {
        const added = waiting;
        waiting = [];
        paint = undefined;
        setLines((before) => [...before, ...added].slice(-keptLines));
      });
    };
    const again = (): void => {
      if (!isOver) timer = setTimeout(connect, retryMs);
    };
    const connect = (): void => {
      openSocket(login, path, cursor === undefined ? {} : { cursor }).then(follow, (error: unknown) => {
        // other requests of the page handle a final refusal
        if (!(error instanceof Refused) || error.status >= 429) again();
      });
    };
    const follow = (opened: WebSocket): void => {
      socket = opened;
      if (isOver) socket.close();
      socket.addEventListener('message', ({ data }) => {
        const frame = JSON.parse(String(data)) as { type: string; cursor?: string; dropped?: number; reason?: string };
        cursor = frame.cursor ?? cursor;
        if (frame.type === 'log') add(frame as unknown as Line); // a frame of this type has the fields of a line
        else if (frame.type === 'gap')
          add({ timestamp: '', stream: 'stderr', message: `… ${frame.dropped ?? 'some'} lines are missing here` });
        else if (frame.type === 'end') isOver = true;
      });
      socket.addEventListener('close', ({ code }) => {
        if (code !== 4401 && code !== 4403 && code !== 4404) again();
      });
    };
    setLines([]);
    connect();
    return () => {
      isOver = true;
      clearTimeout(timer);
      if (paint !== undefined) cancelAnimationFrame(paint);
      socket?.close();
    };
  }, [login, path]);
  return lines;
}
