import { openSocket } from '../api.ts';
import type { Login } from '../api.ts';
import type { TerminalLink } from '../parts/terminal.tsx';

/** How a session is: `over` has how it ended. */
export type TerminalState =
  | { readonly at: 'connecting' }
  | { readonly at: 'open' }
  | { readonly at: 'over'; readonly text: string };

type Frame =
  | { type: 'ready' | 'ping' }
  | { type: 'output'; data: string }
  | { type: 'exit'; code: number | null }
  | { type: 'error'; message: string };

/** Pieces of output that wait for the terminal to be drawn. */
const mostEarly = 1000;

/**
 * A session in a container or on a server, by the id that the API has given. It is used once: where the connection is lost,
 * the session is over, and another one is made.
 */
export class TerminalSession implements TerminalLink {
  readonly #onState: (state: TerminalState) => void;
  readonly #listeners = new Set<(output: string | Uint8Array) => void>();
  /** Output before the terminal is drawn. */
  readonly #early: (string | Uint8Array)[] = [];
  #socket: WebSocket | undefined;
  #isOver = false;
  #size: { cols: number; rows: number } | undefined;

  constructor(login: Login, sessionId: string, onState: (state: TerminalState) => void) {
    this.#onState = onState;
    openSocket(login, `/ws/terminal/${sessionId}`, { output: 'binary' }).then(
      (socket) => this.#follow(socket),
      (error: unknown) => this.#end(error instanceof Error ? error.message : String(error)),
    );
  }

  readonly subscribe = (listener: (output: string | Uint8Array) => void): (() => void) => {
    this.#listeners.add(listener);
    for (const output of this.#early.splice(0)) listener(output);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  readonly send = (text: string): void => this.#write({ type: 'input', data: text });

  readonly resize = (cols: number, rows: number): void => {
    this.#size = { cols, rows };
    this.#write({ type: 'resize', cols, rows });
  };

  close(): void {
    this.#isOver = true;
    this.#socket?.close();
  }

  #write(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #follow(socket: WebSocket): void {
    if (this.#isOver) {
      socket.close();
      return;
    }
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data !== 'string') this.#show(new Uint8Array(data));
      else this.#take(JSON.parse(data) as Frame); // the stream sends no other
    });
    socket.addEventListener('close', ({ reason }) =>
      this.#end(reason === '' ? 'The connection is lost, and the session with it' : `Ended: ${reason}`),
    );
  }

  #take(frame: Frame): void {
    switch (frame.type) {
      case 'ready':
        this.#onState({ at: 'open' });
        if (this.#size !== undefined) this.#write({ type: 'resize', ...this.#size });
        break;
      case 'output':
        this.#show(frame.data);
        break;
      case 'exit':
        this.#end(frame.code === null ? 'The session has ended' : `Ended with exit code ${frame.code}`);
        break;
      case 'error':
        this.#end(frame.message);
        break;
      case 'ping':
        break;
    }
  }

  #show(output: string | Uint8Array): void {
    if (this.#listeners.size === 0 && this.#early.length < mostEarly) this.#early.push(output);
    for (const listener of this.#listeners) listener(output);
  }

  #end(text: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket?.close();
    this.#onState({ at: 'over', text });
  }
}
