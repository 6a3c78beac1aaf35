function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function definedKeys(value: Record<string, unknown>): string[] {
  return Object.keys(value).filter((key) => value[key] !== undefined);
}

/**
 * Whether two values have the same JSON: the order of keys does not count, `undefined` counts as absent. `alike` says of two
 * objects at any depth that they count as the same whatever they have.
 */
export function jsonEqual(a: unknown, b: unknown, alike?: (a: object, b: object) => boolean): boolean {
  if (a === b || Object.is(a, b)) return true; // -0 equals 0, as in JSON, and NaN equals itself
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => jsonEqual(item, b[index], alike));
  if (!isObject(a) || !isObject(b)) return false;
  const known = definedKeys(a);
  if (known.length === definedKeys(b).length && known.every((key) => jsonEqual(a[key], b[key], alike))) return true;
  return alike?.(a, b) === true;
}
