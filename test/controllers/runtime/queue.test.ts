import fc from 'fast-check';
import PQueue from 'p-queue';
import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { backoff } from '../../../controllers/runtime/backoff.ts';
import { DueHeap, type Due } from '../../../controllers/runtime/due-heap.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { KeyedQueue, type After } from '../../../controllers/runtime/queue.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';

const nothing: After = { after: 'nothing' };
const failure: After = { after: 'failure' };
const opened: { queue: KeyedQueue; clock: FakeClock }[] = [];

afterEach(async () => {
  for (const { queue, clock } of opened.splice(0)) {
    const closing = queue[Symbol.asyncDispose]();
    await clock.advance(limits.reconcile.graceMs);
    await closing;
  }
});

/** A queue whose runs are recorded and end when the test asks. */
function world(
  options: {
    concurrency?: number;
    pool?: PQueue;
    clock?: FakeClock;
    random?: () => number;
    pathOf?: (key: string) => readonly string[];
  } = {},
) {
  const { concurrency = 1, pool = new PQueue({ concurrency: 64 }), clock = new FakeClock() } = options;
  const started: { key: string; at: number; signal: AbortSignal; end: (after?: After) => void }[] = [];
  const open = new Set<string>();
  let twice = 0;
  let paced = 0;
  const queue = new KeyedQueue({
    name: 'test',
    concurrency,
    pool,
    clock,
    random: options.random ?? (() => 0),
    log: pino({ level: 'silent' }),
    pathOf: options.pathOf,
    onPaced: () => paced++,
    run(key, signal) {
      if (open.has(key)) twice++;
      open.add(key);
      return new Promise<After>((resolve) => {
        started.push({
          key,
          at: clock.monotonic(),
          signal,
          end(after = nothing) {
            open.delete(key);
            resolve(after);
          },
        });
      });
    },
  });
  opened.push({ queue, clock });
  /** Ends the n-th run and lets follow what follows. */
  const end = async (n: number, after?: After): Promise<void> => {
    started[n]!.end(after);
    await settle();
  };
  return {
    queue,
    clock,
    pool,
    started,
    end,
    overlaps: () => twice,
    paced: () => paced,
    keys: () => started.map((run) => run.key),
  };
}

test('a key that is added often before its run runs once', async () => {
  const { queue, keys, end } = world();
  for (let n = 0; n < 5; n++) queue.add('a');
  await settle();
  await end(0);
  expect(keys()).toEqual(['a']);
});

test('a key that is added often during its run runs exactly once more, after it', async () => {
  const { queue, keys, end, overlaps } = world({ concurrency: 8 });
  queue.add('a');
  await settle();
  for (let n = 0; n < 5; n++) queue.add('a');
  await settle();
  expect(keys()).toEqual(['a']);
  await end(0);
  expect(keys()).toEqual(['a', 'a']);
  await end(1);
  expect(keys()).toEqual(['a', 'a']);
  expect(overlaps()).toBe(0);
});

test('a key that is added without end runs at its pace, and what was added last is run', async () => {
  const { queue, clock, started, keys, paced } = world();
  const { burst, everyMs } = limits.queue;
  const turn = async (): Promise<void> => {
    queue.add('often');
    await settle();
    started.at(-1)?.end();
    await settle();
  };
  for (let n = 0; n < 200; n++) await turn();
  expect(started).toHaveLength(burst);
  expect(paced()).toBe(1);
  for (let ms = 0; ms < 1000; ms += 10) {
    await clock.advance(10);
    await turn();
  }
  expect(started).toHaveLength(burst + 1000 / everyMs);
  queue.add('often');
  queue.add('seldom');
  await settle();
  expect(keys().at(-1)).toBe('seldom');
  started.at(-1)?.end();
  await clock.advance(everyMs);
  expect(keys().at(-1)).toBe('often');
  started.at(-1)?.end();
  await clock.advance(60_000);
  expect(started).toHaveLength(burst + 1000 / everyMs + 2);
});

