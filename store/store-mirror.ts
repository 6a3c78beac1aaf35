import { wait } from '../time/clock.ts';
import { isCompacted, isRewound, isUnavailable, rewound, unavailable } from './errors.ts';
import { parseConnections } from './connections.ts';
import { parseHeldRemovals } from './held-removals.ts';
import { afterUnmirrored, keys } from './keys.ts';
import { MirrorContent } from './mirror-content.ts';
import type { Difference, KeyState } from './mirror-content.ts';
import { MirrorBarrier } from './mirror-barrier.ts';
import { MirrorCheck } from './mirror-check.ts';
import type { CheckedMirror } from './mirror-check.ts';
import { mirrorMetrics, noMirrorMetrics } from './mirror-metrics.ts';
import type { MirrorMetrics } from './mirror-metrics.ts';
import type { KeyChange, Mirror, MirrorOptions, ObjectChange, TenantView } from './mirror.ts';
import { Pages } from './pages.ts';
import { revision } from './revision.ts';
import type { Revision } from './revision.ts';
import type { Batch, Change, Entry } from './store.ts';
import type { Usage } from './usage.ts';

const limits = {
  /** Keys of one page of a list. */
  page: 1000,
  firstRetryMs: 100,
  /** Longest wait before a watch, which costs the store little: without one readers are refused. */
  maxRetryMs: 1000,
  /** Longest wait between lists one after another, which cost the store much. */
  maxListRetryMs: 30_000,
} as const;

/** A list of everything that is not complete yet. */
interface Listing {
  pages: Pages;
  /** Of the store, when it was begun. */
  incarnation: string;
  /** The revision of all pages, once there is one. */
  at?: Revision;
  entries: Entry[];
}

type Cause = Parameters<MirrorMetrics['interrupted']>[0];

/** Starts the mirror of a store. It fills in the background: see `ready`. */
export function startMirror(options: MirrorOptions): Mirror & AsyncDisposable {
  return new StoreMirror(options);
}

/** The mirror's loop; see `Mirror` for its contract. */
class StoreMirror implements Mirror, AsyncDisposable {
  readonly #options: MirrorOptions;
  readonly #content: MirrorContent;
  readonly #metrics: MirrorMetrics;
  readonly #ready = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  readonly #loop: Promise<unknown>;
  readonly #check: MirrorCheck | undefined;
  readonly #objectListeners = new Set<(change: ObjectChange) => void>();
  readonly #keyListeners = new Set<(change: KeyChange) => void>();
  readonly #barrier: MirrorBarrier;
  readonly #waiters = new Set<{ revision: Revision; resolve: () => void }>();
  #applied = revision(0);
  #received = 0;
  #isReady = false;
  /** Incarnation of the history that the content belongs to. */
  #incarnation: string | undefined;
  /** The watch cannot go on from what was applied. */
  #mustList = true;
  /** Attempts, and lists that were begun, since a watch last delivered anything. */
  #attempts = 0;
  #lists = 0;
  #fillings = 0;
  /** True from the first attempt to list until one succeeds. */
  #isListing = false;
  /** The list that goes on with the page that the store did not answer. */
  #listing: Listing | undefined;
  /** Ends the watch that is running. */
  #watching: AbortController | undefined;

