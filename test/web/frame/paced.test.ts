import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { paced } from '../../../web/frame/paced.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

describe('a read that many frames ask for', () => {
  it('is made at once, and once more for all that came meanwhile', async () => {
    let reads = 0;
    const ask = paced(async () => void (reads += 1));
    for (let n = 0; n < 200; n += 1) ask();
    expect(reads).toBe(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(reads).toBe(2);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reads).toBe(2);
    ask();
    expect(reads).toBe(3);
  });

  it('waits for the answer before, however long that takes', async () => {
    const answers: PromiseWithResolvers<void>[] = [];
    const ask = paced(() => {
      const answer = Promise.withResolvers<void>();
      answers.push(answer);
      return answer.promise;
    });
    ask();
    ask();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(answers).toHaveLength(1);
    answers[0]?.resolve();
    await vi.advanceTimersByTimeAsync(0);
    expect(answers).toHaveLength(2);
  });
});