test('a key that its own run adds without end runs at its pace', async () => {
  const { queue, clock, started } = world();
  queue.add('a', { urgent: true });
  await settle();
  for (let ms = 0; ms < 2000; ms += 10) {
    for (let n = 0; n < started.length; n++) {
      queue.add('a', { urgent: true });
      started[n]?.end();
      await settle(2);
    }
    await clock.advance(10);
  }
  const { burst, everyMs } = limits.queue;
  expect(started.length).toBeGreaterThan(burst);
  expect(started.length).toBeLessThanOrEqual(burst + 2000 / everyMs);
});

test('higher priorities run first, equal ones in the order of arrival', async () => {
  const { queue, keys, end } = world();
  queue.add('first');
  await settle();
  queue.add('low', { priority: -100 });
  queue.add('b');
  queue.add('c');
  queue.add('high', { priority: 10 });
  for (let n = 0; n < 5; n++) await end(n);
  expect(keys()).toEqual(['first', 'high', 'b', 'c', 'low']);
});

test('adding a key again raises its priority and never lowers it', async () => {
  const { queue, keys, end } = world();
  queue.add('first');
  await settle();
  queue.add('a', { priority: -100 });
  queue.add('b', { priority: -100 });
  queue.add('b');
  queue.add('b', { priority: -100 });
  for (let n = 0; n < 3; n++) await end(n);
  expect(keys()).toEqual(['first', 'b', 'a']);
});

test('the shortest of several delays counts', async () => {
  const { queue, clock, started } = world();
  queue.add('a', { delayMs: 1000 });
  queue.add('a', { delayMs: 200 });
  queue.add('a', { delayMs: 3000 });
  await clock.advance(199);
  expect(started).toHaveLength(0);
  await clock.advance(1);
  expect(started).toHaveLength(1);
  started[0]!.end();
  await clock.advance(10_000);
  expect(started).toHaveLength(1);
});

test('a run may ask for the next one after a delay', async () => {
  const { queue, clock, end, started } = world();
  queue.add('a');
  await settle();
  await end(0, { after: 'delay', ms: 500, priority: 0 });
  await clock.advance(499);
  expect(started).toHaveLength(1);
  await clock.advance(1);
  expect(started).toHaveLength(2);
});

test('a key added during its run does not wait for the delay that the run asks for', async () => {
  const { queue, end, started } = world();
  queue.add('a');
  await settle();
  queue.add('a');
  await end(0, { after: 'delay', ms: 500, priority: 0 });
  expect(started).toHaveLength(2);
});

test('the wait after the n-th failure lies between half and all of min(5 min, 200 ms · 2ⁿ)', () => {
  fc.assert(
    fc.property(fc.nat(100), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (failures, random) => {
      const cap = Math.min(300_000, 200 * 2 ** failures);
      const wait = backoff(failures, () => random);
      expect(wait).toBeGreaterThanOrEqual(cap / 2);
      expect(wait).toBeLessThanOrEqual(cap);
    }),
  );
});

test('a key that keeps failing waits longer each time, and starts anew after a success', async () => {
  const { queue, clock, started, end } = world({ random: () => 0 });
  queue.add('a');
  await settle();
  for (let n = 0; n < 4; n++) {
    await end(n, failure);
    await clock.advance(100 * 2 ** n - 1);
    expect(started).toHaveLength(n + 1);
    await clock.advance(1);
    expect(started).toHaveLength(n + 2);
  }
  await end(4);
  queue.add('a');
  await settle();
  await end(5, failure);
  await clock.advance(100);
  expect(started).toHaveLength(7);
});

test('a key that waits after a failure runs at once when it is added', async () => {
  const { queue, started, end } = world();
  queue.add('a');
  await settle();
  await end(0, failure);
  queue.add('a');
  await settle();
  expect(started).toHaveLength(2);
});

