import type { limits } from '../../../controllers/runtime/limits.ts';

/** What a probe answers just below its limit, at it and just above it. */
type Answers = readonly [below: boolean, at: boolean, above: boolean];

/** How one limit is tried. The number stands here again, so that a limit that is changed by mistake is seen. */
export interface Row {
  limit: number;
  /** Distance of what is tried below and above. */
  step: number;
  answers: Answers;
  probe: (n: number) => boolean | Promise<boolean>;
}

type Make = (limit: number, probe: Row['probe'], step?: number) => Row;

const row =
  (...answers: Answers): Make =>
  (limit, probe, step = 1) => ({ limit, step, answers, probe });

/** A time that must have passed, or a number that must be reached: the probe holds at the limit and above. */
export const from = row(false, true, true);
/** A number that is allowed: the probe holds below the limit and at it. */
export const upTo = row(true, true, false);
/** A number that is the first one not allowed: the probe holds below the limit alone. */
export const below = row(true, false, false);
/** A number that is the last one allowed to do nothing: the probe holds above the limit alone. */
export const beyond = row(false, false, true);

type Group = keyof typeof limits;

/** A row for each limit of the group: a limit without one does not compile. */
export type Rows<G extends Group> = { readonly [K in keyof (typeof limits)[G]]: Row };

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;
