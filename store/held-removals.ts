import { z } from 'zod';
import { keys } from './keys.ts';
import type { Write } from './store.ts';

/**
 * The record of removals that wait for an operator. A store that was restored from a backup does not know what was
 * created since, so the desired set of a server may lack most of what runs there. Nothing of that is removed until an
 * operator confirms it.
 */
const HeldRemovals = z.object({
  /** Number of instances that the store does not know and the agent keeps. */
  held: z.int(),
  confirmed: z.boolean(),
  /**
   * The era of the store in which it was confirmed: see `presentEra`. A confirmation of another era counts for nothing if
   * the agent was away since, as it may have come back with a backup.
   */
  era: z.string().optional(),
});
export type HeldRemovals = z.infer<typeof HeldRemovals>;

/** @throws Error for a record that is not of this form. */
export function parseHeldRemovals(value: string): HeldRemovals {
  return HeldRemovals.parse(JSON.parse(value));
}

/** The write of the record of a server. */
export function putHeldRemovals(tenant: string, server: string, value: HeldRemovals): Write {
  return { put: keys.removals(tenant, server), value: JSON.stringify(value) };
}
