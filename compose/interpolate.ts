import { hasReferences } from '../store/references.ts';

/** The variables that a file may use: those of its application, never those of a process. */
export type Variables = ReadonlyMap<string, string>;

/** Most characters of one value with its variables. */
const maxChars = 256 * 1024;
const maxDepth = 8;
const isName = /^[A-Za-z_][A-Za-z0-9_]*/;

class Fault extends Error {}

/**
 * Replaces `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:+instead}`, `${NAME+instead}`,
 * `${NAME:?message}` and `${NAME?message}`; `$$` is a dollar sign. A default may have variables of its own. `blank`: the
 * names that have no value and no default, and are empty. `referring`: those whose values take something of other objects.
 */
export function interpolate(
  text: string,
  variables: Variables,
): { text: string; blank: readonly string[]; referring: readonly string[] } | { fault: string } {
  if (!text.includes('$')) return { text, blank: [], referring: [] };
  const blank: string[] = [];
  const used = new Set<string>();
  try {
    const result = new Reader(text, { variables, blank, used }).read(false, 0);
    const referring = [...used].filter((name) => hasReferences(variables.get(name) ?? ''));
    return { text: result, blank, referring };
  } catch (error) {
    if (error instanceof Fault) return { fault: error.message };
    throw error;
  }
}

class Reader {
  #at = 0;
  readonly #text: string;
  readonly #variables: Variables;
  readonly #blank: string[];
  /** Names whose values are in the result. */
  readonly #used: Set<string>;

  constructor(text: string, it: { variables: Variables; blank: string[]; used: Set<string> }) {
    this.#text = text;
    this.#variables = it.variables;
    this.#blank = it.blank;
    this.#used = it.used;
  }

  /** Reads to the end of the text, or past the `}` that ends a default. */
  read(isDefault: boolean, depth: number): string {
    if (depth > maxDepth) throw new Fault(`has variables within defaults deeper than ${maxDepth}`);
    const parts: string[] = [];
    let size = 0;
    const add = (part: string): void => {
      size += part.length;
      if (size > maxChars) throw new Fault(`is longer than ${maxChars / 1024} KiB with its variables`);
      parts.push(part);
    };
    while (this.#at < this.#text.length) {
      const char = this.#text.charAt(this.#at);
      if (isDefault && char === '}') {
        this.#at++;
        return parts.join('');
      }
      if (char === '$') add(this.#variable(depth));
      else {
        const next = this.#text.slice(this.#at).search(isDefault ? /[$}]/ : /\$/);
        const end = next === -1 ? this.#text.length : this.#at + next;
        add(this.#text.slice(this.#at, end));
        this.#at = end;
      }
    }
    if (isDefault) throw new Fault('has a ${ without its }');
    return parts.join('');
  }

  #variable(depth: number): string {
    const rest = this.#text.slice(this.#at + 1, this.#at + 258);
    if (rest.startsWith('$')) {
      this.#at += 2;
      return '$';
    }
    const isBraced = rest.startsWith('{');
    const [name] = isName.exec(isBraced ? rest.slice(1) : rest) ?? [];
    if (name === undefined) throw new Fault('has a $ that begins no variable: write $$ for a dollar sign');
    this.#at += 1 + Number(isBraced) + name.length;
    return isBraced ? this.#braced(name, depth) : this.#value(name);
  }

  #braced(name: string, depth: number): string {
    const [operator] = /^(?:\}|:?[-?+])/.exec(this.#text.slice(this.#at, this.#at + 2)) ?? [];
    if (operator === undefined)
      throw new Fault(`has a variable \${${name} that does not end with }, :-default, :?message or :+instead`);
    this.#at += operator.length;
    if (operator === '}') return this.#value(name);
    const value = this.#variables.get(name);
    const isSet = value !== undefined && (value !== '' || !operator.startsWith(':'));
    const blank = this.#blank.length;
    const word = this.read(true, depth + 1);
    const isWordUsed = operator.endsWith('+') ? isSet : !isSet;
    // variables without a value count only in the word that is used
    if (!isWordUsed) this.#blank.length = blank;
    if (operator.endsWith('+')) return isSet ? word : '';
    if (isSet) return this.#value(name);
    if (operator.endsWith('?')) throw new Fault(`needs the variable ${name}${word === '' ? '' : `: ${word}`}`);
    return word;
  }

  #value(name: string): string {
    const value = this.#variables.get(name);
    if (value === undefined) this.#blank.push(name);
    this.#used.add(name);
    return value ?? '';
  }
}
