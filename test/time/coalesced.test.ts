import { expect, test } from 'vitest';
import { Coalesced } from '../../time/coalesced.ts';
import { settle } from '../harness/fake-clock.ts';

test('is done once more for all who ask while it is done, and never twice at a time', async () => {
  const turns: PromiseWithResolvers<void>[] = [];
  const work = new Coalesced(() => {
    const turn = Promise.withResolvers<void>();
    turns.push(turn);
    return turn.promise;
  });
  work.ask();
  work.ask();
  expect([turns.length, work.isAsked]).toEqual([1, true]);
  turns[0]?.resolve();
  await settle();
  expect([turns.length, work.isAsked]).toEqual([2, false]);
  turns[1]?.resolve();
  await settle();
  work.ask();
  expect(turns).toHaveLength(3);
  turns[2]?.resolve();
});

test.each([0, 1, 2, 3, 4])('is done for who asks %i turns of the event loop’s queue after its end', async (after) => {
  let done = 0;
  const work = new Coalesced(async () => void (done += 1));
  work.ask();
  for (let turn = 0; turn < after; turn += 1) await Promise.resolve();
  const before = done;
  work.ask();
  await settle();
  expect(done).toBe(before + 1);
});

test('is not begun any more once it ends, which waits for what is done', async () => {
  const turn = Promise.withResolvers<void>();
  let done = 0;
  const work = new Coalesced(async () => {
    await turn.promise;
    done += 1;
  });
  work.ask();
  const ended = work[Symbol.asyncDispose]();
  work.ask();
  expect(done).toBe(0);
  turn.resolve();
  await ended;
  await settle();
  expect(done).toBe(1);
});

test('is done once more where the work asks for itself before its first pause', async () => {
  let [now, most, times] = [0, 0, 0];
  const work: Coalesced = new Coalesced(async () => {
    now += 1;
    times += 1;
    most = Math.max(most, now);
    if (times === 1) work.ask();
    await settle();
    now -= 1;
  });
  work.ask();
  await settle();
  await settle();
  expect([times, most]).toEqual([2, 1]);
});
