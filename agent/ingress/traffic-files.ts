import { appendFile, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { trafficForMs } from '../../agent-protocol/traffic.ts';
import { Tenure } from './address-book.ts';
import { StoredCounts } from './traffic-counts.ts';

/**
 * What was counted since the record before, with how far the log was read for it: both are stored by one write, so that a
 * request is counted once also if the agent is killed.
 */
const TrafficRecord = z.object({
  position: z.object({ file: z.string(), offset: z.int() }).optional(),
  /** Windows of which everything is known: from the first to before the second. */
  known: z.tuple([z.int(), z.int()]),
  /** Windows in which requests may be missing. */
  partial: z.array(z.int()),
  pieces: z.array(z.tuple([z.int(), z.string(), z.string().nullable(), StoredCounts])),
  tenures: z.array(Tenure),
});
type TrafficRecord = z.infer<typeof TrafficRecord>;

const segmentMs = 600_000;
const keptMs = trafficForMs + segmentMs;
const mostSegments = 16;
const mostSegmentBytes = 4 * 1024 * 1024;
const segmentName = /^(\d{13,16})\.jsonl$/;

/**
 * The records of an hour in files of ten minutes: at most 16 of about 4 MiB each. A power cut may lose the last ones, whose
 * requests are counted again then.
 */
export class TrafficFiles {
  readonly #folder: string;
  #current: { path: string; begun: number; bytes: number } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Nothing was stored yet. */
  get isNew(): boolean {
    return this.#current === undefined;
  }

  /** The records that there are, the oldest first. A damaged one is left out with all that follow it in its file. */
  async load(): Promise<TrafficRecord[]> {
    const records: TrafficRecord[] = [];
    for (const name of await this.#segments()) {
      const path = join(this.#folder, name);
      const text = await readFile(path, 'utf8').catch(() => '');
      const lines = text.split('\n');
      const end = lines.pop();
      const found = lines.map((line) => TrafficRecord.safeParse(parsed(line)));
      const damaged = found.findIndex(({ success }) => !success);
      for (const { data } of damaged === -1 ? found : found.slice(0, damaged))
        if (data !== undefined) records.push(data);
      const isWhole = damaged === -1 && end === '';
      this.#current = isWhole ? { path, begun: numberOf(name), bytes: text.length } : undefined;
    }
    return records;
  }

  /**
   * Keeps a record. `whole` is what a new file begins with, which holds what files before it may be forgotten with.
   * @throws Error if the disk does not take it
   */
  async append(record: TrafficRecord, whole: () => Pick<TrafficRecord, 'tenures' | 'partial'>, now: number) {
    const current = this.#current;
    const isOver =
      current === undefined ||
      current.bytes > mostSegmentBytes ||
      now < current.begun ||
      now - current.begun > segmentMs;
    const next = isOver ? await this.#begin(now) : current;
    const line = `${JSON.stringify(isOver ? { ...record, ...whole() } : record)}\n`;
    this.#current = undefined; // what was written by half ends its file
    await appendFile(next.path, line, { mode: 0o600 });
    this.#current = { ...next, bytes: next.bytes + line.length };
  }

  /** Removes what is stored. */
  async clear(): Promise<void> {
    this.#current = undefined;
    for (const name of await this.#segments()) await rm(join(this.#folder, name), { force: true });
  }

  async #begin(now: number): Promise<{ path: string; begun: number; bytes: number }> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = await this.#segments();
    for (const [n, name] of names.entries()) {
      // a file ends where the next one begins
      const end = names[n + 1] === undefined ? Infinity : numberOf(names[n + 1]);
      if (end < now - keptMs || n < names.length - mostSegments + 1)
        await rm(join(this.#folder, name), { force: true });
    }
    const number = Math.max(now, numberOf(names.at(-1)) + 1); // in order, also after the clock went back
    const path = join(this.#folder, `${number}.jsonl`);
    return { path, begun: now, bytes: 0 };
  }

  async #segments(): Promise<string[]> {
    const names = (await readdir(this.#folder).catch(() => [])).filter((name) => segmentName.test(name));
    return names.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1));
  }
}

function numberOf(name = ''): number {
  return Number(segmentName.exec(name)?.[1] ?? 0);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown; // its form is checked by the caller
  } catch {
    return undefined;
  }
}