test('what is added during a failing run obeys the backoff', async () => {
  const { queue, clock, started, end } = world();
  queue.add('a');
  await settle();
  queue.add('a');
  await end(0, failure);
  expect(started).toHaveLength(1);
  await clock.advance(100);
  expect(started).toHaveLength(2);
});

test('a new desired state during a failing run does not obey the backoff and forgets the failures', async () => {
  const { queue, clock, started, end } = world();
  queue.add('a');
  await settle();
  await end(0, failure);
  await clock.advance(100);
  queue.add('a', { urgent: true });
  await end(1, failure);
  expect(started).toHaveLength(3);
  await end(2, failure);
  await clock.advance(100);
  expect(started).toHaveLength(4);
});

test('a new desired state of a key that waits after failures forgets them', async () => {
  const { queue, clock, started, end } = world();
  queue.add('a');
  await settle();
  for (let n = 0; n < 8; n++) {
    await end(n, failure);
    await clock.advance(backoff(n, () => 0));
  }
  await end(8, failure);
  queue.add('a', { urgent: true });
  await settle();
  await end(9, failure);
  const failedAt = clock.monotonic();
  await clock.advance(backoff(0, () => 0));
  expect(started[10]?.at).toBe(failedAt + backoff(0, () => 0));
});

test('a failed background run stays in the background', async () => {
  const { queue, clock, keys, end } = world();
  queue.add('a', { priority: -100 });
  await settle();
  await end(0, failure);
  queue.add('b');
  await settle();
  await clock.advance(1000);
  queue.add('c');
  await end(1);
  expect(keys()).toEqual(['a', 'b', 'c']);
});

test('no more runs than the concurrency of the queue, and no more of all queues than the pool allows', async () => {
  const pool = new PQueue({ concurrency: 5 });
  const one = world({ concurrency: 3, pool });
  const two = world({ concurrency: 3, pool });
  for (let n = 0; n < 10; n++) {
    one.queue.add(`a${n}`);
    two.queue.add(`b${n}`);
  }
  await settle();
  expect(one.started.length).toBe(3);
  expect(two.started.length).toBe(2);
  expect(one.queue.depth).toBe(7);
  expect(two.queue.depth).toBe(8);
});

/** Of a key such as `acme/shop/1`: the tenant, and the project of it. */
function pathOf(key: string): string[] {
  const [tenant = '', project = ''] = key.split('/');
  return [tenant, `${tenant}/${project}`];
}

test('a tenant whose runs hang holds half of the places and one project a third, and another begins at once', async () => {
  const { queue, started, keys, end } = world({ concurrency: 24, pathOf });
  for (let n = 0; n < 40; n++) queue.add(`acme/shop/${n}`);
  await settle();
  expect(started).toHaveLength(8);
  for (let n = 0; n < 40; n++) queue.add(`acme/blog/${n}`);
  await settle();
  expect(keys().slice(8)).toEqual(['acme/blog/0', 'acme/blog/1', 'acme/blog/2']);
  for (let n = 0; n < 40; n++) queue.add(`acme/p${n}/0`);
  await settle();
  expect(started).toHaveLength(12);
  const before = started.length;
  queue.add('other/app/0');
  await settle();
  expect(keys().slice(before)).toEqual(['other/app/0']);
  await end(before);
  queue.add('other/app/1', { priority: -100 });
  await settle();
  expect(keys().slice(before + 1)).toEqual(['other/app/1']);
});

test('those whose runs end take turns, and every key runs', async () => {
  const { queue, keys, started, end } = world({ concurrency: 1, pathOf });
  queue.add('acme/shop/first');
  await settle();
  for (let n = 0; n < 4; n++) queue.add(`acme/shop/${n}`);
  queue.add('other/app/0');
  queue.add('acme/blog/0');
  for (let n = 0; n < started.length; n++) await end(n);
  expect(keys().slice(1)).toEqual([
    'acme/shop/0',
    'other/app/0',
    'acme/blog/0',
    'acme/shop/1',
    'acme/shop/2',
    'acme/shop/3',
  ]);
});

