/** Variables as they are stored: a name and a value, which may hold references such as `${databases.db.url}`. */
export type Variables = Readonly<Record<string, string>>;

export interface EnvFault {
  readonly line: number;
  readonly message: string;
}

/** How many variables an application may have, and how many bytes the value of one. */
export const mostVariables = 500;
const mostBytes = 32 * 1024;

const name = /^[^\p{C}\s=]{1,256}$/u;

/** A value as a line of a `.env` file has it: quoted only where it must be. */
function quoted(value: string): string {
  if (value === '' || (/^[^\s"'#\\][^\r\n"'#\\]*$/.test(value) && value.trim() === value)) return value;
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\r', '\\r')}"`;
}

/** Variables as the text of a `.env` file, sorted by name. */
export function textOf(variables: Variables): string {
  return Object.entries(variables)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([key, value]) => `${key}=${quoted(value)}\n`)
    .join('');
}

/** The variables of a `.env` file, and what is wrong with which line. Of a name that comes twice the last value counts. */
export function parsed(text: string): { variables: Record<string, string>; faults: EnvFault[] } {
  const variables: Record<string, string> = {};
  const faults: EnvFault[] = [];
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim().replace(/^export\s+/, '');
    if (line === '' || line.startsWith('#')) continue;
    const at = line.indexOf('=');
    const key = (at === -1 ? line : line.slice(0, at)).trim();
    if (at === -1) faults.push({ line: index + 1, message: `“${key}” has no “=”` });
    else if (!name.test(key))
      faults.push({
        line: index + 1,
        message: `“${key}” is no name: up to 256 printable characters without “=” and spaces`,
      });
    else variables[key] = unquoted(line.slice(at + 1).trim());
  }
  return { variables, faults };
}

/** Line breaks by the letters that stand for them in quotes. */
const breaks: Readonly<Record<string, string>> = { n: '\n', r: '\r' };

function unquoted(value: string): string {
  const double = /^"((?:[^"\\]|\\.)*)"$/.exec(value)?.[1];
  if (double !== undefined) return double.replaceAll(/\\(.)/g, (_, char: string) => breaks[char] ?? char);
  return /^'([^']*)'$/.exec(value)?.[1] ?? value.replace(/\s+#.*$/, '');
}

export function isName(text: string): boolean {
  return name.test(text);
}

/** What is wrong with a value; `undefined`: nothing. */
export function faultOfValue(value: string): string | undefined {
  const bytes = new TextEncoder().encode(value).byteLength;
  return bytes > mostBytes ? `It has ${bytes} bytes: at most ${mostBytes} are kept` : undefined;
}

/** What changes from one set of variables to another; `null` removes a variable. */
export function difference(before: Variables, after: Variables): Record<string, string | null> {
  const changed = Object.entries(after).filter(([key, value]) => before[key] !== value);
  const removed = Object.keys(before).filter((key) => !(key in after));
  return Object.fromEntries([...changed, ...removed.map((key): [string, null] => [key, null])]);
}

/**
 * A draft of changes on top of what another person has stored since it was begun. `conflicts`: names that both changed; the
 * draft keeps its own value of them.
 */
export function rebased(
  base: Variables,
  draft: Variables,
  theirs: Variables,
): { draft: Record<string, string>; conflicts: string[] } {
  const mine = difference(base, draft);
  const others = difference(base, theirs);
  const merged = { ...theirs };
  for (const [key, value] of Object.entries(mine)) {
    if (value === null) delete merged[key];
    else merged[key] = value;
  }
  return { draft: merged, conflicts: Object.keys(mine).filter((key) => key in others && others[key] !== mine[key]) };
}
