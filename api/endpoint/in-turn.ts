import { tooMany } from '../ground/api-error.ts';

const maxWaiting = 200;

/** Runs calls with the same key one after another; `waited` is true if another call was before this one. */
export type InTurn = <T>(key: string, run: (waited: boolean) => Promise<T>) => Promise<T>;

/**
 * Runs writers of one object in this process one after another: otherwise they would make each other retry. Only the
 * guards of their transactions make them correct. @throws ApiError TOO_MANY_REQUESTS when 200 wait for one object
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
    // the next call runs whether this one succeeds or fails
    queue.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      queue.waiting -= 1;
      if (queue.waiting === 0) queues.delete(key);
    }
  };
}
