import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/**
 * What the event loop has still to do by itself: its next turn, and requests to the thread pool. The answers of the file
 * system are not among them: they come from threads, in an order that no seed decides. So while the world is driven they
 * are held back, and given one by one, in the order of the requests, when nothing else is left to be done.
 */
const work = /^Immediate$|Req(?!Promise$)/;

interface Held {
  answered: Promise<unknown>;
  give: () => void;
}

const held = new Set<Held>();
let drivers = 0;

/** Resolves when the event loop has nothing left to do: with a clock that stands still, the end of all consequences. */
export async function idle(): Promise<void> {
  drivers += 1;
  try {
    for (let quiet = 0; quiet < 2; quiet += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      const isBusy = isWorking();
      const [next] = held;
      if (isBusy || next !== undefined) quiet = -1;
      if (isBusy || next === undefined) continue;
      await next.answered;
      held.delete(next);
      next.give();
    }
  } finally {
    drivers -= 1;
  }
}

function isWorking(): boolean {
  return process.getActiveResourcesInfo().some((name) => work.test(name));
}

function hold<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const answered = answer.then(
      () => undefined,
      () => undefined,
    );
    const one: Held = { answered, give: () => void answer.then(resolve, reject) };
    held.add(one);
    void answered.then(() => {
      if (drivers === 0 && held.delete(one)) one.give();
    });
  });
}

/** Holds back the answers of all methods that answer with a promise. */
function holdBack(methods: object): void {
  for (const [name, { value, writable }] of Object.entries(Object.getOwnPropertyDescriptors(methods))) {
    if (typeof value !== 'function' || writable !== true || name === 'constructor') continue;
    Reflect.set(methods, name, function (this: unknown, ...args: unknown[]): unknown {
      const answer: unknown = Reflect.apply(value, this, args);
      return answer instanceof Promise ? hold(answer) : answer;
    });
  }
}

const someFile = await files.open('/dev/null');
holdBack(Object.getPrototypeOf(someFile));
await someFile.close();
holdBack(files);
syncBuiltinESMExports();
