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
  /** The schedule that instants were looked for by; absent: it was not recorded. */
  rule?: string | undefined;
}

/** What is there of the call that was asked for last. `expired`: no agent took it in time. */
export type CallState = 'absent' | 'under_way' | 'ended' | 'expired';

/** A clock that was set back by more than this does not hold a schedule up. */
const aheadMs = 25 * 3_600_000;
/** After a long absence it is looked back from now, in steps of this length, which have fewer instants than one list. */
const backMs = 900 * 60_000;
const mostBack = 1000;

/**
 * The next step of a schedule. Pure. Of several instants that have come, as after the control plane was away, the last one
 * fires. While a call goes on, none begins, and its instants are missed. What was left out while it was idle is not caught up.
 *
 * A call is recorded before it is asked for, and its end before it is removed, so that a crash between the two repeats neither.
 */
export function fire(
  rule: CronRule,
  recorded: Fired,
  call: CallState,
  { isIdle, now }: { isIdle: boolean; now: Date },
): Fired {
  const before = current(rule, recorded, now);
  const { firing, missed } = before;
  if (firing !== undefined && firing.ended !== true && call === 'ended')
    return { ...before, firing: { ...firing, ended: true } };
  // nothing recorded its instants: the next call does
  if (firing !== undefined && firing.ended !== true && call === 'expired')
    return {
      ...before,
      firing: { ...firing, ended: true },
      missed: [...firing.missed, firing.at, ...missed].slice(-mostMissed),
    };
  const isOver = firing === undefined || (firing.ended === true && call === 'absent');
  const rested: Fired = isOver ? { ...before, firing: undefined } : before;
  if (isIdle) return { ...rested, isIdle: true };
  if (before.isIdle) return { ...rested, isIdle: false, handledUntil: now.toISOString() };
  const instants = lastInstants(rule, new Date(before.handledUntil), now).map((at) => at.toISOString());
  const last = instants.at(-1);
  if (last === undefined) return rested;
  const left = [...missed, ...(isOver ? instants.slice(0, -1) : instants)].slice(-mostMissed);
  return isOver
    ? { ...rested, handledUntil: last, lastRunAt: last, firing: { at: last, missed: left }, missed: [] }
    : { ...rested, handledUntil: last, missed: left };
}

/** What was recorded, as it holds by this rule and this clock: another schedule begins now, and catches nothing up. */
function current({ expression, timezone }: CronRule, recorded: Fired, now: Date): Fired {
  const rule = `${timezone} ${expression}`;
  if (recorded.rule !== undefined && recorded.rule !== rule)
    return { ...recorded, rule, handledUntil: now.toISOString(), missed: [] };
  const isAhead = Date.parse(recorded.handledUntil) - now.getTime() > aheadMs;
  return { ...recorded, rule, ...(isAhead && { handledUntil: now.toISOString() }) };
}

/** The instants, of too many the last ones: a list of them leaves those out. */
function lastInstants(rule: CronRule, after: Date, until: Date): Date[] {
  const first = instantsBetween(rule, after, until);
  const last = first.at(-1);
  if (last === undefined || instantsBetween(rule, last, until).length === 0) return first;
  let found: Date[] = [];
  let end = until;
  for (let step = 0; step < mostBack && end > last && found.length <= mostMissed; step += 1) {
    const begin = new Date(Math.max(end.getTime() - backMs, last.getTime()));
    found = [...instantsBetween(rule, begin, end), ...found];
    end = begin;
  }
  return [...first, ...found].slice(-mostMissed - 1);
}

export function nextAfter(rule: CronRule, { handledUntil }: Fired): string | undefined {
  return nextInstant(rule, new Date(handledUntil))?.toISOString();
}
