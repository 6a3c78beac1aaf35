import type { AuditRecord } from '../../store/audit/record.ts';
import type { Clock } from '../../time/clock.ts';

const windowMs = 15 * 60_000;
/** Distinct records of one tenant in one window. */
const perWindow = 100;

interface Counted {
  record: AuditRecord;
  /** Further requests of the same kind. */
  count: number;
}

interface Window {
  since: string;
  known: Map<string, Counted>;
  /** Requests beyond `perWindow` distinct ones. */
  others: number;
  cancel: () => void;
}

/**
 * Bounds what a refused or unknown caller can make the store write. The first request of a caller (or an address) for
 * an object and a route is recorded at once. The same requests within 15 minutes are counted in one more record at the
 * end; all requests beyond 100 distinct ones share a single record. So each replica writes at most 201 such records per
 * tenant in 15 minutes. Failed logins are throttled besides: 10 per account and 50 per address.
 */
export class CountingWindow implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #write: (record: AuditRecord) => Promise<void>;
  readonly #windows = new Map<string, Window>();
  readonly #writing = new Set<Promise<void>>();

  /** `write` must not throw. */
  constructor(clock: Clock, write: (record: AuditRecord) => Promise<void>) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Resolves when the record is written, or counted. */
  async add(record: AuditRecord): Promise<void> {
    const window = this.#windows.get(record.tenant) ?? this.#open(record);
    const key = keyOf(record);
    const known = window.known.get(key);
    if (known !== undefined) known.count += 1;
    else if (window.known.size >= perWindow) window.others += 1;
    else {
      window.known.set(key, { record, count: 0 });
      await this.#write(record);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const tenant of this.#windows.keys()) this.#close(tenant);
    await Promise.all(this.#writing);
  }

  #open({ tenant, at }: AuditRecord): Window {
    const cancel = this.#clock.timer(windowMs, () => this.#close(tenant));
    const window: Window = { since: at, known: new Map(), others: 0, cancel };
    this.#windows.set(tenant, window);
    return window;
  }

  #close(tenant: string): void {
    const window = this.#windows.get(tenant);
    if (window === undefined) return;
    window.cancel();
    this.#windows.delete(tenant);
    const { since, others } = window;
    const at = this.#clock.now().toISOString();
    const records = [...window.known.values()]
      .filter(({ count }) => count > 0)
      .map(({ record, count }): AuditRecord => ({ ...record, at, count, since }));
    if (others > 0)
      records.push({ v: 1, at, route: '*', result: 'refused', tenant, objects: [], count: others, since });
    const written = Promise.all(records.map((record) => this.#write(record))).then(() => undefined);
    this.#writing.add(written);
    void written.then(() => this.#writing.delete(written));
  }
}

/** Records with the same key are counted together. */
function keyOf({ route, result, user, key_id, source, objects }: AuditRecord): string {
  const about = objects.map(({ kind, id }) => `${kind}/${id}`);
  return JSON.stringify([route, result, user?.id, key_id, user === undefined ? source : '', ...about]);
}
