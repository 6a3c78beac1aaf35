import { z } from 'zod';

/** A limit of processes that is none. */
export const noUlimit = -1;
export const mostUlimit = 2 ** 40;
const Ulimit = z.int().min(noUlimit).max(mostUlimit);

/** Limits of processes (`ulimit`) that take nothing from other workloads of a machine. */
export const Ulimits = z.object({
  core: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
  fsize: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
  memlock: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
  nofile: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
  nproc: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
  stack: z.object({ soft: Ulimit, hard: Ulimit }).optional(),
});
export type Ulimits = z.infer<typeof Ulimits>;
