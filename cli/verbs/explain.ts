import type { Client } from '../client.ts';
import { below, descriptionOf, fieldsOf, inlined, wordsOf } from '../schema-fields.ts';
import type { Field, JsonSchema } from '../schema-fields.ts';

const timeoutMs = 30_000;
const usualColumns = 100;
/** What an object has beside its spec. */
const beside: readonly string[] = ['apiVersion', 'kind', 'metadata', 'spec'];

/**
 * Prints what can be declared: the kinds, the fields of one, or what is below a field of it, such as `application.domains`. The
 * schemas are those of the control plane, so that they are what it takes.
 */
export async function explain(client: Client, path: string | undefined, signal: AbortSignal): Promise<void> {
  const [word = '', ...names] = (path ?? '').split('.').filter((name) => name !== '');
  const all = await schemaOf(client, 'setpoint.json', signal);
  const kinds = (all.anyOf ?? []).map((it) => String(below(it, 'kind')?.const));
  if (word === '') {
    console.log(`${kinds.join('\n')}\n\nThe fields of one: setpoint explain ${kinds[0]?.toLowerCase() ?? ''}`);
    return;
  }
  const kind = kinds.find((one) => one.toLowerCase() === word.toLowerCase().replaceAll('-', ''));
  if (kind === undefined) throw new Error(`There is no kind ${word}: name one of ${kinds.join(', ')}`);
  const whole = await schemaOf(client, `${kind.toLowerCase()}.json`, signal);
  const [first] = names;
  const steps = first !== undefined && beside.includes(first) ? names : ['spec', ...names];
  console.log(explained(kind, whole, steps, process.stdout.isTTY ? process.stdout.columns : usualColumns));
}

/** The text about what is at these steps of a kind. @throws Error naming what is there instead */
export function explained(kind: string, whole: JsonSchema, steps: readonly string[], columns: number): string {
  let at: JsonSchema = whole;
  for (const [index, name] of steps.entries()) {
    const next = below(at, name);
    if (next === undefined) {
      const there = fieldsOf(at).map((field) => field.name);
      const place = [kind, ...steps.slice(0, index)].join('.');
      throw new Error(
        there.length === 0
          ? `${place} has no fields: it is ${wordsOf(at)}`
          : `${place} has no field ${name}: it has ${there.join(', ')}`,
      );
    }
    at = next;
  }
  const description = descriptionOf(at);
  const fields = fieldsOf(at);
  return [
    `${[kind, ...steps].join('.')}: ${wordsOf(at)}`,
    ...(description === undefined ? [] : wrapped(description, columns, '')),
    ...(fields.length === 0 ? [] : ['', ...fields.flatMap((field) => linesOf(field, columns))]),
  ].join('\n');
}

function linesOf({ name, type, isRequired, description }: Field, columns: number): string[] {
  return [
    ...wrapped(`${name}${isRequired ? ' (required)' : ''}: ${type}`, columns, '  '),
    ...(description === undefined ? [] : wrapped(description, columns, '      ')),
  ];
}

/** Lines of at most so many characters, unless a word is longer. */
function wrapped(text: string, columns: number, indent: string): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && indent.length + longer.length > columns) {
      lines.push(`${indent}${line}`);
      line = word;
    } else line = longer;
  }
  return [...lines, `${indent}${line}`];
}

async function schemaOf({ connection: { server } }: Client, file: string, signal: AbortSignal): Promise<JsonSchema> {
  const address = `${server.replace(/\/$/, '')}/schemas/${file}`;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const response = await fetch(address, { signal: limit }).catch((error: unknown) => {
    throw new Error(`Cannot reach ${server}: does the control plane run there?`, { cause: error });
  });
  if (!response.ok)
    throw new Error(`${address} answers ${response.status}: is the control plane of an earlier release?`);
  return inlined(await response.json());
}
