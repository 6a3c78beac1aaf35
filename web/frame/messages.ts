import { signal } from '@preact/signals';
import type { ReadonlySignal } from '@preact/signals';
import type { Toast } from '../parts/toasts.tsx';

const keptMessages = 20;

/** What happened somewhere that the page has no place for, until it is closed. */
export class Messages {
  readonly shown: ReadonlySignal<readonly Toast[]>;
  readonly #shown = signal<readonly Toast[]>([]);
  #last = 0;

  constructor() {
    this.shown = this.#shown;
  }

  say(text: string, shape: Toast['shape'] = 'good'): void {
    this.#last += 1;
    this.#shown.value = [...this.#shown.peek(), { id: String(this.#last), text, shape }].slice(-keptMessages);
  }

  close(id: string): void {
    this.#shown.value = this.#shown.peek().filter((one) => one.id !== id);
  }
}
