import type { Capture } from '../logs/capture.ts';
import type { Exit, ServiceItem } from './memory.ts';

/** What is shown beside the exit itself. */
const brief = { lines: 5, chars: 1_000 };
const mostChars = 6_000;

/**
 * The last lines that a service wrote before its exit. They are taken at the first exit of a series of quick ones, and once
 * more when that is a crash loop, so that the report does not change with every try. The engine may start a process again
 * faster than its output is read; that of a crash loop was started by the agent.
 */
export class LastOutput {
  readonly #id: string;
  readonly #capture: Pick<Capture, 'finished' | 'lastLines'>;
  readonly #known: () => void;
  readonly #closing = new AbortController();
  #taken: { series: string; lines: readonly string[] | undefined } | undefined;

  /** `known` is called when the lines have been read. */
  constructor(id: string, capture: Pick<Capture, 'finished' | 'lastLines'>, known: () => void) {
    this.#id = id;
    this.#capture = capture;
    this.#known = known;
  }

  /** The last of the lines; empty until they have been read. */
  get text(): string {
    return (this.#taken?.lines ?? []).slice(-brief.lines).join('\n').slice(-brief.chars);
  }

  /** All of the lines, within bounds; empty until they have been read. */
  get whole(): string {
    return (this.#taken?.lines ?? []).join('\n').slice(-mostChars);
  }

  /** True if the output before this exit has been read; otherwise starts to read it. */
  isKnown(desired: ServiceItem | undefined, exit: Exit | undefined): boolean {
    if (desired === undefined || exit === undefined) return true;
    const series = `${exit.container} ${exit.series} ${exit.code}`;
    if (this.#taken?.series === series) return this.#taken.lines !== undefined;
    const taken: { series: string; lines: readonly string[] | undefined } = { series, lines: undefined };
    this.#taken = taken;
    void this.#capture.finished(exit.container, this.#closing.signal).then(() => {
      taken.lines = [...this.#capture.lastLines(this.#id)];
      this.#known();
    });
    return false;
  }

  [Symbol.dispose](): void {
    this.#closing.abort(new Error('The agent is stopping'));
  }
}
