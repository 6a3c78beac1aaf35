import type { Client } from '../client.ts';
import { table } from '../table.ts';

/**
 * Prints the settings of the tenant; with `set`, changes some first: `registries=ghcr.io,quay.io
 * budgets.project.objects=500`.
 */
export async function settings(client: Client, action: string, changes: readonly string[]): Promise<void> {
  if (action === 'get' && changes.length === 0) print(await client.request('GET', path));
  else if (action === 'set' && changes.length > 0) print(await client.request('PUT', path, bodyOf(changes)));
  else if (action === 'set') throw new Error('Nothing to set: name a setting, such as project_creation=admins');
  else throw new Error(`Cannot ${action} ${changes.join(' ')}: settings get, or settings set NAME=VALUE`);
}

const path = '/api/v1/settings';

/** Settings that are lists; their values are separated by commas. */
const lists = new Set(['registries', 'backup_endpoints']);

/** The body of a change. An empty value resets to the default. @throws Error if a text is not `NAME=VALUE` */
export function bodyOf(changes: readonly string[]): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const change of changes) {
    const [, name, text] = /^([a-z_]+(?:\.[a-z_]+)*)=(.*)$/s.exec(change) ?? [];
    if (name === undefined || text === undefined)
      throw new Error(`A setting is NAME=VALUE, such as budgets.project.objects=500: got ${change}`);
    put(body, name.split('.'), valueOf(name, text));
  }
  return body;
}

function put(into: Record<string, unknown>, [first = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) into[first] = value;
  else {
    const known = into[first];
    const inner = isRecord(known) ? known : {};
    into[first] = inner;
    put(inner, rest, value);
  }
}

function valueOf(name: string, text: string): unknown {
  if (text === '') return null;
  if (lists.has(name)) return text.split(',').map((it) => it.trim());
  return /^\d+$/.test(text) ? Number(text) : text;
}

function print(answer: unknown): void {
  console.log(table(['setting', 'value'], rowsOf(answer)));
}

function rowsOf(value: unknown, name = ''): string[][] {
  if (!isRecord(value)) return [[name, textOf(value)]];
  return Object.entries(value).flatMap(([key, inner]) => rowsOf(inner, name === '' ? key : `${name}.${key}`));
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
