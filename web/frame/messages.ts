import { signal } from '@preact/signals';
import type { ReadonlySignal } from '@preact/signals';

/** What happened somewhere that the page has no place for. */
export interface Message {
  readonly id: number;
  readonly text: string;
  readonly tone: 'good' | 'bad';
}

const keptMessages = 4;
const shownMs = 8000;

/** The messages that are shown now: the last few, each for some seconds, a failure until it is closed. */
export class Messages {
  readonly shown: ReadonlySignal<readonly Message[]>;
  readonly #shown = signal<readonly Message[]>([]);
  #last = 0;

  constructor() {
    this.shown = this.#shown;
  }

  say(text: string, tone: Message['tone'] = 'good'): void {
    const id = (this.#last += 1);
    this.#shown.value = [...this.#shown.peek(), { id, text, tone }].slice(-keptMessages);
    if (tone === 'good') setTimeout(() => this.close(id), shownMs);
  }

  close(id: number): void {
    this.#shown.value = this.#shown.peek().filter((one) => one.id !== id);
  }
}
