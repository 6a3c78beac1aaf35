import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { LogStore } from '../agent/logs/log-store.ts';
import { systemClock } from '../time/clock.ts';
import type { Bench } from './bench.ts';
import { timed } from './measure.ts';

const workloads = 32;
const linesEach = 10_000;
const chunk = 100;
const pageLines = 5000;
const rounds = 5;
const line = 'GET /some/path/of/a/page 200 in 12 ms, 3456 bytes, from 192.0.2.17';

export const bench: Bench = {
  id: 'P19',
  async run({ compareAll }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const store = stack.use(
      await LogStore.open({
        folder,
        maxBytes: 4e9,
        segmentBytes: 8 * 1024 * 1024,
        retentionDays: 7,
        clock: systemClock,
        log: pino({ level: 'silent' }),
      }),
    );
    const { signal } = new AbortController();
    const ids = Array.from({ length: workloads }, () => crypto.randomUUID());
    for (let n = 0; n < linesEach; n += chunk)
      for (const id of ids) {
        const at = Date.now();
        const entry = { at, stream: 'stdout', level: 'info', instance: id, message: line } as const;
        await store.append(
          id,
          Array.from({ length: chunk }, () => entry),
          signal,
        );
      }
    for (const id of ids) await store.flushed(id);

    const all = workloads * linesEach;
    await compareAll({
      figures: {
        merged: {
          what: `${all} lines of ${workloads} workloads of a server, read in pages in the order of arrival; raw: the lines of the files`,
          unit: 'per s',
        },
        sought: { what: 'the same, searched for a text that no line has', unit: 'per s' },
      },
      rounds,
      raw: async () => {
        const merged = (all * 1000) / (await timed(() => countLines(folder, ids)));
        return { merged, sought: merged };
      },
      ours: async () => ({
        merged: (all * 1000) / (await timed(() => readAll(store, undefined, all))),
        sought: (all * 1000) / (await timed(() => readAll(store, 'of no line', 0))),
      }),
    });
  },
};

/** Reads from the first line to the last one. @throws Error if it did not get that number of lines */
async function readAll(store: LogStore, search: string | undefined, expected: number): Promise<void> {
  const { signal } = new AbortController();
  let lines = 0;
  let cursor = '0';
  for (let more = true; more;) {
    const query = { tail: pageLines, cursor, ...(search !== undefined && { search }) };
    const page = await store.readServer(query, signal);
    lines += page.lines.length;
    ({ cursor, more } = page);
  }
  if (lines !== expected) throw new Error(`Of ${expected} lines ${lines} were read`);
}

async function countLines(folder: string, ids: readonly string[]): Promise<void> {
  let lines = 0;
  for (const id of ids)
    for (const name of await readdir(join(folder, id))) {
      const text = await readFile(join(folder, id, name), 'latin1');
      lines += text.split('\n').length - 1;
    }
  if (lines < workloads * linesEach) throw new Error(`The files have only ${lines} lines`);
}
