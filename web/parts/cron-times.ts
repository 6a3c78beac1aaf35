import { Cron } from 'croner';

/** An instant at which a schedule fires. `note` marks an hour that the change of clocks doubles or leaves out. */
export interface Firing {
  readonly at: Date;
  readonly note?: 'the clock is put back on this day' | 'the clock is put forward on this day';
}

export type CronReading = { readonly firings: readonly Firing[] } | { readonly error: string };

const dayMs = 86_400_000;

/** The next firings of a cron expression in a zone; an error for one that is wrong or never fires. */
export function nextFirings(expression: string, zone: string, from: Date, count = 5): CronReading {
  const text = expression.trim();
  const minutes = minutesOf(text);
  if (minutes !== undefined)
    return {
      firings: Array.from({ length: count }, (_, at) => ({
        at: new Date(from.getTime() + (at + 1) * minutes * 60_000),
      })),
    };
  if (!text.startsWith('@') && text.split(/\s+/).length !== 5)
    return { error: 'Five fields are needed: minute, hour, day of the month, month, day of the week' };
  try {
    const times = new Cron(text, { timezone: zone, paused: true }).nextRuns(count, from);
    if (times.length === 0) return { error: 'This never fires: there is no such date' };
    return { firings: times.map((at) => ({ at, ...noteOf(at, zone) })) };
  } catch (error) {
    return { error: error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error) };
  }
}

function noteOf(at: Date, zone: string): Pick<Firing, 'note'> {
  const change =
    offsetMinutes(new Date(at.getTime() + dayMs), zone) - offsetMinutes(new Date(at.getTime() - dayMs), zone);
  if (change < 0) return { note: 'the clock is put back on this day' };
  return change > 0 ? { note: 'the clock is put forward on this day' } : {};
}

/** Minutes by which the clocks of a zone are before UTC. */
function offsetMinutes(at: Date, zone: string): number {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' }).formatToParts(at);
  const name = parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'GMT';
  const [, sign = '+', hours = '0', minutes = '0'] = /GMT([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;

/** The usual expressions in words; other ones are read by their next firings. */
export function cronWords(expression: string): string | undefined {
  const minutes = minutesOf(expression.trim());
  if (minutes !== undefined) return `Every ${minutes} minutes`;
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = expandedWord(expression.trim()).split(/\s+/);
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (day !== '*' || month !== '*') return undefined;
  if (every !== undefined && hour === '*' && weekday === '*') return `Every ${every} minutes`;
  if (!/^\d+$/.test(minute)) return undefined;
  if (hour === '*' && weekday === '*') return `Every hour at minute ${minute}`;
  if (!/^\d+$/.test(hour)) return undefined;
  const time = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (weekday === '*') return `Every day at ${time}`;
  const name = /^\d$/.test(weekday) ? days[Number(weekday) % 7] : undefined;
  return name === undefined ? undefined : `Every ${name} at ${time}`;
}

/** Of an interval such as `@every 90m`, which begins when its schedule does. */
function minutesOf(expression: string): number | undefined {
  const count = /^@every ([1-9]\d{0,5})m$/.exec(expression)?.[1];
  return count === undefined ? undefined : Number(count);
}

function expandedWord(expression: string): string {
  const words: Readonly<Record<string, string>> = {
    '@hourly': '0 * * * *',
    '@daily': '0 0 * * *',
    '@midnight': '0 0 * * *',
    '@weekly': '0 0 * * 0',
  };
  return words[expression] ?? expression;
}