test('a place that a stuck run loses is free for others of its tenant, once', async () => {
  const { queue, clock, keys, end } = world({ concurrency: 2, pathOf });
  queue.add('acme/shop/stuck');
  queue.add('acme/shop/next');
  queue.add('acme/shop/last');
  await settle();
  expect(keys()).toEqual(['acme/shop/stuck']);
  await clock.advance(limits.reconcile.deadlineMs + limits.reconcile.graceMs);
  expect(keys()).toEqual(['acme/shop/stuck', 'acme/shop/next']);
  await end(0);
  expect(keys()).toHaveLength(2);
  await end(1);
  expect(keys()).toEqual(['acme/shop/stuck', 'acme/shop/next', 'acme/shop/last']);
});

test('one queue with endless work does not keep another from running', async () => {
  const pool = new PQueue({ concurrency: 1 });
  const clock = new FakeClock();
  let runs = 0;
  const busy: KeyedQueue = new KeyedQueue({
    name: 'busy',
    concurrency: 1,
    pool,
    clock,
    random: () => 0,
    log: pino({ level: 'silent' }),
    run: () => {
      runs++;
      return Promise.resolve({ after: 'delay', ms: 0, priority: 0 } as const);
    },
  });
  opened.push({ queue: busy, clock });
  busy.add('a');
  const other = world({ pool, clock });
  other.queue.add('b');
  await settle();
  expect(runs).toBeGreaterThan(1);
  expect(other.keys()).toEqual(['b']);
});

test('a run that exceeds its deadline has its signal aborted and counts as what it answers', async () => {
  const { queue, clock, started } = world();
  queue.add('a');
  await settle();
  await clock.advance(limits.reconcile.deadlineMs - 1);
  expect(started[0]!.signal.aborted).toBe(false);
  await clock.advance(1);
  expect(started[0]!.signal.aborted).toBe(true);
});

test('a stuck run keeps its key, gives its place to others, and is counted until it ends', async () => {
  const { queue, clock, keys, started, overlaps } = world();
  queue.add('stuck');
  await settle();
  queue.add('other');
  queue.add('stuck');
  await clock.advance(limits.reconcile.deadlineMs + limits.reconcile.graceMs);
  expect(keys()).toEqual(['stuck', 'other']);
  expect(queue.stuck).toBe(1);
  started[1]!.end();
  await clock.advance(limits.reconcile.deadlineMs);
  queue.add('stuck');
  await settle();
  expect(keys()).toEqual(['stuck', 'other']);
  started[0]!.end();
  await settle();
  expect(queue.stuck).toBe(0);
  expect(keys()).toEqual(['stuck', 'other', 'stuck']);
  expect(overlaps()).toBe(0);
});

test('a run that throws fails its key and nothing else', async () => {
  const clock = new FakeClock();
  const runs: string[] = [];
  const queue = new KeyedQueue({
    name: 'test',
    concurrency: 1,
    pool: new PQueue(),
    clock,
    random: () => 0,
    log: pino({ level: 'silent' }),
    run(key) {
      runs.push(key);
      if (key === 'bad' && runs.length < 3) throw new Error('thrown, not rejected');
      return Promise.resolve(nothing);
    },
  });
  opened.push({ queue, clock });
  queue.add('bad');
  queue.add('good');
  await settle();
  expect(runs).toEqual(['bad', 'good']);
  await clock.advance(100);
  expect(runs).toEqual(['bad', 'good', 'bad']);
});

test('closing aborts the runs, waits for them, and starts nothing more', async () => {
  const { queue, clock, started } = world({ concurrency: 2 });
  queue.add('a');
  queue.add('b');
  queue.add('c');
  queue.add('later', { delayMs: 10 });
  await settle();
  let closed = false;
  const closing = queue[Symbol.asyncDispose]().then(() => (closed = true));
  expect(started.map((run) => run.signal.aborted)).toEqual([true, true]);
  await settle();
  expect(closed).toBe(false);
  queue.add('d');
  for (const run of started) run.end(failure);
  await closing;
  await clock.advance(1_000_000);
  expect(started).toHaveLength(2);
  expect(clock.pending).toBe(0);
});

