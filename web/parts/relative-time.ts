const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** From this age on a date says more than a number of days. */
const datedFromMs = 60 * dayMs;

/** The time between an instant and now, in one unit; beyond sixty days the date. */
export function relativeTime(at: string, now: number): string {
  const instant = Date.parse(at);
  if (Number.isNaN(instant)) return at;
  const ms = now - instant;
  const size = Math.abs(ms);
  if (size >= datedFromMs) return dateOf(instant);
  if (size < 5 * secondMs) return 'just now';
  const text = oneUnit(size);
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

function oneUnit(ms: number): string {
  if (ms < minuteMs) return `${Math.floor(ms / secondMs)} s`;
  if (ms < hourMs) return `${Math.floor(ms / minuteMs)} min`;
  if (ms < dayMs) return `${Math.floor(ms / hourMs)} h`;
  return `${Math.floor(ms / dayMs)} d`;
}

function dateOf(instant: number): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' }).format(instant);
}

/** An instant to the second in the zone of the reader, with the name of the zone. */
export function exactTime(at: string): string {
  const instant = Date.parse(at);
  if (Number.isNaN(instant)) return at;
  return new Intl.DateTimeFormat(undefined, {
    year: 'numeric',
    month: 'short',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  }).format(instant);
}

/** The time of day with milliseconds, as a line of a log has it. */
export function clockTime(instant: number): string {
  const at = new Date(instant);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

/** A length of time in its two largest units, such as `2 m 04 s`. */
export function durationText(ms: number): string {
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  if (ms < secondMs) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10 * secondMs) return `${(ms / secondMs).toFixed(1)} s`;
  if (ms < minuteMs) return `${Math.floor(ms / secondMs)} s`;
  if (ms < hourMs) return `${Math.floor(ms / minuteMs)} m ${two((ms % minuteMs) / secondMs)} s`;
  if (ms < dayMs) return `${Math.floor(ms / hourMs)} h ${two((ms % hourMs) / minuteMs)} m`;
  return `${Math.floor(ms / dayMs)} d ${two((ms % dayMs) / hourMs)} h`;
}
