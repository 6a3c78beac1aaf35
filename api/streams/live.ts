import { z } from 'zod';
import type { Clock } from '../../time/clock.ts';

/** Query of a stream of figures as they are measured. What was measured before is in their lists: nothing is sent again. */
export const LiveQuery = z.object({
  cursor: z
    .string()
    .max(100)
    .optional()
    .meta({ description: 'Of the stream that was cut; it goes on with what comes' }),
});

/** The first frame of such a stream, and of one that cannot be resumed. */
export function readyNow(clock: Clock): { type: 'ready'; cursor: string } {
  return { type: 'ready', cursor: clock.now().toISOString() };
}
