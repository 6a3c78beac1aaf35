import { z } from 'zod';
import type { Place } from './node.ts';

/** What was found in a compose file or another text, at which key. */
export const Finding = z.object({
  path: z.string(),
  key: z.string(),
  line: z.int(),
  column: z.int(),
  message: z.string(),
});
export type Finding = z.infer<typeof Finding>;

/** Most findings of a kind that are kept: who has repaired these sees the others. */
const most = 100;

/** Collects what is wrong with a compose file or another text, and what of it means something else here. */
export class Findings {
  readonly errors: Finding[] = [];
  readonly warnings: Finding[] = [];
  readonly #whole: string;
  #isRefused = false;

  /** `whole` names the text as a whole. */
  constructor(whole = 'The compose file') {
    this.#whole = whole;
  }

  /** Whether the text has what no honest author writes, such as more than may be read, or keys that are there twice. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** `message` follows the path, such as `must be a number`. */
  error(place: Place, message: string): undefined {
    add(this.errors, place, message, this.#whole);
  }

  /** As `error`, for what makes the text as a whole refused. */
  refuse(place: Place, message: string): undefined {
    this.#isRefused = true;
    return this.error(place, message);
  }

  /** `message` follows the path and says what happens instead. */
  warn(place: Place, message: string): void {
    add(this.warnings, place, message, this.#whole);
  }
}

function add(to: Finding[], { path, key, line, column }: Place, rule: string, whole: string): void {
  if (to.length >= most) return;
  const message = `${path === '' ? whole : path} ${rule}`;
  if (to.some((it) => it.path === path && it.message === message)) return;
  to.push({ path, key, line, column, message });
}
