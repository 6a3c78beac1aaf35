import { noUlimit, Ulimits } from '../../store/kinds/ulimits.ts';

/** Limits of processes: the soft one may not be above the hard one. */
export const UlimitsField = Ulimits.strict()
  .superRefine((limits, ctx) => {
    for (const [name, limit] of Object.entries(limits))
      if (limit !== undefined && limit.hard !== noUlimit && (limit.soft === noUlimit || limit.soft > limit.hard))
        ctx.addIssue({ code: 'custom', path: [name, 'soft'], message: 'Must be at most the hard limit' });
  })
  .meta({ description: 'Limits of the processes of an instance (ulimit); -1: no limit; null: those of the engine' });
