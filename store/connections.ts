import { z } from 'zod';
import { keys } from './keys.ts';
import type { Entry, Write } from './store.ts';

/** Connections of one agent that are counted at most, and for how long. */
export const connectionLimits = { counted: 200, withinMs: 24 * 3_600_000, whyChars: 200 } as const;

/**
 * What is known of the connections of a server's agent, whichever replica held them. It is written when a session
 * begins and when a connection is lost, never by a beat.
 */
const Connections = z.object({
  /** The session that was counted last. */
  session: z.string(),
  /** When sessions began in the last 24 h, without the first one ever: seconds since 1970, oldest first. */
  again: z.array(z.int()).max(connectionLimits.counted),
  /**
   * When and why a connection ended last without a goodbye. `refused`: the control plane refused it, which it does until
   * its operator acts.
   */
  lost: z
    .object({ at: z.string(), why: z.string(), refused: z.literal('UnknownKey').optional().catch(undefined) })
    .optional(),
});
export type Connections = z.infer<typeof Connections>;

/** `undefined`: there is no record, or one that this release cannot read, which the next session replaces. */
export function parseConnections(entry: Pick<Entry, 'value'> | undefined): Connections | undefined {
  if (entry === undefined) return undefined;
  try {
    return Connections.parse(JSON.parse(entry.value));
  } catch {
    return undefined;
  }
}

/** The record after that session began; the same object if it was counted before. */
export function countConnection(before: Connections | undefined, session: string, now: Date): Connections {
  if (before === undefined) return { session, again: [] };
  if (before.session === session) return before;
  const { lost } = before;
  const again = [...recent(before, now), Math.floor(now.getTime() / 1000)].slice(-connectionLimits.counted);
  return { session, again, ...(lost !== undefined && { lost: { at: lost.at, why: lost.why } }) };
}

/** The record after a connection was lost. */
export function withLoss(record: Connections, why: string, now: Date): Connections {
  return { ...record, lost: { at: now.toISOString(), why: why.slice(0, connectionLimits.whyChars) } };
}

/** The record after a connection was refused; the same object if that was the last that happened. */
export function withRefusal(record: Connections, why: string, now: Date): Connections {
  if (record.lost?.refused !== undefined) return record;
  return {
    ...record,
    lost: { at: now.toISOString(), why: why.slice(0, connectionLimits.whyChars), refused: 'UnknownKey' },
  };
}

/** How often the agent connected again in the last 24 h, at most `connectionLimits.counted`. */
export function reconnectsOf(record: Connections | undefined, now: Date): number {
  return record === undefined ? 0 : recent(record, now).length;
}

function recent({ again }: Connections, now: Date): number[] {
  return again.filter((at) => now.getTime() - at * 1000 < connectionLimits.withinMs);
}

export function putConnections(tenant: string, server: string, value: Connections): Write {
  return { put: keys.connections(tenant, server), value: JSON.stringify(value) };
}
