import { signal } from '@preact/signals';
import type { ReadonlySignal } from '@preact/signals';
import { messageOf, openSocket } from '../api.ts';
import type { Login } from '../api.ts';
import type { TerminalLink } from '../parts/terminal-link.ts';

interface SessionState {
  readonly state: 'opening' | 'open' | 'ended' | 'failed';
  readonly text: string;
}

/** A terminal that was asked for: its state, and the two ends of it. */
export interface TerminalSession {
  readonly state: ReadonlySignal<SessionState>;
  readonly link: TerminalLink;
  readonly close: () => void;
}

/** Output that came before the screen was there. */
const mostEarly = 1000;

/** Most characters of one frame: written as JSON, they are below what the server takes. */
const mostInput = 8192;

/** A text in parts that one frame can carry, as when much is pasted; no character is cut in two. */
function* partsOf(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const isPair = /[\uD800-\uDBFF]/.test(text.charAt(at + mostInput - 1));
    const end = at + mostInput + (isPair ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}

/** Makes a session by `create`, and attaches to it. A session that was lost cannot be taken up: a new one is made. */
export function openTerminalSession(login: Login, create: () => Promise<string>): TerminalSession {
  const state = signal<SessionState>({ state: 'opening', text: 'Opening' });
  const listeners = new Set<(output: string | Uint8Array) => void>();
  const early: (string | Uint8Array)[] = [];
  let socket: WebSocket | undefined;
  let size: { cols: number; rows: number } | undefined;
  let isOver = false;

  const emit = (output: string | Uint8Array): void => {
    if (listeners.size === 0 && early.length < mostEarly) early.push(output);
    for (const listener of listeners) listener(output);
  };
  const finish = (next: SessionState): void => {
    const { state: now } = state.peek();
    if (now !== 'ended' && now !== 'failed') state.value = next;
  };
  const onText = (text: string): void => {
    const frame = JSON.parse(text) as { type: string; code?: number | string | null; message?: string }; // of a terminal
    if (frame.type === 'ready') {
      state.value = { state: 'open', text: 'Connected' };
      sendSize();
    } else if (frame.type === 'exit')
      finish({ state: 'ended', text: `Ended${typeof frame.code === 'number' ? ` with exit code ${frame.code}` : ''}` });
    else if (frame.type === 'error') finish({ state: 'failed', text: frame.message ?? 'The session failed' });
  };
  const sendSize = (): void => {
    if (size !== undefined && socket?.readyState === WebSocket.OPEN)
      socket.send(JSON.stringify({ type: 'resize', ...size }));
  };
  const begin = async (): Promise<void> => {
    const id = await create();
    const opened = await openSocket(login, `/ws/terminal/${id}`, { output: 'binary' });
    opened.binaryType = 'arraybuffer';
    socket = opened;
    if (isOver) {
      opened.close();
      return;
    }
    opened.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (data instanceof ArrayBuffer) emit(new Uint8Array(data));
      else onText(String(data));
    });
    opened.addEventListener('close', ({ reason }) =>
      finish({
        state: 'ended',
        text: reason === '' ? 'The connection is lost: a new session is needed' : `Ended: ${reason}`,
      }),
    );
  };
  begin().catch((error: unknown) => finish({ state: 'failed', text: messageOf(error) }));

  return {
    state,
    link: {
      subscribe(listener) {
        for (const output of early.splice(0)) listener(output);
        listeners.add(listener);
        return () => {
          listeners.delete(listener);
        };
      },
      send(text) {
        if (socket?.readyState !== WebSocket.OPEN) return;
        for (const data of partsOf(text)) socket.send(JSON.stringify({ type: 'input', data }));
      },
      resize(cols, rows) {
        size = { cols, rows };
        sendSize();
      },
    },
    close() {
      isOver = true;
      socket?.close();
    },
  };
}
