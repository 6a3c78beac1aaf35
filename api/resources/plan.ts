import { z } from 'zod';
import { maxKeyChars } from '../../store/kinds/declarations.ts';

const Shown = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const PlannedField = z
  .object({
    field: z.string(),
    before: Shown.meta({ description: 'What is there now; null: nothing, or a secret' }),
    after: Shown,
    secret: z.boolean().meta({ description: 'It is a secret: only that it changes is shown' }),
    by_hand: z.boolean().meta({ description: 'Somebody changed it since it was declared: that is overwritten' }),
    declared_by: z.string().nullable().meta({ description: 'The other manager that declares it; null: none' }),
  })
  .meta({ id: 'PlannedField' });

const PlannedStep = z
  .object({
    action: z.enum(['create', 'update', 'replace', 'delete', 'unchanged']),
    kind: z.string(),
    key: z.string().meta({ description: 'What force calls it, such as databases.db' }),
    name: z.string(),
    renamed_from: z.string().nullable().meta({
      description: 'The name that it has now, or that of the object that it replaces; null: no other than name',
    }),
    id: z.string().nullable().meta({ description: 'Of what there is; null: it is to be made' }),
    wave: z.int(),
    fields: z.array(PlannedField),
    interrupts: z.string().nullable().meta({ description: 'Why service is interrupted; null: it is not' }),
    loses_data: z.string().nullable().meta({ description: 'Which data is lost; null: none' }),
    waits_for: z.string().nullable().meta({ description: 'What has to be before it is all done; null: nothing' }),
  })
  .meta({ id: 'PlannedStep' });
export type PlannedStep = z.infer<typeof PlannedStep>;

/** What a change would do, or has begun to do. */
export const Plan = z
  .object({
    dry_run: z.boolean(),
    changes: z.boolean().meta({ description: 'false: there is nothing to do' }),
    steps: z.array(PlannedStep),
    needs_force: z.array(z.string()).meta({ description: 'Keys of steps that lose data: each must be named in force' }),
  })
  .meta({ id: 'Plan' });
export type Plan = z.infer<typeof Plan>;

/** Of a body: whether it is only planned, and which steps may lose data. */
export const planFields = {
  dry_run: z.boolean().optional().meta({ description: 'Answer with the plan alone: nothing is changed' }),
  force: z.array(z.string().max(maxKeyChars)).max(100).optional().meta({
    description: 'Keys of the steps that may lose data, such as databases.db, or what else the plan asks for',
  }),
};
