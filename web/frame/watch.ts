import { signal } from '@preact/signals';
import type { ReadonlySignal } from '@preact/signals';
import { list, openSocket, Refused } from '../api.ts';
import type { Login } from '../api.ts';
import type { Kind, Objects } from '../model.ts';
import { kinds } from '../model.ts';
import { listenTo } from './silence.ts';
import type { Change } from './store.ts';

/**
 * Whether what is shown follows the control plane (`live`), is of an earlier instant (`lost`), the session has ended, or
 * the user must choose another password before anything is shown (`reset`).
 */
export type Connection =
  | { readonly state: 'connecting' | 'live' | 'ended' | 'reset' }
  | { readonly state: 'lost'; readonly since: number; readonly attempts: number; readonly why?: string };

type Frame =
  | { type: 'ready'; cursor: string }
  | { type: 'gap' | 'ping' | 'end' }
  | { type: 'change'; op: 'put'; kind: Kind; id: string; object: Objects[Kind]; cursor: string }
  | { type: 'change'; op: 'delete'; kind: Kind; id: string; cursor: string };

const firstRetryMs = 500;
const maxRetryMs = 15_000;
/** After a restart of the server its clients come back within this time. */
const restartSpreadMs = 2000;
const restarted = 1012;
const tooManyStreams = 4429;

/**
 * One stream of all changes. `onReady` is called when it begins, and again after changes were missed: then the lists are
 * to be read again. A lost stream is opened again where it ended.
 */
export class Watch {
  readonly connection: ReadonlySignal<Connection>;
  readonly #connection = signal<Connection>({ state: 'connecting' });
  readonly #login: Login;
  readonly #onReady: () => void;
  readonly #onChange: (change: Change) => void;
  #socket: WebSocket | undefined;
  #cursor: string | undefined;
  #attempts = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(login: Login, onReady: () => void, onChange: (change: Change) => void) {
    this.connection = this.#connection;
    this.#login = login;
    this.#onReady = onReady;
    this.#onChange = onChange;
    addEventListener('online', this.#now);
    document.addEventListener('visibilitychange', this.#now);
    this.#connect();
  }

  /** Begins anew once the user, whose session had ended, has signed in again. */
  renew(): void {
    this.#cursor = undefined;
    this.#attempts = 0;
    this.#connection.value = { state: 'connecting' };
    this.#connect();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    removeEventListener('online', this.#now);
    document.removeEventListener('visibilitychange', this.#now);
    this.#socket?.close();
  }

  /** Tries again at once: the network is back, or the tab is looked at. */
  readonly #now = (): void => {
    if (this.#timer === undefined || document.hidden) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#connect();
  };

  #connect(): void {
    const query = { kinds: kinds.join(','), ...(this.#cursor !== undefined && { cursor: this.#cursor }) };
    openSocket(this.#login, '/ws/watch', query).then(
      (socket) => this.#follow(socket),
      (error: unknown) => this.#refused(error),
    );
  }

  #refused(error: unknown): void {
    if (this.#isClosed) return;
    if (error instanceof Refused && error.status === 401) this.#connection.value = { state: 'ended' };
    else if (error instanceof Refused && error.reason === 'password_reset_required')
      this.#connection.value = { state: 'reset' };
    else this.#lost(0);
  }

  #follow(socket: WebSocket): void {
    if (this.#isClosed) {
      socket.close();
      return;
    }
    this.#socket = socket;
    listenTo(socket, () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      socket.close();
      this.#lost(0);
    });
    socket.addEventListener('message', ({ data }) => {
      if (this.#socket === socket) this.#take(JSON.parse(String(data)) as Frame); // no other is sent
    });
    socket.addEventListener('close', ({ code }) => {
      if (this.#socket === socket) this.#lost(code);
    });
  }

  #take(frame: Frame): void {
    if (frame.type === 'ready') {
      const isResumed = this.#cursor !== undefined;
      this.#cursor ??= frame.cursor;
      this.#attempts = 0;
      this.#connection.value = { state: 'live' };
      if (!isResumed) this.#onReady();
    } else if (frame.type === 'gap') this.#onReady();
    else if (frame.type === 'change') {
      this.#cursor = frame.cursor;
      this.#onChange({ kind: frame.kind, id: frame.id, object: frame.op === 'put' ? frame.object : undefined });
    }
  }

  #lost(code: number): void {
    if (this.#isClosed) return;
    if (code === 4401) {
      this.#connection.value = { state: 'ended' };
      return;
    }
    const before = this.#connection.peek();
    const since = before.state === 'lost' ? before.since : Date.now();
    const why = code === tooManyStreams ? 'Too many streams are open: close other tabs of the console' : undefined;
    this.#attempts += 1;
    this.#connection.value = {
      state: 'lost',
      since,
      attempts: this.#attempts,
      ...(why !== undefined && { why }),
    };
    const most =
      code === restarted ? restartSpreadMs : Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(this.#attempts, 10));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#again();
    }, most * Math.random());
  }

  /** A refused upgrade shows no status to a page: the answer to a request does. */
  #again(): void {
    list(this.#login, '/api/v1/projects', 1).then(
      () => this.#connect(),
      (error: unknown) => this.#refused(error),
    );
  }
}
