import { jsonEqual } from './json-equal.ts';

/** A field below this depth is reported as its ancestor at this depth. */
const maxDepth = 4;
const maxNameLength = 120;

/**
 * Paths of the fields in which two states differ, such as `config.env.TOKEN`. They hold names and keys of maps, never a
 * value. A sealed value and a list are one field each.
 */
export function changedFields(before: unknown, after: unknown): string[] {
  const found: string[] = [];
  collect(before, after, [], found);
  return found;
}

function collect(before: unknown, after: unknown, path: readonly string[], found: string[]): void {
  if (jsonEqual(before, after)) return;
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])];
  // compare field by field while each of the two states has fields or is absent
  const canDescend = (old !== undefined || before === undefined) && (now !== undefined || after === undefined);
  if (!canDescend || names.length === 0 || path.length === maxDepth) {
    found.push(path.join('.').slice(0, maxNameLength));
    return;
  }
  for (const name of names) collect(old?.[name], now?.[name], [...path, name], found);
}

function fieldsOf(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || '$sealed' in value) return undefined;
  return value as Record<string, unknown>; // an object that is no list has named fields
}
