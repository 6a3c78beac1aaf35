import { expect, it } from 'vitest';
import { Upstreams } from '../../../agent/ingress/upstreams.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const clock = new FakeClock();
const never = new AbortController().signal;
const web = (address: string, workload = 'web') => ({ workload, service: 'web', address, ports: [80] });

function opened(isRouted = true): { upstreams: Upstreams; chosen: () => string[] } {
  const upstreams = new Upstreams({
    clock,
    changed: () => undefined,
    offered: () => undefined,
    isRouted: () => isRouted,
  });
  return { upstreams, chosen: () => upstreams.of({ workload: 'web', service: 'web' }).map(({ address }) => address) };
}

it('keeps an instance until the proxy finds those that remain without the agent, and says when it chooses it no more', async () => {
  const { upstreams, chosen } = opened();
  upstreams.offer('older', web('10.0.0.1'));
  await clock.advance(60_000);
  upstreams.offer('newer', web('10.0.0.2'));
  upstreams.offer('other', web('10.0.0.9', 'another'));
  await clock.advance(2_000);
  let isOver = false;
  const withdrawn = upstreams.withdraw('older', never).finally(() => (isOver = true));
  await clock.advance(3_400);
  expect(chosen()).toEqual(['10.0.0.1', '10.0.0.2']);
  await clock.advance(200);
  expect(chosen()).toEqual(['10.0.0.2']);
  expect(isOver).toBe(false);
  await clock.advance(1_300);
  expect(await withdrawn).toBe(true);
});

it.each([
  ['those that remain are known', ['older', 'known']],
  ['none remains', ['older']],
])('withdraws an instance at once where %s', async (_, offered) => {
  const { upstreams, chosen } = opened();
  for (const [index, name] of offered.entries()) upstreams.offer(name, web(`10.0.0.${index}`));
  await clock.advance(6_000);
  const withdrawn = upstreams.withdraw('older', never);
  expect(chosen()).toEqual(offered.slice(1).map((_name, index) => `10.0.0.${index + 1}`));
  await clock.advance(1_300);
  expect(await withdrawn).toBe(true);
});

it('does not wait for instances that leave, too', async () => {
  const { upstreams, chosen } = opened();
  upstreams.offer('one', web('10.0.0.1'));
  upstreams.offer('two', web('10.0.0.2'));
  const both = ['one', 'two'].map((name) => upstreams.withdraw(name, never));
  expect(chosen()).toEqual(['10.0.0.1']);
  await clock.advance(7_000);
  expect(await Promise.all(both)).toEqual([true, true]);
});

it('withdraws at once what no route leads to', async () => {
  const { upstreams, chosen } = opened(false);
  upstreams.offer('one', web('10.0.0.1'));
  upstreams.offer('two', web('10.0.0.2'));
  expect(await upstreams.withdraw('one', never)).toBe(false);
  expect(chosen()).toEqual(['10.0.0.2']);
});

it('waits for the rest, and says again that it was chosen, where its withdrawal was interrupted', async () => {
  const { upstreams } = opened();
  upstreams.offer('one', web('10.0.0.1'));
  await clock.advance(60_000);
  const interrupted = new AbortController();
  const first = upstreams.withdraw('one', interrupted.signal);
  await clock.advance(1_000);
  interrupted.abort(new Error('Another state is desired'));
  await expect(first).rejects.toThrow('Another state');
  let isOver = false;
  const again = upstreams.withdraw('one', never).finally(() => (isOver = true));
  await clock.advance(200);
  expect(isOver).toBe(false);
  await clock.advance(100);
  expect(await again).toBe(true);
  expect(await upstreams.withdraw('one', never)).toBe(false);
});
