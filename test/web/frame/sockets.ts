import { afterEach, beforeEach, expect, vi } from 'vitest';

/** A socket of the console whose server is the test. */
class Socket extends EventTarget {
  readonly query: URLSearchParams;
  isClosed = false;

  constructor(url: URL) {
    super();
    this.query = url.searchParams;
  }

  send(frame: object): void {
    this.dispatchEvent(Object.assign(new Event('message'), { data: JSON.stringify(frame) }));
  }

  closedBy(code: number, reason: string): void {
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason }));
  }

  close(): void {
    this.isClosed = true;
  }
}

/** The sockets that the console opens in each test, in order. Timers of the console run by the test. */
export function onSockets() {
  const all: Socket[] = [];
  beforeEach(() => {
    all.length = 0;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    vi.stubGlobal('location', { href: 'https://setpoint.test/' });
    vi.stubGlobal('document', Object.assign(new EventTarget(), { hidden: false }));
    vi.stubGlobal('addEventListener', () => undefined);
    vi.stubGlobal('removeEventListener', () => undefined);
    vi.stubGlobal(
      'WebSocket',
      class extends Socket {
        constructor(url: URL) {
          super(url);
          all.push(this);
        }
      },
    );
    vi.stubGlobal('fetch', (_path: string, { method }: RequestInit) =>
      Promise.resolve(Response.json({ success: true, data: method === 'POST' ? { ticket: 't' } : [], meta: {} })),
    );
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  return {
    all,
    /** Lets the pause before the next attempt pass, and waits for that socket. */
    async opened(count: number): Promise<void> {
      await vi.advanceTimersByTimeAsync(15_000);
      await vi.waitFor(() => expect(all).toHaveLength(count));
    },
  };
}
