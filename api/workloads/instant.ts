import { z } from 'zod';
import type { Clock } from '../../time/clock.ts';
import { badField } from '../ground/api-error.ts';

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Query parameter with a time, for {@link instantOf}. */
export const InstantText = z.string().max(40).meta({ description: 'RFC 3339, or an age such as 15m' });

/** Returns milliseconds since 1970. @throws ApiError BAD_REQUEST unless the text is RFC 3339 or an age such as 15m */
export function instantOf(field: string, text: string, clock: Clock): number {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined && unit !== undefined && Object.hasOwn(unitMs, unit))
    return clock.now().getTime() - Number(amount) * unitMs[unit as keyof typeof unitMs]; // the pattern allows only these
  const time = z.iso.datetime({ offset: true }).safeParse(text);
  if (!time.success) throw badField(field, 'invalid', `${field} must be RFC 3339 or an age such as 15m: got ${text}`);
  return Date.parse(time.data);
}
