import type { ServerLogPage, ServerLogQuery } from '../../agent-protocol/logs.ts';
import { matcher } from './matcher.ts';
import { pageBytes, scannedBytesMost } from './query.ts';
import type { StoredLine } from './record.ts';
import { disorderMs, toLogLine } from './record.ts';
import type { WorkloadLog } from './workload-log.ts';

/** The place of a line in the order of arrival; lines that arrived in the same millisecond are ordered by workload. */
interface Place {
  arrived: number;
  workload: string;
  seq: number;
}

/** One workload in a merge: its lines, a block at a time. */
interface Lane {
  workload: string;
  blocks: AsyncIterator<readonly StoredLine[]>;
  lines: readonly StoredLine[];
  /** Index of the next line. */
  next: number;
  /** Place of the next line; while it is not read, a place that is not after it. */
  place: Place;
}

/** Shorter than other blocks, as there is one per workload; longer than the longest stored line. */
const blockBytes = 64 * 1024;
const start: Place = { arrived: -1, workload: '', seq: 0 };

/**
 * Reads one page of the lines of several workloads that arrived before `cut`; see {@link ServerLogQuery}. A page that
 * begins at the cursor of another one has each line that the other one had not, and no other line.
 */
export async function readServerPage(
  logs: readonly (readonly [id: string, log: WorkloadLog])[],
  query: ServerLogQuery,
  cut: number,
  signal: AbortSignal,
): Promise<ServerLogPage> {
  const found = new Found(query);
  const after = query.cursor === undefined ? undefined : parsePlace(query.cursor);
  const page = await (after === undefined
    ? lastLines(logs, found, cut, signal)
    : linesAfter(logs, found, after, cut, signal));
  const { place, ...rest } = page;
  return { lines: found.inTimeOrder(), cursor: formatPlace(place), ...rest };
}

type Page = Omit<ServerLogPage, 'lines' | 'cursor'> & { place: Place };

async function lastLines(
  logs: readonly (readonly [string, WorkloadLog])[],
  found: Found,
  cut: number,
  signal: AbortSignal,
): Promise<Page> {
  const { since } = found.match;
  const lanes = logs.map(([workload, log]): Lane => {
    const place = { arrived: log.lastArrived, workload, seq: log.lastSeq };
    return laneOf(
      workload,
      log.backward(() => true, blockBytes),
      place,
      (lines) => lines.toReversed(),
    );
  });
  let newest: Place | undefined;
  for await (const { workload, lines } of merged(lanes, (a, b) => compare(b, a))) {
    for (const line of lines) {
      if (line.arrived >= cut) continue;
      newest ??= { arrived: line.arrived, workload, seq: line.seq };
      // No line arrives before its time, except those that an earlier release stored.
      if (line.arrived + disorderMs < since) return { place: newest, more: false, truncated: false };
      const taken = found.take(workload, line);
      if (taken !== 'room') return { place: newest, more: false, truncated: taken === 'full' };
    }
    if (signal.aborted) return { place: newest ?? start, more: false, truncated: true };
  }
  return { place: newest ?? start, more: false, truncated: false };
}

async function linesAfter(
  logs: readonly (readonly [string, WorkloadLog])[],
  found: Found,
  after: Place,
  cut: number,
  signal: AbortSignal,
): Promise<Page> {
  let lost = false;
  const lanes: Lane[] = [];
  for (const [workload, log] of logs) {
    if (log.lastArrived < after.arrived) continue;
    const isAfter = ({ arrived, seq }: { arrived: number; seq: number }): boolean =>
      compare({ arrived, workload, seq }, after) > 0;
    const from = await log.seekTo(isAfter);
    lost ||= from.lost && after.arrived >= 0;
    lanes.push(laneOf(workload, blocksFrom(log, from.cursor), { ...after, workload, seq: 0 }, (lines) => lines));
  }
  let place = after;
  for await (const { workload, lines } of merged(lanes, compare)) {
    for (const line of lines) {
      if (line.arrived >= cut) return { place, more: false, truncated: lost, lost };
      const taken = found.take(workload, line);
      if (taken === 'full') return { place, more: true, truncated: true, lost };
      const here = { arrived: line.arrived, workload, seq: line.seq };
      // The arrivals that an earlier release left behind may go back; the cursor does not.
      if (compare(here, place) > 0) place = here;
      if (taken === 'enough') return { place, more: true, truncated: lost, lost };
    }
    if (signal.aborted) return { place, more: true, truncated: true, lost };
  }
  return { place, more: false, truncated: lost, lost };
}

