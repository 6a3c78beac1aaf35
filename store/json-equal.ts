function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function definedKeys(value: Record<string, unknown>): string[] {
  return Object.keys(value).filter((key) => value[key] !== undefined);
}

/** Whether two values have the same JSON: the order of keys does not count, `undefined` counts as absent. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b || Object.is(a, b)) return true; // -0 equals 0, as in JSON, and NaN equals itself
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => jsonEqual(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const known = definedKeys(a);
  return known.length === definedKeys(b).length && known.every((key) => jsonEqual(a[key], b[key]));
}
