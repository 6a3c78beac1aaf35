/** A field of two objects, by its path. Absent on a side where the object does not have it. */
export interface FieldChange {
  readonly path: string;
  readonly before?: string;
  readonly after?: string;
  readonly isEqual: boolean;
}

/** How deep objects are taken apart; what is deeper is compared as JSON. */
const mostDepth = 6;

/** The fields of both objects, in the order of the first one; changed ones are not moved to the top. */
export function fieldChanges(before: unknown, after: unknown): FieldChange[] {
  const old = leaves(before);
  const now = leaves(after);
  return [...new Set([...old.keys(), ...now.keys()])].map((path) => {
    const [one, other] = [old.get(path), now.get(path)];
    return {
      path,
      ...(one !== undefined && { before: one }),
      ...(other !== undefined && { after: other }),
      isEqual: one === other,
    };
  });
}

function leaves(value: unknown): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (part: unknown, path: string, depth: number): void => {
    const isTaken = typeof part === 'object' && part !== null && !Array.isArray(part) && depth < mostDepth;
    if (isTaken && Object.keys(part).length > 0)
      for (const [name, one] of Object.entries(part)) walk(one, path === '' ? name : `${path}.${name}`, depth + 1);
    else if (path !== '' && part !== undefined) found.set(path, textOf(part));
  };
  walk(value, '', 0);
  return found;
}

/** A value as a person reads it: a text without quotes, what is absent as a dash, the rest as JSON. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null) return '–';
  return JSON.stringify(value);
}
