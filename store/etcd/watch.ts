import type { Readable } from 'node:stream';
import type { IDuplexStream, IWatchRequest, IWatchResponse } from 'etcd3';
import type { Clock } from '../../time/clock.ts';
import { compacted, unavailable } from '../errors.ts';
import { revision } from '../revision.ts';
import type { Revision } from '../revision.ts';
import type { Batch, Change, KeyRange } from '../store.ts';
import type { Endpoints } from './endpoints.ts';
import { toStoreError } from './failure.ts';
import type { History } from './history.ts';
import { toBounds, toChange } from './wire.ts';

/** After this long without a message the server is asked for one; after as long again it counts as gone. */
const quietMs = 10_000;

/** What a watch uses of the store that it belongs to. */
export interface WatchContext {
  endpoints: Endpoints;
  history: History;
  clock: Clock;
  /** Aborts when the store closes. */
  closed: AbortSignal;
}

/**
 * One raw stream per watch. The position follows delivered events and timed progress notifications only: the headers of
 * a stream that is catching up carry the revision of the store, which does not show what was delivered.
 */
export async function* watch(
  context: WatchContext,
  range: KeyRange,
  from: Revision,
  signal: AbortSignal,
): AsyncGenerator<Batch, void, void> {
  const stop = AbortSignal.any([signal, context.closed]);
  try {
    await Promise.race([context.history.check(from), aborted(stop)]);
    yield* follow(context, range, from, stop);
  } catch (error) {
    if (!stop.aborted) throw toStoreError(error, `watch "${range.prefix}" from revision ${from}`);
  }
  if (!signal.aborted) throw unavailable('the store was closed');
}

/** Ends when `stop` aborts or by throwing. */
async function* follow(
  { endpoints, history, clock }: WatchContext,
  range: KeyRange,
  from: Revision,
  stop: AbortSignal,
): AsyncGenerator<Batch, void, void> {
  if (stop.aborted) return;
  const { stream, failed } = await endpoints.stream((client) => client.watchClient.watch());
  const next = reader(stream, clock, failed);
  const cancel = (): void => {
    stream.end();
    stream.cancel();
  };
  stop.addEventListener('abort', cancel, { once: true });
  try {
    stream.write({ create_request: createRequest(range, from) });
    const position = new Position(from);
    while (!stop.aborted) {
      const response = await next();
      if (response.canceled) throw canceled(response);
      if (response.created) {
        // A member that lags behind may report a lower revision than the cluster's, so the cluster is asked again.
        if (revision(response.header.revision) < from - 1) await history.check(from);
        continue;
      }
      if (response.watch_id === answerToProgressRequest) continue;
      const batch = position.advance(response);
      if (batch !== undefined) yield batch;
    }
  } finally {
    stop.removeEventListener('abort', cancel);
    cancel();
  }
}

/** Watch id of such an answer, which carries the revision of the member and not of the watch. */
const answerToProgressRequest = '-1';

/**
 * Asks the server to start one revision early: it refuses positions below its compaction point, but at that very point
 * it may have dropped deletions already.
 */
function createRequest(range: KeyRange, from: Revision): NonNullable<IWatchRequest['create_request']> {
  const start = String(Math.max(from - 1, 1));
  return { ...toBounds(range), start_revision: start, progress_notify: true, prev_kv: true, fragment: true };
}

function canceled(response: IWatchResponse): Error {
  const compactRevision = revision(response.compact_revision);
  if (compactRevision > 0) return compacted(compactRevision);
  return unavailable(`etcd canceled the watch: ${response.cancel_reason}`);
}

/** Joins fragments into whole revisions and remembers up to which revision they were delivered. */
class Position {
  #cursor: Revision;
  #incomplete: Change[] = [];

  constructor(from: Revision) {
    this.#cursor = from;
  }

  advance({ header, events, fragment }: IWatchResponse): Batch | undefined {
    if (events.length === 0) return fragment ? undefined : this.#progress(revision(header.revision));
    const changes = [...this.#incomplete, ...events.map(toChange).filter((it) => it.revision >= this.#cursor)];
    const last = changes.at(-1);
    this.#incomplete = fragment ? changes.filter((it) => it.revision === last?.revision) : [];
    const whole = changes.slice(0, changes.length - this.#incomplete.length);
    const reached = whole.at(-1);
    if (reached === undefined) return undefined;
    this.#cursor = revision(reached.revision + 1);
    return { revision: reached.revision, events: whole };
  }

  /**
   * A timed progress notification: everything up to that revision was sent before it. A member that lags behind the
   * start of the watch sends a lower revision, which must not move the position back.
   */
  #progress(reached: Revision): Batch | undefined {
    if (reached < this.#cursor || this.#incomplete.length > 0) return undefined;
    this.#cursor = revision(reached + 1);
    return { revision: reached, events: [] };
  }
}

/** Reads one response at a time: behind a slow consumer flow control stops the server, and no buffer fills. */
function reader(
  stream: IDuplexStream<IWatchRequest, IWatchResponse>,
  clock: Clock,
  failed: () => void,
): () => Promise<IWatchResponse> {
  // The typings declare only its events, but it is a Duplex of Node.
  const responses = (stream as unknown as Readable)[Symbol.asyncIterator]() as AsyncIterator<IWatchResponse>;
  return async () => {
    const silence = new AbortController();
    const ask = (): void => {
      stream.write({ progress_request: {} });
      cancelTimer = clock.timer(quietMs, () => {
        silence.abort();
        stream.cancel();
      });
    };
    let cancelTimer = clock.timer(quietMs, ask);
    try {
      const result = await responses.next();
      if (result.done === true) throw unavailable('etcd ended the watch');
      return result.value;
    } catch (error) {
      failed();
      throw silence.signal.aborted ? unavailable(`the watch heard nothing for ${2 * quietMs} ms`, error) : error;
    } finally {
      cancelTimer();
    }
  };
}

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
