import { checkList } from '../check-list.ts';
import { checkTtl } from '../check-ttl.ts';
import { checkTxn } from '../check-txn.ts';
import type { Clock } from '../../time/clock.ts';
import { guardHolds } from '../guard-holds.ts';
import { keys } from '../keys.ts';
import { isCompacted, isFull, rewound, unavailable } from '../errors.ts';
import type { Revision } from '../revision.ts';
import type {
  Batch,
  Entry,
  KeyRange,
  Lease,
  ListOptions,
  Page,
  Store,
  StoreHealth,
  StoreSize,
  Txn,
  TxnResult,
} from '../store.ts';
import type { Endpoints } from './endpoints.ts';
import { meansCompacted, meansFuture, meansNoSpace, toCommitError, toFullUnknown, toStoreError } from './failure.ts';
import { markKey } from './history.ts';
import type { History } from './history.ts';
import { grantLease } from './lease.ts';
import { watch } from './watch.ts';
import type { WatchContext } from './watch.ts';
import { keyAfter, toBounds, toCompare, toEntry, toOperation } from './wire.ts';

/** The store in an etcd cluster. Keys of other programs do no harm, but share its room, history and backups. */
export class EtcdStore implements Store, AsyncDisposable {
  readonly #endpoints: Endpoints;
  readonly #history: History;
  readonly #clock: Clock;
  readonly #quotaBytes: number;
  readonly #closed = new AbortController();

  /** `quotaBytes`: size of the database at which the members refuse writes. */
  constructor(endpoints: Endpoints, history: History, clock: Clock, quotaBytes: number) {
    this.#quotaBytes = quotaBytes;
    this.#endpoints = endpoints;
    this.#history = history;
    this.#clock = clock;
  }

  get incarnation(): string {
    return this.#history.incarnation;
  }

