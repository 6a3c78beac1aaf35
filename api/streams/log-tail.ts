import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogFollow, LogLine } from '../../agent-protocol/logs.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import type { Mirror } from '../../store/mirror.ts';
import { agentBack } from './agent-back.ts';
import { uncounted } from './gap.ts';
import { SharedLogChunk } from './log-chunk.ts';
import type { LogReader, LogSubscription } from './log-hub.ts';
import { createLogMatcher } from './log-matcher.ts';
import type { LogSink } from './log-sink.ts';
import type { StreamContext } from './stream.ts';

const limits = {
  /** Live lines that wait for a slow reader; with more, it reads from the server's disk until it has caught up. */
  pendingLines: 2000,
  pendingBytes: 4 * 1024 * 1024,
  pageLines: 5000,
  readTimeoutMs: 15_000,
} as const;

/** What a tail uses. */
export interface TailContext extends Pick<StreamContext, 'agents' | 'clock' | 'hub' | 'tenant'> {
  mirror: Pick<Mirror, 'key' | 'subscribeKeys'>;
}

/** Which lines of which server a tail sends, and where to. */
export interface TailOptions {
  server: string;
  follow: LogFollow;
  sink: LogSink;
  /**
   * Called once, before the first line, with the number after which the lines begin, where `follow` does not name it.
   */
  begins?: (after: number) => void;
  /** Where the lines begin if the agent cannot be asked for the last ones, RFC 3339: no later line is left out then. */
  orSince?: string;
  /** The limits of one of many tails of a reader. `turn` runs some of their reads at a time. */
  share?: {
    pendingLines: number;
    pendingBytes: number;
    pageLines: number;
    turn: <T>(read: () => Promise<T>) => Promise<T>;
  };
}

/**
 * One reader's stream of lines, each once and in order: first the stored lines, then the live ones. Line numbers join
 * the two. A reader that falls behind goes back to the stored lines. Nothing is lost except what the server lost, which
 * the stream reports.
 *
 * States: filling (reads pages while live lines wait) → live → filling again when too many lines wait or a gap is
 * possible.
 */
export class LogTail implements LogReader {
  readonly #ctx: TailContext;
  readonly #options: TailOptions;
  readonly #limits: Required<TailOptions>['share'];
  #follow: LogFollow;
  #matches: (line: LogLine) => boolean;
  #pending: SharedLogChunk[] = [];
  #pendingLines = 0;
  #pendingBytes = 0;
  #mustFill = true;
  /** Number of the last line that was sent or skipped; absent before the first read. */
  #seen: number | undefined;
  #wake = Promise.withResolvers<void>();
  #subscription: LogSubscription | undefined;

  constructor(ctx: TailContext, options: TailOptions) {
    this.#ctx = ctx;
    this.#options = options;
    this.#limits = options.share ?? { ...limits, turn: (read) => read() };
    this.#follow = options.follow;
    this.#matches = createLogMatcher(options.follow);
    this.#seen = options.follow.after_seq;
  }

  get isFull(): boolean {
    const { pendingLines, pendingBytes } = this.#limits;
    return this.#pendingLines >= pendingLines || this.#pendingBytes >= pendingBytes || this.#options.sink.isFull;
  }

  take(chunk: SharedLogChunk): void {
    if (this.#mustFill) return;
    this.#pending.push(chunk);
    this.#pendingLines += chunk.lines.length;
    this.#pendingBytes += chunk.bytes;
    const { pendingLines, pendingBytes } = this.#limits;
    if (this.#pendingLines > pendingLines || this.#pendingBytes > pendingBytes) this.#fillAgain();
    this.#wake.resolve();
  }

  lost(count: number): void {
    this.#options.sink.lost(count);
  }

  began(): void {
    this.#fillAgain();
    this.#wake.resolve();
  }

  /** Sends lines until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { hub, tenant } = this.#ctx;
    const { server, sink, follow } = this.#options;
    const isOver = (): boolean => signal.aborted;
    const wake = (): void => this.#wake.resolve();
    signal.addEventListener('abort', wake, { once: true });
    this.#subscription = hub.subscribe(tenant, server, follow.workload_id, this);
    try {
      while (!isOver()) {
        // Each turn follows a wait for the reader, in which live lines may have found it full.
        this.#subscription.hasRoom();
        sink.reading(this.#mustFill);
        if (this.#mustFill) await this.#fill(signal);
        else if (this.#sendPending()) await sink.drained();
        else {
          this.#wake = Promise.withResolvers();
          await this.#wake.promise;
        }
      }
    } finally {
      this.#subscription.end();
      signal.removeEventListener('abort', wake);
    }
  }

  /** The lines that were not sent yet are of these instances. */
  select(instances: readonly string[]): void {
    this.#follow = { ...this.#follow, instance_ids: [...instances] };
    this.#matches = createLogMatcher(this.#follow);
  }

  /**
   * Sends the stored lines that were not sent yet, once, at the end of a tail. Resolves with false if they could not be
   * read, as the agent did not answer.
   */
  async finish(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#readStored(signal);
      return true;
    } catch (error) {
      if (!(error instanceof CallError) && !signal.aborted) throw error;
      return false;
    }
  }

  #fillAgain(): void {
    this.#mustFill = true;
    this.#drop();
  }