  constructor(options: MirrorOptions) {
    const { store, log, freeze = true, registry } = options;
    const content = new MirrorContent({ log, freeze });
    this.#options = options;
    this.#content = content;
    this.#barrier = new MirrorBarrier(store, options.clock, this.#applied);
    this.#metrics = registry
      ? mirrorMetrics(registry, {
          applied: () => this.#applied,
          isReady: () => this.#isReady,
          unreadable: () => content.unreadable.size,
          objects: () => content.counts(),
          lag: async () => Math.max(0, (await store.revision()) - this.#applied),
        })
      : noMirrorMetrics;
    this.#ready.promise.catch(() => undefined); // `close` may reject it before it is filled, with no caller waiting
    this.#check = this.#checkOf(options);
    this.#loop = Promise.all([this.#run(this.#stop.signal), this.#check?.run(this.#stop.signal)]);
  }

  #checkOf({ store, clock, random = Math.random, log, checkEveryMs }: MirrorOptions): MirrorCheck | undefined {
    if (checkEveryMs === undefined) return undefined;
    const mirror: CheckedMirror = {
      content: this.#content,
      state: () => {
        if (!this.#isReady || this.#isListing) return { is: 'listing' };
        if (!this.#isOfThisHistory) return { is: 'outlived' };
        return { is: 'current', filling: this.#fillings, applied: this.#applied };
      },
      reached: (wanted, signal) => this.reached(wanted, signal),
      correct: (changes) => this.#correct(changes),
      distrust: (reason) => this.#watching?.abort(reason),
    };
    return new MirrorCheck({ store, clock, random, log, metrics: this.#metrics, mirror, everyMs: checkEveryMs });
  }

  get applied(): Revision {
    return this.#isOfThisHistory ? this.#applied : revision(0);
  }

  get received(): number {
    return this.#received;
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  tenant(tenant: string): TenantView {
    const content = this.#content;
    const { seals } = this.#options;
    return {
      tenant,
      isSame: (one, other) => seals?.isSame(tenant, one, other) ?? one.$sealed === other.$sealed,
      get: (kind, id) => content.table(tenant, kind).get(id),
      by: (kind, index, value) => content.table(tenant, kind).by(index, value),
      list: (kind) => content.table(tenant, kind).list(),
      unreadable: (kind) => content.unreadableOf(tenant, kind),
      agent: (server) => content.agent(tenant, server),
      heldRemovals: (server) => {
        const record = content.key(keys.removals(tenant, server));
        return record && parseHeldRemovals(record.value);
      },
      connections: (server) => parseConnections(content.key(keys.connections(tenant, server))),
    };
  }

  get usage(): Usage {
    return this.#content.usage;
  }

  tenants(): readonly string[] {
    return this.#content.tenants();
  }

  key(key: string): { value: string; revision: Revision } | undefined {
    return this.#content.key(key);
  }

  keysUnder(prefix: string): readonly { key: string; value: string; revision: Revision }[] {
    return this.#content.keysUnder(prefix);
  }

  subscribe(listener: (change: ObjectChange) => void): () => void {
    return addTo(this.#objectListeners, listener);
  }

  subscribeKeys(listener: (change: KeyChange) => void): () => void {
    return addTo(this.#keyListeners, listener);
  }

  reached(wanted: Revision, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isOfThisHistory && this.#applied >= wanted) {
        resolve();
        return;
      }
      if (signal.aborted) {
        reject(signal.reason as Error); // as in `wait`
        return;
      }
      const waiter = {
        revision: wanted,
        resolve: () => {
          signal.removeEventListener('abort', abort);
          resolve();
        },
      };
      const abort = (): void => {
        this.#waiters.delete(waiter);
        if (this.#waiters.size === 0) this.#barrier.unawaited();
        reject(signal.reason as Error); // as in `wait`
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#waiters.add(waiter);
      this.#barrier.awaited();
    });
  }

  /** Whether the content is of the store's history: in another one the same revision means something else. */
  get #isOfThisHistory(): boolean {
    return this.#isReady && this.#incarnation === this.#options.store.incarnation;
  }

  async close(): Promise<void> {
    const closed = new Error('Mirror is closed');
    this.#stop.abort(closed);
    this.#barrier.close();
    this.#ready.reject(closed);
    await this.#loop;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random = Math.random } = this.#options;
    for (;;) {
      try {
        if (this.#mustList || !this.#isOfThisHistory) await this.#fill(signal);
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#interrupted(error);
      }
      this.#attempts += 1;
      const most = Math.max(backoff(this.#attempts, limits.maxRetryMs), backoff(this.#lists, limits.maxListRetryMs));
      try {
        await wait(clock, most * (0.5 + random() / 2), signal);
      } catch {
        return; // only the signal ends the wait early
      }
    }
  }

  /** Lists everything at one revision, and becomes equal to it in one step. */
  async #fill(signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    this.#isListing = true;
    const { at, entries, incarnation } = await this.#listAll(signal);
    signal.throwIfAborted();
    const initial = !this.#isReady;
    const sameHistory = this.#incarnation === incarnation;
    const difference = this.#content.replace(entries, { revision: at, sameHistory, initial });
    this.#incarnation = incarnation;
    this.#mustList = false;
    this.#isListing = false;
    this.#listing = undefined;
    this.#fillings += 1;
    this.#isReady = true;
    this.#applied = at;
    log.info(
      { revision: at, entries: entries.length, objects: difference.objects.length, initial },
      'mirror is filled',
    );
    this.#notify(difference);
    this.#ready.resolve();
    this.#wake();
    this.#barrier.moved(at, this.#waiters.size > 0, true);
  }

  /** Lists everything, or what an earlier call could not list as the store did not answer. */
  async #listAll(signal: AbortSignal): Promise<Listing & { at: Revision }> {
    const { store } = this.#options;
    const { incarnation } = store;
    if (this.#listing?.incarnation !== incarnation) {
      const pages = new Pages(store, { most: limits.page, after: afterUnmirrored, isPinned: true });
      this.#listing = { pages, incarnation, entries: [] };
    }
    const listing = this.#listing;
    for (;;) {
      const page = await listing.pages.next();
      signal.throwIfAborted();
      if (page === undefined) break;
      if (listing.at === undefined) this.#lists += 1;
      listing.at ??= page.revision;
      listing.entries.push(...page.entries);
    }
    const { at } = listing;
    if (at === undefined) throw new Error('A list has at least one page');
    return { ...listing, at };
  }

  /** Watches the store and applies its batches. Ends by throwing only. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { store } = this.#options;
    if (!this.#isOfThisHistory) throw rewound(store.incarnation, 'the store was replaced while it was listed');
    const from = revision(this.#applied + 1);
    const watching = new AbortController();
    this.#watching = watching;
    const stop = AbortSignal.any([signal, watching.signal]);
    for await (const batch of store.watch(keys.all, from, stop)) this.#apply(batch);
    stop.throwIfAborted();
    throw unavailable('the watch ended by itself');
  }

  #apply(batch: Batch): void {
    this.#check?.delivered(batch);
    for (const { key, value } of batch.events) this.#received += key.length + (value?.length ?? 0);
    for (const changes of revisionsOf(batch)) {
      const [{ revision: at }] = changes;
      const difference = this.#content.apply(changes, at);
      this.#applied = at;
      this.#notify(difference);
    }
    this.#applied = batch.revision;
    this.#attempts = 0;
    this.#lists = 0;
    this.#wake();
    this.#barrier.moved(batch.revision, this.#waiters.size > 0);
  }

  #correct(changes: readonly KeyState[]): void {
    this.#notify(this.#content.apply(changes, this.#applied));
  }

  #interrupted(error: unknown): void {
    const cause: Cause = causeOf(error);
    this.#mustList ||= cause !== 'unavailable';
    if (cause !== 'unavailable') this.#listing = undefined;
    if (cause === 'rewound') this.#incarnation = undefined;
    this.#metrics.interrupted(cause);
    const fields = { cause, applied: this.#applied, err: error };
    if (cause === 'failed') this.#options.log.error(fields, 'mirror failed');
    else this.#options.log.warn(fields, 'mirror is interrupted');
  }

  #notify({ objects, keys: changed }: Difference): void {
    for (const change of changed) this.#notifyAll(this.#keyListeners, change);
    for (const change of objects) this.#notifyAll(this.#objectListeners, change);
  }

  /** A listener that throws is a defect of its owner: the other listeners and the mirror go on. */
  #notifyAll<T>(listeners: ReadonlySet<(change: T) => void>, change: T): void {
    for (const listener of listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#options.log.error({ err: error }, 'listener of the mirror failed');
      }
    }
  }

  #wake(): void {
    for (const waiter of this.#waiters) {
      if (waiter.revision > this.#applied) continue;
      this.#waiters.delete(waiter);
      waiter.resolve();
    }
  }
}

function addTo<T>(listeners: Set<(change: T) => void>, listener: (change: T) => void): () => void {
  // Each subscription has its own function, so that a listener that is added twice is called twice.
  const own = (change: T): void => listener(change);
  listeners.add(own);
  return () => void listeners.delete(own);
}

/** The wait in milliseconds after the `n`-th time. */
function backoff(n: number, mostMs: number): number {
  return Math.min(mostMs, limits.firstRetryMs * 2 ** (n - 1));
}

function causeOf(error: unknown): Cause {
  if (isUnavailable(error)) return 'unavailable';
  if (isCompacted(error)) return 'compacted';
  return isRewound(error) ? 'rewound' : 'failed';
}

/** The changes of a batch, grouped by revision and in its order. */
function revisionsOf({ events }: Batch): [Change, ...Change[]][] {
  const groups: [Change, ...Change[]][] = [];
  for (const event of events) {
    const last = groups.at(-1);
    if (last && last[0].revision === event.revision) last.push(event);
    else groups.push([event]);
  }
  return groups;
}
