import type { components } from '../../api-types.d.ts';
import type { FieldChange } from '../../parts/field-changes.ts';

export type Plan = components['schemas']['Plan'];
export type PlannedStep = components['schemas']['PlannedStep'];
type PlannedField = components['schemas']['PlannedField'];

type Action = PlannedStep['action'];

/** What a step does, and how much one should look at it. */
export const actionLooks: Readonly<Record<Action, { word: string; tone?: 'good' | 'busy' | 'warn' | 'bad' }>> = {
  create: { word: 'new', tone: 'good' },
  update: { word: 'changed', tone: 'busy' },
  replace: { word: 'replaced', tone: 'bad' },
  delete: { word: 'deleted', tone: 'bad' },
  unchanged: { word: 'unchanged' },
};
/** How a step is shown: an object that only gets another name is no other one. */
export function lookOfStep({
  action,
  renamed_from: before,
}: Pick<PlannedStep, 'action' | 'renamed_from'>): (typeof actionLooks)[Action] {
  return action === 'update' && before !== null ? { word: 'renamed', tone: 'busy' } : actionLooks[action];
}

const actions = Object.keys(actionLooks) as readonly Action[]; // the keys of the table

/** How many steps do what, such as `1 new, 2 changed, 3 unchanged`. */
export function countsText(steps: readonly PlannedStep[]): string {
  return actions
    .map((action) => [steps.filter((one) => one.action === action).length, actionLooks[action].word] as const)
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}

function textOf(value: PlannedField['before']): string | undefined {
  return value === null ? undefined : String(value);
}

/** The fields of a step as a difference shows them; of a secret it says only that it changes. */
export function changesOfStep(fields: readonly PlannedField[]): FieldChange[] {
  return fields.map(({ field, before, after, secret }) => {
    const [one, other] = secret ? ['a secret', 'another secret'] : [textOf(before), textOf(after)];
    return {
      path: field,
      ...(one !== undefined && { before: one }),
      ...(other !== undefined && { after: other }),
      isEqual: false,
    };
  });
}

/** Why a step asks for a decision; `undefined`: it does not. */
export function whyForced({ loses_data: lost, fields }: PlannedStep): string | undefined {
  if (lost !== null) return lost;
  const foreign = fields.filter(({ by_hand: byHand }) => byHand).map(({ field }) => field);
  return foreign.length === 0 ? undefined : `Somebody else has set ${foreign.join(', ')}: that is overwritten.`;
}

/** Why a plan cannot be done yet; `undefined` if it can be. */
export function whyNotPlanned({ changes, needs_force: needed }: Plan, forced: ReadonlySet<string>): string | undefined {
  if (!changes) return 'Nothing would change';
  const missing = needed.filter((key) => !forced.has(key));
  return missing.length === 0 ? undefined : `Decide first about ${missing.join(', ')}`;
}

/** Steps in the order in which they are done: those that change something, and the others. */
export function inOrder(steps: readonly PlannedStep[]): {
  readonly changing: readonly PlannedStep[];
  readonly unchanged: readonly PlannedStep[];
} {
  const ordered = steps.toSorted((a, b) => a.wave - b.wave);
  return {
    changing: ordered.filter(({ action }) => action !== 'unchanged'),
    unchanged: ordered.filter(({ action }) => action === 'unchanged'),
  };
}
