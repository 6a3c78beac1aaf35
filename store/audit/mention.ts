import type { ReadonlyResource } from '../resource.ts';
import type { UnitChange } from '../unit-of-work.ts';
import type { AuditedObject } from './record.ts';

/** How a record names an object: by its name, a user by the e-mail address. */
export function mention({ meta: { kind, id }, desired }: ReadonlyResource): AuditedObject {
  const name = 'name' in desired ? desired.name : kind === 'user' && 'email' in desired ? desired.email : undefined;
  return { kind, id, ...(typeof name === 'string' && { name }) };
}

/** What was done to each object that a unit changes. */
export function touchedBy(changes: readonly UnitChange[]): AuditedObject[] {
  return changes.map(({ it, action, fields }) => ({ ...mention(it), action, fields }));
}
