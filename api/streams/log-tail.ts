import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogFollow, LogLine } from '../../agent-protocol/logs.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import { agentBack } from './agent-back.ts';
import type { Channel } from './channel.ts';
import { SharedLogChunk } from './log-chunk.ts';
import type { LogSource } from './log-frames.ts';
import type { LogReader, LogSubscription } from './log-hub.ts';
import { createLogMatcher } from './log-matcher.ts';
import type { StreamContext } from './stream.ts';

const limits = {
  /** Live lines that wait for a slow reader; with more, it reads from the server's disk until it has caught up. */
  pendingLines: 2000,
  pageLines: 5000,
  readTimeoutMs: 15_000,
} as const;

/** Which lines of which server a tail sends, and the object that it shows as their source. */
export interface TailOptions {
  server: string;
  follow: LogFollow;
  source: LogSource;
  channel: Channel;
  /**
   * Called once, before the first line, with the number after which the lines begin, where `follow` does not name it.
   */
  begins?: (after: number) => void;
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
  readonly #ctx: StreamContext;
  readonly #options: TailOptions;
  readonly #matches: (line: LogLine) => boolean;
  #pending: SharedLogChunk[] = [];
  #pendingLines = 0;
  #mustFill = true;
  /** Number of the last line that was sent or skipped; absent before the first read. */
  #seen: number | undefined;
  #wake = Promise.withResolvers<void>();
  #subscription: LogSubscription | undefined;

  constructor(ctx: StreamContext, options: TailOptions) {
    this.#ctx = ctx;
    this.#options = options;
    this.#matches = createLogMatcher(options.follow);
    this.#seen = options.follow.after_seq;
  }

  get isFull(): boolean {
    return this.#pendingLines >= limits.pendingLines || this.#options.channel.isFull;
  }

  take(chunk: SharedLogChunk): void {
    if (this.#mustFill) return;
    this.#pending.push(chunk);
    this.#pendingLines += chunk.lines.length;
    if (this.#pendingLines > limits.pendingLines) this.#fillAgain();
    this.#wake.resolve();
  }

  lost(count: number): void {
    this.#options.channel.send({ type: 'gap', dropped: count });
  }

  began(): void {
    this.#fillAgain();
    this.#wake.resolve();
  }

  /** Sends lines until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { hub, tenant } = this.#ctx;
    const { server, follow } = this.#options;
    const isOver = (): boolean => signal.aborted;
    const wake = (): void => this.#wake.resolve();
    signal.addEventListener('abort', wake, { once: true });
    this.#subscription = hub.subscribe(tenant, server, follow.workload_id, this);
    try {
      while (!isOver()) {
        if (this.#mustFill) await this.#fill(signal);
        else if (this.#pending.length > 0) await this.#flush();
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

  /**
   * Sends the stored lines that were not sent yet, once, at the end of a tail. Sends nothing if the agent is not
   * connected.
   */
  async finish(signal: AbortSignal): Promise<void> {
    try {
      await this.#readStored(signal);
    } catch (error) {
      if (!(error instanceof CallError) && !signal.aborted) throw error;
    }
  }

  #fillAgain(): void {
    this.#mustFill = true;
    this.#pending = [];
    this.#pendingLines = 0;
  }

  /** Live lines wait meanwhile; if too many wait, filling starts again from the last line that was sent. */
  async #fill(signal: AbortSignal): Promise<void> {
    this.#mustFill = false;
    try {
      await this.#readStored(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CallError)) throw error;
      this.#fillAgain();
      await agentBack(this.#ctx, this.#ctx.tenant, this.#options.server, signal);
    }
  }

  async #readStored(signal: AbortSignal): Promise<void> {
    const { follow } = this.#options;
    if (this.#seen === undefined) await this.#readLast(follow, signal);
    else await this.#readAfter(this.#seen, signal);
  }

  async #readLast(follow: LogFollow, signal: AbortSignal): Promise<void> {
    const { workload_id } = follow;
    const query = follow.tail > 0 ? follow : { workload_id, tail: 1 };
    const { lines } = await this.#read(query, signal);
    const last = lines.at(-1)?.seq ?? 0;
    this.#seen = last;
    if (follow.tail > 0) {
      this.#options.begins?.(Math.max(0, (lines[0]?.seq ?? 0) - 1));
      await this.#send(new SharedLogChunk(lines));
    } else this.#options.begins?.(last);
  }

  async #readAfter(seen: number, signal: AbortSignal): Promise<void> {
    let after: number | undefined = seen;
    while (after !== undefined && !signal.aborted) {
      const query: LogFollow = { ...this.#options.follow, tail: limits.pageLines, after_seq: after };
      const page: LogPage = await this.#read(query, signal);
      const [first] = page.lines;
      // neither the end of a page nor lines before the start of a replay are lost lines
      const isCut = page.truncated && page.next_seq === undefined && after > 0;
      if (isCut) this.lost(Math.max(1, (first?.seq ?? 0) - after - 1));
      this.#seen = Math.max(page.next_seq ?? 0, page.lines.at(-1)?.seq ?? 0, after);
      await this.#send(new SharedLogChunk(page.lines));
      after = page.next_seq;
    }
  }

  async #read(query: LogFollow, signal: AbortSignal): Promise<LogPage> {
    const { agents, tenant } = this.#ctx;
    const options = { timeoutMs: limits.readTimeoutMs, signal };
    return LogPage.parse(await agents.call(tenant, this.#options.server, { method: 'logs.read', query }, options));
  }

  async #flush(): Promise<void> {
    const chunks = this.#pending;
    this.#pending = [];
    this.#pendingLines = 0;
    for (const chunk of chunks) {
      const seen = this.#seen ?? 0;
      await this.#send(chunk, (line) => line.seq > seen && this.#matches(line));
      this.#seen = Math.max(seen, chunk.lines.at(-1)?.seq ?? 0);
      if (this.#mustFill) break;
    }
    this.#subscription?.hasRoom();
  }

  async #send(chunk: SharedLogChunk, matches: (line: LogLine) => boolean = () => true): Promise<void> {
    const { channel, source } = this.#options;
    const wanted = new Set(chunk.lines.flatMap((line, at) => (matches(line) ? [at] : [])));
    channel.sendAll(chunk.frames(source).filter((_, at) => wanted.has(at)));
    await channel.drained();
  }
}
