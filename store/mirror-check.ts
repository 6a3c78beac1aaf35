import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import { wait } from '../time/clock.ts';
import type { Clock } from '../time/clock.ts';
import { StoreError } from './errors.ts';
import { afterUncompared } from './keys.ts';
import type { KeyState, MirrorContent } from './mirror-content.ts';
import type { MirrorMetrics } from './mirror-metrics.ts';
import { Pages } from './pages.ts';
import type { Revision } from './revision.ts';
import type { Batch, Entry, Store } from './store.ts';

const limits = {
  /** Keys of one page of a list. */
  page: 100,
  /** Wait after a check that could not be finished. */
  retryMs: 30_000,
  /** A watch that delivers nothing for this long, although the store is ahead of it, counts as dead. */
  silentMs: 60_000,
  /** Keys that may change while everything is listed; if more do, the check is given up. */
  changed: 100_000,
  /** Keys that a line of the log names. */
  named: 20,
} as const;

type State =
  /** Empty, or being listed anew. */
  | { is: 'listing' }
  /** The store has another history, and the watch has yet to end. */
  | { is: 'outlived' }
  | { is: 'current'; filling: number; applied: Revision };

/** The parts of the mirror that a check uses. */
export interface CheckedMirror {
  readonly content: MirrorContent;
  state(): State;
  reached(revision: Revision, signal: AbortSignal): Promise<void>;
  /** Takes over changes that no watch delivered. */
  correct(changes: readonly KeyState[]): void;
  /** Ends the watch, so that everything is listed anew. */
  distrust(reason: Error): void;
}

interface Options {
  store: Pick<Store, 'list'>;
  clock: Clock;
  random: () => number;
  log: Logger;
  metrics: MirrorMetrics;
  mirror: CheckedMirror;
  /** Longest time from one check to the next. */
  everyMs: number;
}

/**
 * Compares the mirror with the whole store from time to time. So a change that a watch lost, or that the mirror applied
 * wrongly, is corrected within minutes. The embedded store is compared, too: its watch loses nothing on the way, but a
 * defect in reading its log or in the mirror would stay as well, and a check of it costs milliseconds.
 *
 * All pages are of one revision. They are compared once the watch has delivered everything up to it. A key that the
 * watch has changed since the check began is not compared: the mirror's state of it is as new as the list, or newer.
 * Every other key must be as it is in the list.
 */
export class MirrorCheck {
  readonly #options: Options;
  /** Keys that the watch changed since the running check began. */
  #changed: Set<string> | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Called with each batch of the watch, before it is applied. */
  delivered({ events }: Batch): void {
    if (this.#changed === undefined || this.#changed.size > limits.changed) return;
    for (const { key } of events) this.#changed.add(key);
  }

  /** Ends by the signal alone. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, everyMs } = this.#options;
    for (let isFinished = true; ; isFinished = await this.#check(signal)) {
      // replicas that started together drift apart, and `everyMs` includes the duration of a check
      const pause = isFinished ? everyMs * (0.7 + random() * 0.2) : limits.retryMs * (0.5 + random() / 2);
      try {
        await wait(clock, pause, signal);
      } catch {
        return; // only the signal ends the wait early
      }
    }
  }

  /** Compares once. @returns whether everything was compared. */
  async #check(signal: AbortSignal): Promise<boolean> {
    const { log } = this.#options;
    const changed = new Set<string>();
    this.#changed = changed;
    try {
      return await this.#compare(changed, signal);
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof StoreError)
        log.warn({ err: error }, 'cannot compare the mirror with the store: the next check tries again');
      else log.error({ err: error }, 'check of the mirror failed');
      return false;
    } finally {
      this.#changed = undefined;
    }
  }

  async #compare(changed: ReadonlySet<string>, signal: AbortSignal): Promise<boolean> {
    const { store, mirror, metrics } = this.#options;
    const state = mirror.state();
    if (state.is === 'outlived') mirror.distrust(new Error('the store has another history, and the watch did not end'));
    if (state.is !== 'current') return false;
    const isComparable = (): boolean => {
      const now = mirror.state();
      return now.is === 'current' && now.filling === state.filling && changed.size <= limits.changed;
    };
    const listed = new Set<string>();
    const differing: Entry[] = [];
    let at: Revision | undefined;
    for await (const page of new Pages(store, { most: limits.page, after: afterUncompared, isPinned: true })) {
      if (at === undefined && !(await this.#isDelivered(page.revision, signal))) {
        signal.throwIfAborted();
        this.#suspect(state.applied, page.revision);
        return false;
      }
      at ??= page.revision;
      signal.throwIfAborted();
      if (!isComparable()) return false;
      for (const entry of page.entries) {
        listed.add(entry.key);
        if (!mirror.content.holds(entry)) differing.push(entry);
      }
      await nextTurn();
    }
    signal.throwIfAborted();
    if (at === undefined || !isComparable()) return false;
    const wrong = [...differing.map(toState), ...mirror.content.besides(listed, at)];
    const changes = wrong.filter(({ key }) => !changed.has(key));
    metrics.compared(changes.length);
    if (changes.length > 0) this.#correct(changes, at);
    return true;
  }

  /** Distrusts a watch that has not moved; one that moved at all is slow, not dead. */
  #suspect(before: Revision, at: Revision): void {
    const { mirror } = this.#options;
    const now = mirror.state();
    if (now.is !== 'current' || now.applied !== before) return;
    const text = `the watch delivered nothing after revision ${before} in ${limits.silentMs} ms: the store is at ${at}`;
    mirror.distrust(new Error(text));
  }

  #correct(changes: readonly KeyState[], at: Revision): void {
    const { log, mirror } = this.#options;
    const named = changes.slice(0, limits.named).map(({ key }) => key);
    log.error(
      { revision: at, count: changes.length, keys: named },
      'mirror differed from the store and is corrected: a change was lost on its way, or taken wrongly',
    );
    mirror.correct(changes);
  }

  /** Whether the watch delivers everything up to the revision in time. */
  async #isDelivered(at: Revision, signal: AbortSignal): Promise<boolean> {
    const { clock, mirror } = this.#options;
    const late = new AbortController();
    const cancel = clock.timer(limits.silentMs, () => late.abort());
    try {
      await mirror.reached(at, AbortSignal.any([signal, late.signal]));
      return true;
    } catch {
      return false; // only one of the signals ends the wait early
    } finally {
      cancel();
    }
  }
}

function toState({ key, value, modRevision, createRevision }: Entry): KeyState {
  return { key, value, revision: modRevision, created: createRevision };
}
