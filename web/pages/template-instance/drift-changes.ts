import type { FieldChange } from '../../parts/field-changes.ts';
import type { TemplateInstance } from './tab-props.ts';

type Drifted = TemplateInstance['drifted'][number];

/**
 * Fields that a user has changed by hand, as `FieldDiff` shows them. A value that the API leaves out is not set; where it
 * leaves out both, both are secrets.
 */
export function driftChanges(fields: readonly Drifted[]): FieldChange[] {
  return fields.map(({ field, declared, live }) => {
    const isSecret = declared === null && live === null;
    const before = isSecret ? 'a secret' : textOf(declared);
    const after = isSecret ? 'another secret, or none' : textOf(live);
    return {
      path: field,
      ...(before !== undefined && { before }),
      ...(after !== undefined && { after }),
      isEqual: false,
    };
  });
}

function textOf(value: Drifted['live']): string | undefined {
  return value === null ? undefined : String(value);
}
