import { pino } from 'pino';
import { campaign } from '../../controllers/runtime/leader.ts';
import type { Term } from '../../controllers/runtime/leader.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Store } from '../../store/store.ts';

/** A candidate for a leadership that records its terms. */
export interface TestCandidate extends AsyncDisposable {
  readonly terms: readonly Term[];
  /** Resolves with the n-th term, counted from 0, when it begins. */
  term(n: number): Promise<Term>;
  isLeading(): boolean;
  stop(): Promise<void>;
}

/** Starts to run for the leadership of that name, which each test has for itself. */
export function startCandidate(
  { store, mirror, clock }: { store: Store; mirror: Mirror; clock: Clock },
  { name, replica, random = () => 0.5 }: { name: string; replica: string; random?: () => number },
): TestCandidate {
  const end = new AbortController();
  const terms: Term[] = [];
  const begun: PromiseWithResolvers<Term>[] = [];
  const nth = (n: number): PromiseWithResolvers<Term> => (begun[n] ??= Promise.withResolvers());
  let held = 0;
  const lead = (term: Term): Promise<void> => {
    nth(terms.push(term) - 1).resolve(term);
    held += 1;
    return new Promise((resolve) => {
      const over = (): void => {
        held -= 1;
        resolve();
      };
      if (term.signal.aborted) over();
      else term.signal.addEventListener('abort', over, { once: true });
    });
  };
  const log = pino({ level: 'silent' });
  const done = campaign({ store, mirror, clock, random, log, name, replica }, lead, end.signal);
  const stop = async (): Promise<void> => {
    end.abort();
    await done;
  };
  return {
    terms,
    term: (n) => nth(n).promise,
    isLeading: () => held > 0,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
