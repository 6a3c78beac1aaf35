import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../../store/open.ts';
import { revision } from '../../store/revision.ts';
import type { Store } from '../../store/store.ts';
import { startEtcd } from '../../test/harness/etcd.ts';

/**
 * Raw figures of the stores: the cost of one guarded transaction of two 1 KiB values with 1, 16 and 64 in flight, and
 * the time from a commit to a watch. Everything else is measured as a ratio to these.
 */
const value = 'x'.repeat(1024);
const rounds = 5;
const seconds = 2;

interface Figures {
  perSecond: number;
  p50: number;
  p99: number;
}

async function transactions(store: Store, inFlight: number, name: string): Promise<Figures> {
  const times: number[] = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  const worker = async (id: number): Promise<void> => {
    for (let n = 0; performance.now() < end; n++) {
      const key = `/bench/${name}/${id}/${n}`;
      const sent = performance.now();
      await store.txn({
        if: [{ key, is: 'absent' }],
        then: [
          { put: key, value },
          { put: `${key}/o`, value },
        ],
      });
      times.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, id) => worker(id)));
  return figures(times, performance.now() - start);
}

async function commitToWatch(store: Store): Promise<Figures> {
  const stop = new AbortController();
  const sent = new Map<string, number>();
  const times: number[] = [];
  const start = performance.now();
  const from = revision((await store.revision()) + 1);
  const watched = (async () => {
    for await (const { events } of store.watch({ prefix: '/latency/' }, from, stop.signal))
      for (const { key } of events) times.push(performance.now() - (sent.get(key) ?? 0));
  })();
  for (let n = 0; n < 500; n++) {
    sent.set(`/latency/${n}`, performance.now());
    await store.txn({ if: [], then: [{ put: `/latency/${n}`, value }] });
  }
  while (times.length < 500) await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await watched;
  return figures(times, performance.now() - start);
}

function figures(times: number[], elapsedMs: number): Figures {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return { perSecond: (times.length / elapsedMs) * 1000, p50: at(0.5), p99: at(0.99) };
}

function report(what: string, all: Figures[]): void {
  const middle = (pick: (it: Figures) => number): number =>
    all.map(pick).toSorted((a, b) => a - b)[all.length >> 1] ?? 0;
  const rates = all.map((it) => it.perSecond);
  const range = `${Math.min(...rates).toFixed(0)}–${Math.max(...rates).toFixed(0)}`;
  const [rate, p50, p99] = [middle((it) => it.perSecond), middle((it) => it.p50), middle((it) => it.p99)];
  console.log(
    `${what.padEnd(34)} ${rate.toFixed(0).padStart(7)}/s (${range})  p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms`,
  );
}

const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
const etcd = await startEtcd([], { onDisk: true });
try {
  for (const [name, url] of [
    ['SQLite file', `sqlite:${join(folder, 'store.db')}`],
    ['etcd', `etcd://${etcd.host}`],
  ] as const) {
    await using store = await openStore(url);
    for (const inFlight of [1, 16, 64]) {
      const all: Figures[] = [];
      for (let round = 0; round < rounds; round++)
        all.push(await transactions(store, inFlight, `${inFlight}-${round}`));
      report(`${name}: transactions, ${inFlight} in flight`, all);
    }
    const all: Figures[] = [];
    for (let round = 0; round < rounds; round++) {
      all.push(await commitToWatch(store));
      const page = await store.list({ prefix: '/latency/' });
      for (const { key } of page.entries) await store.txn({ if: [], then: [{ delete: key }] });
    }
    report(`${name}: commit to watch`, all);
  }
} finally {
  await etcd[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
}
