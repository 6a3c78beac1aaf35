import { badField } from '../ground/api-error.ts';

/** One requirement of a selector: `key=value`, `key!=value`, `key` or `!key`. */
export interface LabelRequirement {
  key: string;
  is: 'equal' | 'different' | 'present' | 'absent';
  value: string;
}

/** @throws ApiError BAD_REQUEST for an invalid selector. */
export function parseLabelSelector(selector: string): LabelRequirement[] {
  return selector.split(',').map((part) => {
    const found = /^\s*(!?)\s*([A-Za-z0-9][\w./-]*)\s*(?:(!=|==?)\s*([\w./-]*))?\s*$/.exec(part);
    const [, not, key, operator, value = ''] = found ?? [];
    if (key === undefined || (not === '!' && operator !== undefined))
      throw badField('labelSelector', 'invalid', `Label selector must be a list such as a=b,c!=d,e,!f: got ${part}`);
    if (operator === undefined) return { key, is: not === '!' ? 'absent' : 'present', value: '' };
    return { key, is: operator === '!=' ? 'different' : 'equal', value };
  });
}

export function matchesLabels(
  labels: Readonly<Record<string, string>>,
  requirements: readonly LabelRequirement[],
): boolean {
  return requirements.every(({ key, is, value }) => {
    const present = Object.hasOwn(labels, key);
    switch (is) {
      case 'equal':
        return present && labels[key] === value;
      case 'different':
        return !present || labels[key] !== value;
      case 'present':
        return present;
      case 'absent':
        return !present;
    }
  });
}
