import type { FieldChange } from '../../parts/field-changes.ts';
import type { TemplateInstance } from './tab-props.ts';

type Drifted = TemplateInstance['drifted'][number];

/** Fields that were changed by hand, as a difference shows them: a value that is not told is a secret, or is not set. */
export function driftChanges(fields: readonly Drifted[]): FieldChange[] {
  return fields.map(({ field, declared, live }) => ({
    path: field,
    before: textOf(declared),
    after: textOf(live),
    isEqual: false,
  }));
}

function textOf(value: Drifted['live']): string {
  return value === null ? 'a secret, or nothing' : String(value);
}
