import { describe, expect, it, vi } from 'vitest';
import { Watch } from '../../../web/frame/watch.ts';
import { onSockets } from './sockets.ts';

const sockets = onSockets();
const login = { tenant: 'acme', token: 'secret', email: 'a@example.com' };

describe('the watch of the console', () => {
  it('is not live any more when nothing is heard, and goes on after its cursor', async () => {
    let changes = 0;
    const watch = new Watch(
      login,
      () => undefined,
      () => (changes += 1),
    );
    await sockets.opened(1);
    const [first] = sockets.all;
    first?.send({ type: 'ready', cursor: 'a-1' });
    await vi.advanceTimersByTimeAsync(70_000);
    expect(watch.connection.value).toEqual({ state: 'live' });
    await vi.advanceTimersByTimeAsync(5000);
    expect([watch.connection.value.state, first?.isClosed]).toEqual(['lost', true]);
    await sockets.opened(2);
    expect(sockets.all[1]?.query.get('cursor')).toBe('a-1');
    first?.send({ type: 'change', op: 'delete', kind: 'project', id: 'p', cursor: 'a-2' });
    first?.closedBy(1006, '');
    sockets.all[1]?.send({ type: 'ready', cursor: 'a-3' });
    expect([changes, watch.connection.value.state]).toEqual([0, 'live']);
    watch.close();
  });

  it('begins anew, with all that changed meanwhile, once the user has signed in again', async () => {
    let begun = 0;
    const watch = new Watch(
      login,
      () => (begun += 1),
      () => undefined,
    );
    await sockets.opened(1);
    sockets.all[0]?.send({ type: 'ready', cursor: 'a-1' });
    sockets.all[0]?.closedBy(4401, '');
    expect([watch.connection.value.state, begun]).toEqual(['ended', 1]);
    watch.renew();
    await sockets.opened(2);
    expect(sockets.all[1]?.query.get('cursor')).toBeNull();
    sockets.all[1]?.send({ type: 'ready', cursor: 'a-9' });
    expect([watch.connection.value.state, begun]).toEqual(['live', 2]);
    watch.close();
  });
});
