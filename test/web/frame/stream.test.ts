import { describe, expect, it, vi } from 'vitest';
import { renewLogin } from '../../../web/api.ts';
import { followStream } from '../../../web/frame/stream.ts';
import type { Frame } from '../../../web/frame/stream.ts';
import { onSockets } from './sockets.ts';

const sockets = onSockets();
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
  await sockets.opened(1);
  const [first] = sockets.all;
  if (first === undefined) throw new Error('No socket was opened');
  first.send({ type: 'ready', cursor: 'a-1' });
  return { first, frames, troubles, stop, ends: () => ends };
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
    await sockets.opened(2);
    expect([sockets.all[1]?.query.get('cursor'), ends()]).toEqual(['a-2', 0]);
    expect(troubles.at(-1)).toBe(reason === '' ? 'The connection is lost' : reason);
    sockets.all[1]?.send({ type: 'ready', cursor: 'a-2' });
    expect(troubles.at(-1)).toBeUndefined();
    stop();
  });

  it('is opened again when nothing is heard any more, and takes nothing of the connection before', async () => {
    const { first, frames, troubles, stop } = await followed();
    await vi.advanceTimersByTimeAsync(60_000);
    first.send({ type: 'ping' });
    await vi.advanceTimersByTimeAsync(70_000);
    expect(sockets.all).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(6000);
    await sockets.opened(2);
    expect([first.isClosed, sockets.all[1]?.query.get('cursor')]).toEqual([true, 'a-1']);
    expect(troubles.at(-1)).toBe('Nothing was heard for 75 s');
    const count = frames.length;
    first.send({ type: 'notification', cursor: 'a-2' });
    first.closedBy(1006, '');
    await vi.advanceTimersByTimeAsync(20_000);
    expect([frames.length, sockets.all.length]).toEqual([count, 2]);
    stop();
  });

  it('is over when the server has ended it', async () => {
    const { first, troubles, ends } = await followed();
    first.send({ type: 'end', reason: 'completed' });
    first.closedBy(1000, 'completed');
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sockets.all.length, ends(), troubles.at(-1)]).toEqual([1, 1, undefined]);
  });

  it('goes on once the user, whose session has ended, has signed in again', async () => {
    const { first, troubles, stop } = await followed();
    first.closedBy(4401, '');
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sockets.all.length, troubles.at(-1)]).toEqual([1, 'The session has ended']);
    renewLogin(login, 'other');
    await sockets.opened(2);
    expect(sockets.all[1]?.query.get('cursor')).toBe('a-1');
    sockets.all[1]?.closedBy(4401, '');
    stop();
    renewLogin(login, 'third');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets.all).toHaveLength(2);
  });

  it('says why it will not go on when its reader may no longer read it', async () => {
    const { first, troubles, ends } = await followed();
    first.send({ type: 'end', reason: 'no longer allowed' });
    first.closedBy(4403, 'no longer allowed');
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sockets.all.length, ends(), troubles.at(-1)]).toEqual([1, 0, 'The stream has ended: no longer allowed']);
  });
});
