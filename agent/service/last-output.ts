import type { Capture } from '../logs/capture.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import type { Exit, ServiceItem } from './memory.ts';

const mostChars = 1_000;

/**
 * The last lines that a service wrote before its exit. They are taken once per series of exits, so that the report does
 * not change with every try.
 */
export class LastOutput {
  readonly #id: string;
  readonly #capture: Pick<Capture, 'finished' | 'lastLines'>;
  readonly #known: () => void;
  readonly #closing = new AbortController();
  #taken: { series: string; text: string | undefined } | undefined;

  /** `known` is called when the text has been read. */
  constructor(id: string, capture: Pick<Capture, 'finished' | 'lastLines'>, known: () => void) {
    this.#id = id;
    this.#capture = capture;
    this.#known = known;
  }

  /** Empty until the text has been read. */
  get text(): string {
    return this.#taken?.text ?? '';
  }

  /** True if the output before this exit has been read; otherwise starts to read it. */
  isKnown(desired: ServiceItem | undefined, exit: Exit | undefined, can: ContainerRuntime['can']): boolean {
    if (desired === undefined || exit === undefined) return true;
    // Where a container cannot be started again, each try has one of its own.
    const series = `${desired.generation} ${can.restart ? exit.container : 'replaced'} ${exit.code}`;
    if (this.#taken?.series === series) return this.#taken.text !== undefined;
    const taken: { series: string; text: string | undefined } = { series, text: undefined };
    this.#taken = taken;
    void this.#capture.finished(exit.container, this.#closing.signal).then(() => {
      taken.text = this.#capture.lastLines(this.#id).join('\n').slice(-mostChars);
      this.#known();
    });
    return false;
  }

  [Symbol.dispose](): void {
    this.#closing.abort(new Error('The agent is stopping'));
  }
}
