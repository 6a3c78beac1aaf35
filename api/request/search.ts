import { badField } from '../ground/api-error.ts';

/**
 * The parameters of a query by name. `status` may be sent several times. @throws ApiError BAD_REQUEST for any other
 * repeated parameter, as it is ambiguous.
 */
export function searchOf(text: string): Record<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    const before = found.get(name);
    if (before === undefined) found.set(name, value);
    else if (name === 'status') found.set(name, `${before},${value}`);
    else throw badField(name, 'repeated', `${name} must be sent once`);
  }
  return Object.fromEntries(found);
}
