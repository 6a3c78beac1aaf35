import { z } from 'zod';
import { cell } from './table.ts';

const Shown = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const Step = z.looseObject({
  action: z.string(),
  kind: z.string(),
  key: z.string(),
  name: z.string(),
  renamed_from: z.string().nullish().meta({ description: 'Absent in the answer of an earlier release' }),
  fields: z.array(
    z.looseObject({
      field: z.string(),
      before: Shown,
      after: Shown,
      secret: z.boolean(),
      by_hand: z.boolean(),
      declared_by: z.string().nullable().optional().meta({ description: 'Absent in the answer of an earlier release' }),
    }),
  ),
  interrupts: z.string().nullable(),
  loses_data: z.string().nullable(),
  waits_for: z.string().nullable(),
});

/** What a change would do, as the API answers with it. */
export const Plan = z.looseObject({ changes: z.boolean(), steps: z.array(Step), needs_force: z.array(z.string()) });

/** Prints each step of a plan with what changes, and what it costs. */
export function printPlan({ steps, changes, needs_force }: z.infer<typeof Plan>): void {
  for (const step of steps) {
    console.log(cell(titleOf(step)));
    for (const { field, before, after, secret, by_hand, declared_by } of step.fields) {
      const what = secret ? 'changed' : `${text(before)} -> ${text(after)}`;
      const by = typeof declared_by === 'string' ? ` (${declared_by} declares it)` : ' (somebody changed it by hand)';
      console.log(`  ${cell(`${field}: ${what}${by_hand ? by : ''}`)}`);
    }
    if (step.interrupts !== null) console.log(`  ${cell(`interrupts: ${step.interrupts}`)}`);
    if (step.loses_data !== null) console.log(`  ${cell(`loses data: ${step.loses_data}`)}`);
  }
  if (!changes) console.log('There is nothing to change');
  if (needs_force.length > 0) console.log(cell(`Only with --force ${needs_force.join(' ')}`));
}

/** Such as `update application web`, and of one that gets another name `rename application web -> shop`. */
function titleOf({ action, kind, name, renamed_from: before }: z.infer<typeof Step>): string {
  if (typeof before !== 'string') return `${action} ${kind} ${name}`;
  return `${action === 'update' ? 'rename' : action} ${kind} ${before} -> ${name}`;
}

function text(value: z.infer<typeof Shown>): string {
  return value === null ? 'nothing' : JSON.stringify(value);
}