  #drop(): void {
    this.#pending = [];
    this.#pendingLines = 0;
    this.#pendingBytes = 0;
  }

  /** Live lines wait meanwhile; if too many wait, filling starts again from the last line that was sent. */
  async #fill(signal: AbortSignal): Promise<void> {
    this.#mustFill = false;
    try {
      await this.#readStored(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CallError)) throw error;
      this.#beginSince();
      this.#fillAgain();
      this.#options.sink.reading(false);
      await agentBack(this.#ctx, this.#ctx.tenant, this.#options.server, signal);
    }
  }

  /** The agent could not be asked for the last lines: the lines begin at a time instead. */
  #beginSince(): void {
    const { orSince } = this.#options;
    if (this.#seen !== undefined || orSince === undefined) return;
    this.#seen = 0;
    this.#follow = { ...this.#follow, since: orSince };
    this.#matches = createLogMatcher(this.#follow);
  }

  async #readStored(signal: AbortSignal): Promise<void> {
    if (this.#seen === undefined) {
      await this.#sendLast(signal);
      await this.#options.sink.drained();
      return;
    }
    let after: number | undefined = this.#seen;
    while (after !== undefined && !signal.aborted) {
      after = await this.#sendAfter(after, signal);
      await this.#options.sink.drained();
    }
  }

  async #sendLast(signal: AbortSignal): Promise<void> {
    const follow = this.#follow;
    const { workload_id } = follow;
    const query = follow.tail > 0 ? follow : { workload_id, tail: 1 };
    const { lines } = await this.#read(query, signal);
    const last = lines.at(-1)?.seq ?? 0;
    this.#seen = last;
    if (follow.tail > 0) {
      this.#options.begins?.(Math.max(0, (lines[0]?.seq ?? 0) - 1));
      this.#send(new SharedLogChunk(lines));
    } else this.#options.begins?.(last);
  }

  /** Sends one page. Returns the number after which the next page begins, if there is one. */
  async #sendAfter(after: number, signal: AbortSignal): Promise<number | undefined> {
    const query: LogFollow = { ...this.#follow, tail: this.#limits.pageLines, after_seq: after };
    const page: LogPage = await this.#read(query, signal);
    const lost = page.lost_lines ?? lossOfEarlier(page);
    // lines before the start of a replay are no lost lines
    if (lost !== 0 && after > 0) this.#options.sink.lost(lost);
    this.#seen = Math.max(page.next_seq ?? 0, page.end_seq ?? 0, page.lines.at(-1)?.seq ?? 0, after);
    this.#send(new SharedLogChunk(page.lines));
    return page.next_seq;
  }

  async #read(query: LogFollow, signal: AbortSignal): Promise<LogPage> {
    const { agents, tenant } = this.#ctx;
    const options = { timeoutMs: limits.readTimeoutMs, signal };
    const { server } = this.#options;
    return answerOf(
      LogPage,
      await this.#limits.turn(() => agents.call(tenant, server, { method: 'logs.read', query }, options)),
    );
  }

  /** Sends the first live chunk that waits. Returns whether there was one. */
  #sendPending(): boolean {
    const chunk = this.#pending.shift();
    if (chunk === undefined) return false;
    this.#pendingLines -= chunk.lines.length;
    this.#pendingBytes -= chunk.bytes;
    const seen = this.#seen ?? 0;
    this.#send(chunk, (line) => line.seq > seen && this.#matches(line));
    this.#seen = Math.max(seen, chunk.lines.at(-1)?.seq ?? 0);
    return true;
  }

  #send(chunk: SharedLogChunk, matches: (line: LogLine) => boolean = () => true): void {
    this.#options.sink.send(chunk, matches);
  }
}

/** An agent of an earlier release does not tell how many lines are lost, nor lost ones from the limit of a page. */
function lossOfEarlier({ truncated, next_seq }: LogPage): number {
  return truncated && next_seq === undefined ? uncounted : 0;
}
