import { cronFault, instantsBetween, nextInstant } from './cron.ts';
import type { CronRule } from './cron.ts';

/** Most minutes of an interval: those of a year. */
export const mostIntervalMinutes = 525_600;

/** Instants that are counted at once. */
const mostInstants = 1000;

/** The expression that fires so many minutes after it fired last. */
export function everyMinutes(minutes: number): string {
  return `@every ${minutes}m`;
}

/** The minutes of such an expression; `undefined`: it is another one. */
export function minutesOf(expression: string): number | undefined {
  const [, count] = /^@every ([1-9]\d{0,5})m$/.exec(expression) ?? [];
  const minutes = Number(count);
  return minutes <= mostIntervalMinutes ? minutes : undefined;
}

/** As `cronFault`, of rules that may have an interval. */
export function recurrenceFault(rule: CronRule, now: Date): ReturnType<typeof cronFault> {
  return cronFault(minutesOf(rule.expression) === undefined ? rule : { ...rule, expression: '@daily' }, now);
}

/** As `nextInstant`; an interval counts from `after`, at which the rule fired or began. */
export function nextRecurrence(rule: CronRule, after: Date): Date | undefined {
  const minutes = minutesOf(rule.expression);
  return minutes === undefined ? nextInstant(rule, after) : new Date(after.getTime() + minutes * 60_000);
}

/** As `instantsBetween`, of many the last ones; an interval counts from `after`, at which the rule fired or began. */
export function recurrencesBetween(rule: CronRule, after: Date, until: Date): Date[] {
  const minutes = minutesOf(rule.expression);
  if (minutes === undefined) return instantsBetween(rule, after, until);
  const count = Math.floor((until.getTime() - after.getTime()) / (minutes * 60_000));
  const length = Math.max(0, Math.min(count, mostInstants));
  return Array.from({ length }, (_, at) => new Date(after.getTime() + (at + 1 + count - length) * minutes * 60_000));
}
