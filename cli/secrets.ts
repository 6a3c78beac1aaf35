import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import { text } from 'node:stream/consumers';

/** Reads secrets from the user one after another: without echo at a terminal, else the lines of standard input. */
export class Secrets implements AsyncDisposable {
  #lines: AsyncIterator<string> | undefined;
  #reader: Interface | undefined;

  /** @throws Error when there is no further line. */
  async next(what: string): Promise<string> {
    if (process.stdin.isTTY) return typed(what);
    this.#reader ??= createInterface({ input: process.stdin });
    this.#lines ??= this.#reader[Symbol.asyncIterator]();
    const { done, value } = await this.#lines.next();
    if (done === true) throw new Error(`${what} is missing: give it as a line of standard input`);
    return value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#reader?.close();
  }
}

/**
 * Values of secrets by their names, which are asked for at the terminal. Otherwise all of standard input is the value of a
 * single one, without the end of its last line, and each line that of one of several. @throws Error without one
 */
export async function secretValues(names: readonly string[] = []): Promise<Record<string, string>> {
  const [first, ...others] = names;
  if (first === undefined) return {};
  const secrets: Record<string, string> = {};
  if (others.length === 0 && !process.stdin.isTTY) secrets[first] = (await text(process.stdin)).replace(/\r?\n$/, '');
  else {
    await using lines = new Secrets();
    for (const name of names) secrets[name] = await lines.next(name);
  }
  const empty = Object.keys(secrets).find((name) => secrets[name] === '');
  if (empty !== undefined)
    throw new Error(`The value of ${empty} is empty: give it at the terminal, or by standard input`);
  return secrets;
}

async function typed(what: string): Promise<string> {
  const { stdin, stderr } = process;
  // Before it asks: what is typed at once must not be shown either.
  stdin.setRawMode(true);
  stderr.write(`${what}: `);
  stdin.setEncoding('utf8');
  let text = '';
  try {
    for (;;) {
      const [chunk] = (await once(stdin, 'data')) as [string]; // the encoding is set above
      for (const char of chunk) {
        if (char === '\r' || char === '\n') return text;
        if (char === '\u0003' || char === '\u0004') throw new Error('Interrupted');
        text = char === '\u007f' ? text.slice(0, -1) : text + char;
      }
    }
  } finally {
    stdin.pause();
    stdin.setRawMode(false);
    stderr.write('\n');
  }
}
