import type { z } from 'zod';
import type { Variable } from './variables.ts';

/** Names of variables whose values are taken for secrets. */
const secretName =
  /(?:pass(?:word|wd|phrase)?|secret|token|salt|(?:api|private|encryption|access|secret|app|master)_?key|key_base)$/i;

export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

/** A value that would be found elsewhere by chance is no secret that can be told apart. */
const leastSecret = 6;

/** Variables that take the place of secrets, each value once. */
export class Secrets {
  readonly #names = new Map<string, string>();
  readonly #taken: Set<string>;

  /** `taken`: names that are those of other variables. */
  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  /** The name of the variable for a secret; `name` is that of where it stands. */
  nameOf(value: string, name: string): string {
    const known = this.#names.get(value);
    if (known !== undefined) return known;
    const start = name
      .replaceAll(/[^A-Za-z0-9_]/g, '_')
      .replace(/^(?=\d)/, '_')
      .slice(0, 56);
    let free = start;
    for (let suffix = 2; this.#taken.has(free); suffix += 1) free = `${start}_${suffix}`;
    this.#taken.add(free);
    this.#names.set(value, free);
    return free;
  }

  /** Secrets that stand within another text, longest first, with the names of their variables. */
  within(text: string): { value: string; name: string }[] {
    return [...this.#names]
      .filter(([value]) => value.length >= leastSecret && text.includes(value))
      .map(([value, name]) => ({ value, name }))
      .toSorted((a, b) => b.value.length - a.value.length);
  }

  variables(): z.input<typeof Variable>[] {
    return [...this.#names.values()].map((name) => ({
      name,
      type: /pass/i.test(name) ? ('password' as const) : ('secret' as const),
      generate: true,
    }));
  }
}
