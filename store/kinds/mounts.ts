import { z } from 'zod';
import { Id } from './fields.ts';

/** Volumes of its server that the instances of a workload mount. */
export const Mounts = z
  .array(
    z.object({
      volume_id: Id,
      /** As that volume has it. */
      data_id: Id.optional(),
      path: z.string(),
      read_only: z.boolean().default(false),
    }),
  )
  .default([]);