/** The lines that match, until there are as many as wanted or as fit into an answer. */
class Found {
  readonly match: ReturnType<typeof matcher>;
  readonly #most: number;
  readonly #lines: { at: number; line: ServerLogPage['lines'][number] }[] = [];
  #bytes = 0;
  #scanned = 0;

  constructor(query: ServerLogQuery) {
    this.match = matcher(query);
    this.#most = query.tail;
  }

  /** `full`: the line was not taken. `enough`: it was, and no more are wanted. */
  take(workload: string, line: StoredLine): 'room' | 'enough' | 'full' {
    if (this.#scanned > scannedBytesMost) return 'full';
    this.#scanned += line.message.length;
    if (!this.match.matches(line)) return 'room';
    const shown = { ...toLogLine(line), workload_id: workload };
    this.#bytes += JSON.stringify(shown).length + 1;
    if (this.#bytes > pageBytes) return 'full';
    this.#lines.push({ at: line.at, line: shown });
    return this.#lines.length >= this.#most ? 'enough' : 'room';
  }

  inTimeOrder(): ServerLogPage['lines'] {
    const sorted = this.#lines.toSorted(
      (a, b) =>
        a.at - b.at ||
        (a.line.workload_id === b.line.workload_id
          ? a.line.seq - b.line.seq
          : a.line.workload_id < b.line.workload_id
            ? -1
            : 1),
    );
    return sorted.map(({ line }) => line);
  }
}

function laneOf(
  workload: string,
  blocks: AsyncIterable<StoredLine[]>,
  place: Place,
  order: (lines: StoredLine[]) => readonly StoredLine[],
): Lane {
  const ordered = async function* (): AsyncGenerator<readonly StoredLine[]> {
    for await (const block of blocks) if (block.length > 0) yield order(block);
  };
  return { workload, blocks: ordered(), lines: [], next: 0, place };
}

async function* blocksFrom(
  log: WorkloadLog,
  from: Awaited<ReturnType<WorkloadLog['seekTo']>>['cursor'],
): AsyncGenerator<StoredLine[]> {
  for (let cursor = from; ;) {
    const read = await log.forward(cursor, blockBytes);
    cursor = read.cursor;
    if (read.lines.length === 0) return;
    yield read.lines;
  }
}

/** Yields the lines of all lanes in the order of `order`, as runs of lines of one workload. */
async function* merged(
  lanes: readonly Lane[],
  order: (a: Place, b: Place) => number,
): AsyncGenerator<{ workload: string; lines: readonly StoredLine[] }> {
  const queue = lanes.toSorted((a, b) => order(a.place, b.place));
  for (let lane = queue.shift(); lane !== undefined; lane = queue.shift()) {
    if (lane.next === lane.lines.length) {
      const block = await lane.blocks.next();
      if (block.done === true) continue;
      lane.lines = block.value;
      lane.next = 0;
    } else {
      const from = lane.next;
      const other = queue[0]?.place;
      do lane.next += 1;
      while (lane.next < lane.lines.length && (other === undefined || order(placeOf(lane, lane.next), other) < 0));
      yield { workload: lane.workload, lines: lane.lines.slice(from, lane.next) };
    }
    lane.place = placeOf(lane, Math.min(lane.next, lane.lines.length - 1));
    insert(queue, lane, order);
  }
}

function placeOf({ workload, lines, place }: Lane, index: number): Place {
  const line = lines[index];
  return line === undefined ? place : { arrived: line.arrived, workload, seq: line.seq };
}

function insert(queue: Lane[], lane: Lane, order: (a: Place, b: Place) => number): void {
  let low = 0;
  let high = queue.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = queue[middle];
    if (other !== undefined && order(other.place, lane.place) < 0) low = middle + 1;
    else high = middle;
  }
  queue.splice(low, 0, lane);
}

function compare(a: Place, b: Place): number {
  if (a.arrived !== b.arrived) return a.arrived - b.arrived;
  if (a.workload !== b.workload) return a.workload < b.workload ? -1 : 1;
  return a.seq - b.seq;
}

function formatPlace({ arrived, seq, workload }: Place): string {
  return arrived < 0 ? '0' : `${arrived}-${seq}-${workload}`;
}

/** @throws RangeError if the text is not a place */
function parsePlace(text: string): Place {
  if (text === '0') return start;
  const [, arrived, seq, workload] = /^(\d{1,16})-(\d{1,15})-([0-9A-Za-z-]{1,64})$/.exec(text) ?? [];
  if (arrived === undefined || seq === undefined || workload === undefined)
    throw new RangeError(`Cannot read cursor ${JSON.stringify(text)}: read without a cursor`);
  return { arrived: Number(arrived), workload, seq: Number(seq) };
}