  async get(key: string): Promise<Entry | undefined> {
    return this.#attempt(`read "${key}"`, async () => {
      const { header, kvs } = await this.#endpoints.repeatable(({ client, options }) =>
        client.kv.range({ key: Buffer.from(key) }, options),
      );
      this.#history.observe(header);
      return kvs[0] && toEntry(kvs[0]);
    });
  }

  async list(range: KeyRange, options: ListOptions = {}): Promise<Page> {
    checkList(options);
    return this.#attempt(`list "${range.prefix}"`, async () => {
      try {
        return await this.#list(range, options);
      } catch (error) {
        const { at } = options;
        if (at !== undefined && meansCompacted(error)) throw await this.#compactedBelow(range, at);
        if (at !== undefined && meansFuture(error))
          throw rewound(this.incarnation, `wanted revision ${at}, which is above the one of the store`);
        throw error;
      }
    });
  }

  async #list(range: KeyRange, { limit = 1000, after, at }: ListOptions): Promise<Page> {
    const bounds = toBounds(range);
    const next = keyAfter(after ?? '');
    const key = bounds.key.compare(next) < 0 ? next : bounds.key;
    const { header, kvs, more } = await this.#endpoints.repeatable(({ client, options }) =>
      client.kv.range({ ...bounds, key, limit, ...(at === undefined ? {} : { revision: at }) }, options),
    );
    const now = this.#history.observe(header);
    const entries = kvs.map(toEntry);
    const last = entries.at(-1);
    return { entries, revision: at ?? now, ...(more && last !== undefined ? { next: last.key } : {}) };
  }

  /** Finds how far etcd has compacted: etcd reports it only to a watch that starts below that revision. */
  async #compactedBelow(range: KeyRange, at: Revision): Promise<unknown> {
    const probe = new AbortController();
    try {
      for await (const _ of this.watch(range, at, probe.signal)) break;
    } catch (error) {
      if (isCompacted(error)) return error;
      throw error;
    } finally {
      probe.abort();
    }
    return unavailable(`the history at revision ${at} is being compacted`);
  }

  async txn(txn: Txn): Promise<TxnResult> {
    checkTxn(txn);
    return this.#attempt('commit', async () => {
      const sent = await this.#send(txn);
      if ('written' in sent) return { committed: true, revision: sent.written };
      const { header, succeeded, responses } = sent;
      const revision = this.#history.observe(header);
      if (succeeded) return { committed: true, revision };
      const found = responses.map(({ response_range: { kvs } }) => kvs[0] && toEntry(kvs[0]));
      const failed = txn.if
        .map((guard, index) => ({ guard, current: found[index] }))
        .filter(({ guard, current }) => !guardHolds(guard, current?.modRevision))
        .map(({ guard, current }) => (current === undefined ? { guard } : { guard, current }));
      return { committed: false, revision, failed };
    });
  }

  async #send(txn: Txn) {
    try {
      return await this.#endpoints.once(({ client, options }) =>
        client.kv.txn(
          {
            compare: txn.if.map(toCompare),
            success: txn.then.map(toOperation),
            failure: txn.if.map((guard) => ({ request_range: { key: Buffer.from(guard.key) } })),
          },
          options,
        ),
      );
    } catch (error) {
      const failure = toCommitError(error);
      if (!isFull(failure)) throw failure;
      const written = await this.#writtenAlthoughFull(txn, error);
      if (written === undefined) throw failure;
      return { written };
    }
  }

  /**
   * Finds out whether a full etcd applied a transaction that it refused. etcd applies the write that first exceeds the
   * quota, and refuses it with the same error as those that it does not apply (`quotaApplierV3` in its
   * server/etcdserver/apply.go). A key that the transaction guards and puts shows the outcome. Returns the revision of
   * the write; `undefined` if there was none. @throws StoreError full with `mayBeWritten` if no key shows it
   */
  async #writtenAlthoughFull(txn: Txn, error: unknown): Promise<Revision | undefined> {
    for (const write of txn.then) {
      if (!('put' in write)) continue;
      const guard = txn.if.find(({ key }) => key === write.put);
      if (guard === undefined || guard.is === 'present') continue; // such a guard holds before and after the write
      const now = await this.get(write.put).catch(() => 'unknown' as const);
      if (now === 'unknown') break;
      if (guardHolds(guard, now?.modRevision)) return undefined;
      if (now?.value === write.value) return now.modRevision;
      break;
    }
    throw toFullUnknown(error);
  }

  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch> {
    return watch(this.#context(), range, from, signal);
  }

  async lease(ttlMs: number): Promise<Lease> {
    checkTtl(ttlMs);
    return this.#attempt('grant a lease', () => grantLease(this.#context(), ttlMs));
  }

  async revision(): Promise<Revision> {
    return this.#attempt('read the revision', async () => {
      const { header } = await this.#endpoints.repeatable(({ client, options }) =>
        client.kv.range({ key: markKey, count_only: true }, options),
      );
      return this.#history.observe(header);
    });
  }

  async barrier(): Promise<Revision> {
    const { revision } = await this.txn({ if: [], then: [{ put: keys.meta('barrier'), value: '' }] });
    return revision;
  }

  /**
   * The largest member counts: one full member makes the cluster refuse writes. etcd reuses the space that compaction
   * freed inside a file before the file grows. A file at the quota is full, whatever is free in it.
   */
  async size(): Promise<StoreSize> {
    return this.#attempt('ask for the size', async () => {
      const members = await this.#endpoints.each(({ client, options }) => client.maintenance.status(options));
      if (members.length === 0) throw unavailable('no member reports its size');
      const bytes = Math.max(...members.map((it) => Number(it.dbSize)));
      const used = Math.max(...members.map((it) => Number(it.dbSizeInUse)));
      const isFull = bytes >= this.#quotaBytes || members.some(({ errors }) => errors.some(meansNoSpace));
      return { bytes, room: isFull ? 0 : this.#quotaBytes - used };
    });
  }

  async health(): Promise<StoreHealth> {
    const begun = performance.now();
    const revision = await this.barrier();
    const written = performance.now();
    await this.revision();
    const readMs = performance.now() - written;
    return this.#attempt('ask for the state of the members', async () => {
      // Both may be for the root user of etcd alone. Its members then are those that answer; they tell their alarms, too.
      const [listed, raised, answers] = await Promise.all([
        this.#endpoints
          .repeatable(({ client, options }) => client.cluster.memberList({}, options))
          .then(({ members }) => members.map(({ ID, name }) => ({ id: ID, name })))
          .catch(() => undefined),
        this.#endpoints
          .repeatable(({ client, options }) => client.maintenance.alarm({ action: 'Get' }, options))
          .then(({ alarms }) => alarms.map(({ alarm }) => String(alarm)))
          .catch(() => undefined),
        this.#endpoints.each(({ client, options }) => client.maintenance.status(options)),
      ]);
      const members = listed ?? answers.map(({ header }) => ({ id: header.member_id, name: header.member_id }));
      return {
        backend: 'etcd',
        writeMs: written - begun,
        readMs,
        revision,
        quotaBytes: this.#quotaBytes,
        alarms: [...new Set(raised ?? answers.flatMap(({ errors }) => errors))],
        members: members.map(({ id, name }) => {
          const it = answers.find(({ header }) => header.member_id === id);
          if (it === undefined) return { name };
          const { version, dbSize, dbSizeInUse, leader, isLearner } = it;
          const sizes = { bytes: Number(dbSize), usedBytes: Number(dbSizeInUse) };
          return { name, status: { version, ...sizes, isLeader: leader === id, isLearner } };
        }),
      };
    });
  }

  async compact(before: Revision): Promise<void> {
    return this.#attempt(`compact history below revision ${before}`, async () => {
      try {
        await this.#endpoints.repeatable(({ client, options }) => client.kv.compact({ revision: before }, options));
      } catch (error) {
        if (meansFuture(error)) throw rewound(this.incarnation, `compaction wanted revision ${before}`);
        if (!meansCompacted(error)) throw error;
      }
    });
  }

  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#endpoints.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #context(): WatchContext {
    const closed = this.#closed.signal;
    return { endpoints: this.#endpoints, history: this.#history, clock: this.#clock, closed };
  }

  /** Turns every error of `call` into an error of the contract; `what` names what was attempted. */
  async #attempt<T>(what: string, call: () => Promise<T>): Promise<T> {
    if (this.#closed.signal.aborted) throw unavailable('the store was closed');
    try {
      return await call();
    } catch (error) {
      throw toStoreError(error, what);
    }
  }
}
