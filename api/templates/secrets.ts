import type { z } from 'zod';
import { escapeExpression } from './expression.ts';
import { templateLimits } from './limits.ts';
import type { Variable } from './variables.ts';

/** Names of variables whose values are taken for secrets that can be made anew. */
const secretName =
  /(?:pass(?:word|wd|phrase)?|secret|token|salt|(?:api|private|encryption|access|secret|app|master)_?key|key_base)$/i;

export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

/** Names of variables whose values may be secrets, such as the key of somebody else's service. */
const doubtfulName =
  /pass|pwd|secret|token|credential|(?:api|access|private)[_-]?key|(?:^|[_.-])(?:keys?|auth|authorization|bearer|cookie|dsn|jwt|pin|salt)$/i;

/** A switch or a small number, such as how long a token lasts. */
const plainValue = /^(?:true|false|yes|no|on|off|\d{0,6})$/i;

/** Whether a value must not be shown to those who may not see the variable: a guess, on the side of withholding. */
export function mayBeSecret(name: string, value: string): boolean {
  return doubtfulName.test(name) && !plainValue.test(value);
}

/** Settings within a text, such as `_authToken=…` of a file `.npmrc`. */
const assignment = /(?<![\w.-])([\w.-]+)[=:]\s*([^\s&;,]+)/g;

/** Whether a text sets something whose value must not be shown, such as the token of a registry. */
export function assignsSecret(text: string): boolean {
  return [...text.matchAll(assignment)].some(([, name = '', value = '']) => mayBeSecret(name, value));
}

/** A value that would be found elsewhere by chance is no secret that can be told apart. */
const leastSecret = 6;

/** A password in an address, or a long user without one, which is a token. */
const credentials = /(:\/\/[^:@\s/]*:)([^\s/]+)@|(:\/\/)([^:@\s/]{16,})@/g;

type Piece = string | { variable: string };

/** Variables that take the place of secrets, each value once. */
export class Secrets {
  readonly #names = new Map<string, { name: string; isGenerated: boolean }>();
  readonly #taken: Set<string>;
  /** The suffix that was given last to names of the same beginning. */
  readonly #suffixes = new Map<string, number>();

  /** `taken`: names that are those of other variables. */
  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  /** The name of the variable for a secret; `name` is that of where it stands. `isGenerated`: another one is as good. */
  nameOf(value: string, name: string, isGenerated = true): string {
    const known = this.#names.get(value);
    if (known !== undefined) return known.name;
    const start = name
      .replaceAll(/[^A-Za-z0-9_]/g, '_')
      .replace(/^(?=\d)/, '_')
      .slice(0, 56);
    let free = start;
    let suffix = this.#suffixes.get(start) ?? 1;
    while (this.#taken.has(free)) free = `${start}_${++suffix}`;
    this.#suffixes.set(start, suffix);
    this.#taken.add(free);
    this.#names.set(value, { name: free, isGenerated });
    return free;
  }

  /**
   * The text of a template for a value, with variables in the place of the secrets within it. `names`: those variables; `name`
   * is that of where the value stands.
   */
  hide(value: string, name: string): { text: string; names: readonly string[] } {
    if (value === '') return { text: '', names: [] };
    let pieces: readonly Piece[] = [value];
    for (const secret of this.#within(value)) pieces = pieces.flatMap((it) => parted(it, secret));
    pieces = pieces.flatMap((it) => this.#withoutCredentials(it, name));
    // before the `${` of a variable, a `$` would make it plain text
    const isMisread = pieces.some(
      (it, index) => typeof it === 'string' && it.endsWith('$') && typeof pieces[index + 1] === 'object',
    );
    if (isMisread) pieces = [{ variable: this.nameOf(value, name, false) }];
    return {
      text: pieces.map((it) => (typeof it === 'string' ? escapeExpression(it) : `\${${it.variable}}`)).join(''),
      names: [...new Set(pieces.flatMap((it) => (typeof it === 'string' ? [] : it.variable)))],
    };
  }

  /** Secrets that stand within a text, longest first. Of more than a template may have, the rest is not looked for. */
  #within(text: string): { value: string; variable: string }[] {
    return [...this.#names.entries().take(templateLimits.variables)]
      .filter(([value]) => value.length >= leastSecret && text.includes(value))
      .map(([value, { name }]) => ({ value, variable: name }))
      .toSorted((a, b) => b.value.length - a.value.length);
  }

  #withoutCredentials(piece: Piece, name: string): Piece[] {
    if (typeof piece !== 'string') return [piece];
    const pieces: Piece[] = [];
    let at = 0;
    for (const { index, 0: found, 1: before, 2: password, 3: scheme = '', 4: token = '' } of piece.matchAll(
      credentials,
    )) {
      const start = before ?? scheme;
      pieces.push(piece.slice(at, index) + start);
      pieces.push({ variable: this.nameOf(password ?? token, `${name}_PASSWORD`) });
      at = index + found.length - 1;
    }
    return [...pieces, piece.slice(at)].filter((it) => it !== '');
  }

  variables(): z.input<typeof Variable>[] {
    return [...this.#names.values()].map(({ name, isGenerated }) => ({
      name,
      type: /pass/i.test(name) ? ('password' as const) : ('secret' as const),
      ...(isGenerated && { generate: true }),
    }));
  }
}

function parted(piece: Piece, { value, variable }: { value: string; variable: string }): Piece[] {
  if (typeof piece !== 'string') return [piece];
  return piece
    .split(value)
    .flatMap((it, index): Piece[] => [...(index === 0 ? [] : [{ variable }]), ...(it === '' ? [] : [it])]);
}
