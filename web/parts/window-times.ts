/** A span of time without a hole, in milliseconds since 1970. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Whether an instant is in one of the spans. */
export function isWithin(spans: readonly Span[], at: number): boolean {
  return spans.some(({ from, to }) => at >= from && at <= to);
}

/** The instant of the spans that is nearest to `at`; `undefined` without any span. */
export function nearestWithin(spans: readonly Span[], at: number): number | undefined {
  const held = spans.map(({ from, to }) => Math.min(Math.max(at, from), to));
  return held.toSorted((a, b) => Math.abs(a - at) - Math.abs(b - at))[0];
}

/** `at` moved by some milliseconds; a step into a hole goes on to its other side, and one beyond the ends stops there. */
export function movedWithin(spans: readonly Span[], at: number, by: number): number | undefined {
  const to = at + by;
  if (isWithin(spans, to)) return to;
  const beyond = by > 0 ? spans.find(({ from }) => from >= to)?.from : spans.findLast(({ to: end }) => end <= to)?.to;
  return beyond ?? nearestWithin(spans, to);
}

/** The holes between spans, which stand in the order of time. */
export function holesBetween(spans: readonly Span[]): Span[] {
  return spans.slice(1).flatMap(({ from }, at) => {
    const before = spans[at];
    return before === undefined || before.to >= from ? [] : [{ from: before.to, to: from }];
  });
}

/** An instant as a field for local time takes it, to the second. */
export function localText(at: number): string {
  const it = new Date(at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const date = [it.getFullYear(), two(it.getMonth() + 1), two(it.getDate())].join('-');
  return `${date}T${two(it.getHours())}:${two(it.getMinutes())}:${two(it.getSeconds())}`;
}
