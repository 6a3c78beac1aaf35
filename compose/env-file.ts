import { faultOfName, faultOfValue, variableLimits } from '../store/kinds/variables.ts';
import { interpolate } from './interpolate.ts';
import type { Variables } from './interpolate.ts';

/** What is wrong with a file of variables, in words that follow its name. */
class Fault extends Error {}

const assignment = /^(?:export[ \t]+)?(?<name>[^\s=]+)[ \t]*(?<value>=.*)?$/s;
/** A name that stands alone: of any other one it is not known whether it is meant as one. */
const plainName = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', $: '$$' };

/**
 * Reads a file of variables: `NAME=value`, `NAME='as it is'`, `NAME="with \n and ${VARIABLE}"`, or `NAME`, which passes the
 * variable of the application on. Lines that begin with `#` are comments. `raw`: values are as they are written. Its time
 * is linear in the length of the text.
 */
export function parseEnvFile(
  text: string,
  { variables, raw }: { variables: Variables; raw: boolean },
): { env: Record<string, string> } | { fault: string } {
  const env = new Map<string, string>();
  try {
    for (const [index, line] of text
      .replace(/^\uFEFF/, '')
      .split(/\r?\n/)
      .entries()) {
      if (/^[ \t]*(?:#|$)/.test(line)) continue;
      const read = variableOf(line, index + 1, { variables, raw });
      if (read !== undefined) env.set(...read);
      if (env.size > variableLimits.count) throw new Fault(`has more than ${variableLimits.count} variables`);
    }
    return { env: Object.fromEntries(env) };
  } catch (error) {
    if (error instanceof Fault) return { fault: error.message };
    throw error;
  }
}

function variableOf(
  line: string,
  number: number,
  { variables, raw }: { variables: Variables; raw: boolean },
): [string, string] | undefined {
  const { name, value } = assignment.exec(line.trimStart())?.groups ?? {};
  if (name === undefined || faultOfName(name) !== undefined || (value === undefined && !plainName.test(name)))
    throw new Fault(`is not NAME=value in line ${number}`);
  const passed = variables.get(name);
  if (value === undefined) return passed === undefined ? undefined : [name, passed];
  const text = raw ? value.slice(1) : valueOf(value.slice(1).trim(), number, variables);
  const fault = faultOfValue(text);
  if (fault !== undefined) throw new Fault(`has a value in line ${number} that ${fault}`);
  return [name, text];
}

function valueOf(text: string, line: number, variables: Variables): string {
  const quote = text.charAt(0);
  if (quote === "'" || quote === '"') {
    const end = closing(text, quote);
    if (end === undefined || !/^[ \t]*(?:#.*)?$/.test(text.slice(end + 1)))
      throw new Fault(`has a quote in line ${line} that does not end with the value`);
    const inside = text.slice(1, end);
    return quote === "'" ? inside : resolved(unescaped(inside), line, variables);
  }
  const comment = /[ \t]#/.exec(text);
  return resolved(comment === null ? text : text.slice(0, comment.index).trimEnd(), line, variables);
}

/** Where the quote at the beginning ends. */
function closing(text: string, quote: string): number | undefined {
  for (let at = 1; at < text.length; at++) {
    if (quote === '"' && text.charAt(at) === '\\') at++;
    else if (text.charAt(at) === quote) return at;
  }
  return undefined;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/gs, (all, char: string) => escapes[char] ?? all);
}

function resolved(text: string, line: number, variables: Variables): string {
  const result = interpolate(text, variables);
  if ('fault' in result) throw new Fault(`${result.fault}, in line ${line}`);
  return result.text;
}