test('closing does not wait forever for a run that ignores its signal', async () => {
  const { queue, clock } = world();
  queue.add('a');
  await settle();
  const closing = queue[Symbol.asyncDispose]();
  await clock.advance(limits.reconcile.graceMs);
  await closing;
  expect(queue.running).toBe(1);
});

test('depth and age are of the keys that could run, not of those that wait for their time', async () => {
  const { queue, clock, end } = world();
  queue.add('a');
  queue.add('b');
  queue.add('later', { delayMs: 60_000 });
  await clock.advance(5000);
  expect(queue.depth).toBe(1);
  expect(queue.oldestMs).toBe(5000);
  await end(0);
  expect(queue.depth).toBe(0);
  expect(queue.oldestMs).toBe(0);
});

test('a delay longer than a timer of the platform can hold does not fire early', async () => {
  const { queue, clock, started } = world();
  queue.add('a', { delayMs: 40 * 24 * 3_600_000 });
  await clock.advance(39 * 24 * 3_600_000);
  expect(started).toHaveLength(0);
  await clock.advance(24 * 3_600_000);
  expect(started).toHaveLength(1);
});

test('random histories: no key runs twice at once, and every added key runs after it was added last', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('add' as const), key: fc.nat(4), priority: fc.constantFrom(-100, 0, 5) }),
    fc.record({ do: fc.constant('end' as const), run: fc.nat(9), after: fc.constantFrom(nothing, failure) }),
    fc.record({ do: fc.constant('advance' as const), ms: fc.nat(400) }),
  );
  const shared = (key: string): string[] => [key < '3' ? 'acme' : 'other', key < '2' ? 'shop' : key];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (steps, isShared) => {
      const { queue, clock, started, overlaps } = world({ concurrency: 3, ...(isShared && { pathOf: shared }) });
      const ended = new Set<number>();
      const endRun = (n: number, after: After): void => {
        if (started[n] === undefined || ended.has(n)) return;
        ended.add(n);
        started[n].end(after);
      };
      const addedAtRun = new Map<string, number>();
      for (const it of steps) {
        if (it.do === 'add') {
          addedAtRun.set(String(it.key), started.length);
          queue.add(String(it.key), { priority: it.priority });
        } else if (it.do === 'end') endRun(it.run, it.after);
        else await clock.advance(it.ms);
        await settle(2);
      }
      for (let n = 0; n < 200 && (queue.running > 0 || queue.depth > 0); n++) {
        started.forEach((_, at) => endRun(at, nothing));
        await clock.advance(1000);
      }
      await clock.advance(1_000_000);
      started.forEach((_, at) => endRun(at, nothing));
      await settle();
      expect(overlaps()).toBe(0);
      for (const [key, from] of addedAtRun) expect(started.slice(from).map((run) => run.key)).toContain(key);
    }),
    { numRuns: 60 },
  );
});

test('the heap gives its items by due time, wherever they moved or left', () => {
  const commands = fc.array(fc.tuple(fc.nat(20), fc.nat(1000), fc.boolean()), { maxLength: 200 });
  fc.assert(
    fc.property(commands, (steps) => {
      const heap = new DueHeap<Due & { id: number }>();
      const items = Array.from({ length: 21 }, (_, id) => ({ id, due: 0, place: -1 }));
      for (const [id, due, isRemoval] of steps) {
        const item = items[id]!;
        if (isRemoval && item.place >= 0) heap.remove(item);
        else {
          item.due = due;
          heap.place(item);
        }
      }
      const inside = items.filter((item) => item.place >= 0).map((item) => item.due);
      const out: number[] = [];
      for (let next = heap.peek(); next !== undefined; next = heap.peek()) {
        heap.remove(next);
        out.push(next.due);
      }
      expect(out).toEqual(inside.sort((a, b) => a - b));
    }),
  );
});
