import { pino } from 'pino';
import { expect, it } from 'vitest';
import { SampleHub } from '../../api/streams/sample-hub.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { idle } from '../harness/idle.ts';

it('the samples of many objects of a server take few of the streams of its agent, and all come', async () => {
  const clock = new FakeClock();
  let open = 0;
  let most = 0;
  const hub = new SampleHub<string>({
    async *samples({ id }, { signal }) {
      open += 1;
      most = Math.max(most, open);
      try {
        for (let n = 1; !signal.aborted; n += 1) {
          yield `${id} ${clock.monotonic()}`;
          const { promise, resolve } = Promise.withResolvers<void>();
          signal.addEventListener('abort', () => resolve(), { once: true });
          clock.timer(5000, resolve);
          await promise;
        }
      } finally {
        open -= 1;
      }
    },
    // the agent is there
    mirror: { key: () => ({}), subscribeKeys: () => () => undefined } as never,
    clock,
    log: pino({ level: 'silent' }),
  });
  const counts = new Map<string, number>();
  const subscribe = (n: number): (() => void) =>
    hub.subscribe({ tenant: 't', server: 's', id: `app-${n}` }, (sample) => {
      const id = sample.split(' ')[0] ?? '';
      counts.set(id, (counts.get(id) ?? 0) + 1);
    });
  const ends = Array.from({ length: 40 }, (_, n) => subscribe(n));
  await idle();
  expect([counts.size, most]).toEqual([40, 9]);
  for (let n = 0; n < 3; n += 1) {
    await clock.advance(5000);
    await idle();
  }
  expect(Math.min(...counts.values())).toBeGreaterThanOrEqual(3);
  expect(most).toBe(9);
  for (const end of ends) end();
  await idle();
  expect(open).toBe(0);
});
