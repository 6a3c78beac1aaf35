import { z } from 'zod';
import type { Place } from './node.ts';

/** What was found in a compose file, at which key. */
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

/** Collects what is wrong with a compose file, and what of it means something else here. */
export class Findings {
  readonly errors: Finding[] = [];
  readonly warnings: Finding[] = [];

  /** `message` follows the path, such as `must be a number`. */
  error(place: Place, message: string): undefined {
    add(this.errors, place, message);
  }

  /** `message` follows the path and says what happens instead. */
  warn(place: Place, message: string): void {
    add(this.warnings, place, message);
  }
}

function add(to: Finding[], { path, key, line, column }: Place, rule: string): void {
  if (to.length >= most) return;
  const message = `${path === '' ? 'The compose file' : path} ${rule}`;
  if (to.some((it) => it.path === path && it.message === message)) return;
  to.push({ path, key, line, column, message });
}
