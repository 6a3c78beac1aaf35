import { tooMany } from './api-error.ts';

const maxWaiting = 200;

/** Runs what has the same key one after another; `waited` tells whether something else ran before. */
export type InTurn = <T>(key: string, run: (waited: boolean) => Promise<T>) => Promise<T>;

/**
 * Writers of one object in this process take turns: they would else make each other start again. Correctness rests on
 * the guards of their transactions alone. @throws ApiError TOO_MANY_REQUESTS when 200 wait for one object
 */
export function createInTurn(): InTurn {
  const queues = new Map<string, { last: Promise<unknown>; waiting: number }>();
  return async (key, run) => {
    const queue = queues.get(key) ?? { last: Promise.resolve(), waiting: 0 };
    if (queue.waiting >= maxWaiting) throw tooMany('Too many changes of one object at once', 1);
    const waited = queue.waiting > 0;
    queue.waiting += 1;
    queues.set(key, queue);
    const turn = queue.last.then(() => run(waited));
    // whoever comes next goes on however this one ends
    queue.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      queue.waiting -= 1;
      if (queue.waiting === 0) queues.delete(key);
    }
  };
}
