import { Cron } from 'croner';

/** A cron expression of five fields, or a word such as `@daily`, and the time zone that it is read in. */
export interface CronRule {
  expression: string;
  /** Of the IANA database, such as `Europe/Berlin`. */
  timezone: string;
}

/** Instants that are counted at once. What was missed beyond is not counted. */
const mostInstants = 1000;

/** What is wrong with a rule, as a sentence for people; `undefined`: it has a next instant. */
export function cronFault(
  { expression, timezone }: CronRule,
  now: Date,
): { field: keyof CronRule; message: string } | undefined {
  if (!isTimezone(timezone))
    return { field: 'timezone', message: `There is no time zone ${timezone}: name one such as Europe/Berlin or UTC` };
  try {
    if (nextInstant({ expression, timezone }, now) !== undefined) return undefined;
    return { field: 'expression', message: 'No day has such a date: the expression would never fire' };
  } catch {
    const message =
      'Must be five fields (minute, hour, day of the month, month, day of the week), such as 30 3 * * *, or a word such as @daily';
    return { field: 'expression', message };
  }
}

/**
 * The first instant after another one. A local time that a change of clocks leaves out is an hour later, and one that it
 * repeats counts once; with `*` or `/` in minute or hour, instants follow the hours as they pass. `undefined`: there is none.
 *
 * @throws Error for an expression or a time zone that is none
 */
export function nextInstant(rule: CronRule, after: Date): Date | undefined {
  return cronOf(rule).nextRun(after) ?? undefined;
}

/** The instants after one and up to another, the earliest first; at most 1,000, of which the last ones are left out. */
export function instantsBetween(rule: CronRule, after: Date, until: Date): Date[] {
  const cron = cronOf(rule);
  const all: Date[] = [];
  for (let at = cron.nextRun(after); at !== null && at <= until; at = cron.nextRun(at)) {
    all.push(at);
    if (all.length === mostInstants) break;
  }
  return all;
}

function cronOf({ expression, timezone }: CronRule): Cron {
  return new Cron(expression, { timezone, paused: true, mode: '5-part', fixedTimeRule: 'no-wildcard' });
}

function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}
