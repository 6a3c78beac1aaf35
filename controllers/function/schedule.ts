import { mostMissed } from '../../agent-protocol/task-table.ts';
import { instantsBetween, nextInstant } from '../../time/cron.ts';
import type { CronRule } from '../../time/cron.ts';

/** What a schedule led to so far. Instants are in UTC. */
export interface Fired {
  handledUntil: string;
  lastRunAt?: string | undefined;
  /** The call that was asked for last. `ended`: what became of it is known. */
  firing?: { at: string; missed: readonly string[]; ended?: true | undefined } | undefined;
  /** The last of the instants that nothing was called for, which the next call records. */
  missed: readonly string[];
  isIdle: boolean;
}

/** What is there of the call that was asked for last. */
export type CallState = 'absent' | 'under_way' | 'ended';

/**
 * The next step of a schedule. Pure. Of several instants that have come, as after the control plane was away, the last one
 * fires. While a call goes on, none begins, and its instants are missed. What was left out while it was idle is not caught up.
 *
 * A call is recorded before it is asked for, and its end before it is removed, so that a crash between the two repeats neither.
 */
export function fire(
  rule: CronRule,
  before: Fired,
  call: CallState,
  { isIdle, now }: { isIdle: boolean; now: Date },
): Fired {
  const { firing, missed } = before;
  if (firing !== undefined && firing.ended !== true && call === 'ended')
    return { ...before, firing: { ...firing, ended: true } };
  const isOver = firing === undefined || (firing.ended === true && call === 'absent');
  const rested: Fired = isOver ? { ...before, firing: undefined } : before;
  if (isIdle) return { ...rested, isIdle: true };
  if (before.isIdle) return { ...rested, isIdle: false, handledUntil: now.toISOString() };
  const instants = instantsBetween(rule, new Date(before.handledUntil), now).map((at) => at.toISOString());
  const last = instants.at(-1);
  if (last === undefined) return rested;
  const left = [...missed, ...(isOver ? instants.slice(0, -1) : instants)].slice(-mostMissed);
  return isOver
    ? { ...rested, handledUntil: last, lastRunAt: last, firing: { at: last, missed: left }, missed: [] }
    : { ...rested, handledUntil: last, missed: left };
}

export function nextAfter(rule: CronRule, { handledUntil }: Fired): string | undefined {
  return nextInstant(rule, new Date(handledUntil))?.toISOString();
}
