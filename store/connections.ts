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
  /** When and why a connection ended last without a goodbye. */
  lost: z.object({ at: z.string(), why: z.string() }).optional(),
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
  const again = [...recent(before, now), Math.floor(now.getTime() / 1000)].slice(-connectionLimits.counted);
  return { ...before, session, again };
}

/** The record after a connection was lost. */
export function withLoss(record: Connections, why: string, now: Date): Connections {
  return { ...record, lost: { at: now.toISOString(), why: why.slice(0, connectionLimits.whyChars) } };
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
