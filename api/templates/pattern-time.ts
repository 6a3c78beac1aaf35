import { createContext, Script } from 'node:vm';
import type { Context } from 'node:vm';

/** Most time that all patterns of a template take together. */
const mostMs = 200;

const script = new Script('new RegExp(`^(?:${pattern})$`, "u").test(value)');

/** The time that patterns may take: they are of strangers, and one can take for ever. They have it together. */
export class PatternTime {
  #leftMs = mostMs;
  #context: Context | undefined;

  /** Whether a whole value matches a pattern. */
  matches(pattern: string, value: string): 'yes' | 'no' | 'too slow' {
    const timeout = Math.floor(this.#leftMs);
    if (timeout < 1) return 'too slow';
    const context = (this.#context ??= createContext({}));
    Object.assign(context, { pattern, value });
    const begun = performance.now();
    try {
      return script.runInContext(context, { timeout }) === true ? 'yes' : 'no';
    } catch {
      return 'too slow';
    } finally {
      this.#leftMs -= performance.now() - begun;
    }
  }
}
