import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { followStream } from '../../../web/frame/stream.ts';
import type { Frame } from '../../../web/frame/stream.ts';

/** The sockets that the console opened, in order. */
let sockets: Socket[] = [];

/** A socket whose server is the test. */
class Socket extends EventTarget {
  readonly query: URLSearchParams;
  isClosed = false;

  constructor(url: URL) {
    super();
    this.query = url.searchParams;
    sockets.push(this);
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

beforeEach(() => {
  sockets = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.stubGlobal('location', { href: 'https://setpoint.test/' });
  vi.stubGlobal('WebSocket', Socket);
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ success: true, data: { ticket: 't' } })));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const login = { tenant: 'acme', token: 'secret', email: 'a@example.com' };

/** Follows a stream whose first socket is open and has sent a cursor. */
async function followed() {
  const frames: Frame[] = [];
  const troubles: (string | undefined)[] = [];
  let ends = 0;
  const stop = followStream({
    login,
    path: '/ws/notifications',
    onFrame: (frame) => frames.push(frame),
    onTrouble: (why) => troubles.push(why),
    onEnd: () => (ends += 1),
  });
  await opened(1);
  const [first] = sockets;
  if (first === undefined) throw new Error('No socket was opened');
  first.send({ type: 'ready', cursor: 'a-1' });
  return { first, frames, troubles, stop, ends: () => ends };
}

/** Lets the pause before the next attempt pass, and waits for that socket. */
async function opened(count: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(15_000);
  await vi.waitFor(() => expect(sockets).toHaveLength(count));
}

describe('a stream that the console follows', () => {
  it.each([
    [1012, 'restart'],
    [1013, 'too slow'],
    [1011, 'failed'],
    [4429, 'too many streams'],
    [1006, ''],
  ])('goes on after its last cursor when the server closes it with %d', async (code, reason) => {
    const { first, troubles, stop, ends } = await followed();
    first.send({ type: 'notification', cursor: 'a-2' });
    if (reason !== '') first.send({ type: 'end', reason });
    first.closedBy(code, reason);
    await opened(2);
    expect([sockets[1]?.query.get('cursor'), ends()]).toEqual(['a-2', 0]);
    expect(troubles.at(-1)).toBe(reason === '' ? 'The connection is lost' : reason);
    sockets[1]?.send({ type: 'ready', cursor: 'a-2' });
    expect(troubles.at(-1)).toBeUndefined();
    stop();
  });

  it('is over when the server has ended it', async () => {
    const { first, troubles, ends } = await followed();
    first.send({ type: 'end', reason: 'completed' });
    first.closedBy(1000, 'completed');
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sockets.length, ends(), troubles.at(-1)]).toEqual([1, 1, undefined]);
  });

  it('says why it will not go on when its reader may no longer read it', async () => {
    const { first, troubles, ends } = await followed();
    first.send({ type: 'end', reason: 'no longer allowed' });
    first.closedBy(4403, 'no longer allowed');
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sockets.length, ends(), troubles.at(-1)]).toEqual([1, 0, 'The stream has ended: no longer allowed']);
  });
});
