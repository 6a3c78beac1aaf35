import { z } from 'zod';

/** Days (`7d`) or weeks (`2w`), of which a year has as many as are allowed. */
export const DrillInterval = z
  .string()
  .regex(/^([1-9]|[1-9]\d|[12]\d\d|3[0-5]\d|36[0-5])d$|^([1-9]|[1-4]\d|5[0-2])w$/, 'Must be 1d to 365d, or 1w to 52w');

const dayMs = 24 * 60 * 60_000;

/** Milliseconds of an interval. */
export function drillIntervalMs(interval: string): number {
  const count = Number.parseInt(interval, 10);
  return interval.endsWith('w') ? count * 7 * dayMs : count * dayMs;
}
