import { onceRenewed, openSocket, Refused } from '../api.ts';
import type { Login } from '../api.ts';
import { listenTo, silent } from './silence.ts';

/** A frame of any stream; its other fields follow from its type. */
export interface Frame {
  readonly type: string;
  readonly cursor?: string;
}

interface StreamOptions {
  readonly login: Login;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly onFrame: (frame: Frame) => void;
  /** The server has sent everything: no further frame will come. */
  readonly onEnd?: () => void;
  /** `undefined` while frames come; else why they do not. */
  readonly onTrouble?: (why: string | undefined) => void;
}

const firstRetryMs = 500;
const maxRetryMs = 15_000;
const ended = 1000;
const sessionEnded = 4401;
/** Codes after which asking again cannot help: no longer allowed, gone, used. */
const finalCodes: ReadonlySet<number> = new Set([4403, 4404, 4409]);

/**
 * Follows a stream until the returned function is called. After a lost connection, or when the server restarts, it goes on
 * after the last frame that had a cursor; so it does after the session has ended, once the user has signed in again.
 */
export function followStream({ login, path, query = {}, onFrame, onEnd, onTrouble }: StreamOptions): () => void {
  let cursor: string | undefined;
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempts = 0;
  let isOver = false;
  let stopWaiting: (() => void) | undefined;

  const untilRenewed = (why: string): void => {
    onTrouble?.(why);
    stopWaiting = onceRenewed(login, connect);
  };
  const again = (why: string): void => {
    if (isOver) return;
    onTrouble?.(why);
    attempts += 1;
    timer = setTimeout(connect, Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(attempts, 10)) * Math.random());
  };
  const connect = (): void => {
    openSocket(login, path, { ...query, ...(cursor !== undefined && { cursor }) }).then(follow, (error: unknown) => {
      if (isOver) return;
      if (error instanceof Refused && error.status === 401) untilRenewed(error.message);
      // another answer of the server is final: this reader, or this object
      else if (error instanceof Refused && error.status < 429) onTrouble?.(error.message);
      else again(error instanceof Error ? error.message : String(error));
    });
  };
  const follow = (opened: WebSocket): void => {
    socket = opened;
    if (isOver) {
      socket.close();
      return;
    }
    listenTo(opened, () => {
      if (isOver || socket !== opened) return;
      socket = undefined;
      opened.close();
      again(silent);
    });
    opened.addEventListener('message', ({ data }) => {
      if (socket !== opened) return;
      const frame = JSON.parse(String(data)) as Frame; // streams send nothing else as text
      cursor = frame.cursor ?? cursor;
      if (frame.type === 'ready') {
        attempts = 0;
        onTrouble?.(undefined);
      }
      onFrame(frame);
    });
    opened.addEventListener('close', ({ code, reason }) => {
      if (isOver || socket !== opened) return;
      // a frame `end` comes before each of these codes
      if (code === ended) {
        isOver = true;
        onEnd?.();
      } else if (code === sessionEnded) untilRenewed('The session has ended');
      else if (finalCodes.has(code))
        onTrouble?.(reason === '' ? 'The stream has ended' : `The stream has ended: ${reason}`);
      else again(reason === '' ? 'The connection is lost' : reason);
    });
  };
  connect();
  return () => {
    isOver = true;
    clearTimeout(timer);
    stopWaiting?.();
    socket?.close();
  };
}
