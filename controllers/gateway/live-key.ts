import { z } from 'zod';
import type { Clock } from '../../time/clock.ts';
import type { Connections } from '../../store/connections.ts';
import { countConnection, parseConnections, putConnections, withLoss } from '../../store/connections.ts';
import { keys } from '../../store/keys.ts';
import type { Revision } from '../../store/revision.ts';
import type { Entry, Guard, Lease, Store } from '../../store/store.ts';
import { limits } from './limits.ts';

/** Value of `live/agent/<server>`. */
const LiveValue = z.object({
  replica: z.string(),
  session: z.string(),
  machineId: z.string(),
  bootId: z.string(),
  /** Of the agent process; agents of earlier releases have none. */
  processId: z.string().optional(),
  agentVersion: z.string(),
  runtime: z.string(),
  runtimeVersion: z.string(),
  /** What the agent understands beyond the first release. */
  capabilities: z.array(z.string()).optional(),
  /** Those of them that the operator of the machine switched off. */
  forbids: z.array(z.string()).optional(),
  /** Why the agent's container engine cannot be used. */
  engineTrouble: z.object({ reason: z.string(), message: z.string() }).optional(),
  /** What is wrong around the engine although it answers; absent: nothing, or the agent tells none. */
  engineWarnings: z.array(z.object({ reason: z.string(), message: z.string() })).optional(),
  /** Why the update that was asked for at that time failed. */
  updateFailure: z
    .object({ version: z.string(), requestedAt: z.string(), reason: z.string(), message: z.string() })
    .optional(),
  /** RFC 3339: when the session began, for display. */
  since: z.string(),
  /** Sessions of different agents keep replacing each other: one is a copy of the other. */
  conflict: z.boolean().optional(),
  /** The last takeovers by another agent: which one took over and when. */
  takeovers: z.array(z.object({ by: z.string(), at: z.string() })).optional(),
});
export type LiveValue = z.infer<typeof LiveValue>;

/** A session's live key: its epoch is the fence of everything that the session writes. */
export interface LiveKey {
  epoch: Revision;
  lease: Lease;
  fence: Guard;
  /** The key records that one agent is a copy of another. */
  isConflict: boolean;
}

/**
 * Makes the session the only one of its server: writes the live key under a new lease, in place of any other session's,
 * and counts the session in the record of connections, once.
 *
 * Returns `undefined` if the server is gone, or if `unless` is true for the present holder, which then stays.
 */
export async function takeLiveKey(
  store: Store,
  clock: Clock,
  place: { tenant: string; server: string },
  about: Omit<LiveValue, 'conflict' | 'takeovers'>,
  unless: (holder: LiveValue) => boolean = () => false,
): Promise<LiveKey | undefined> {
  const key = keys.agent(place.tenant, place.server);
  const recordKey = keys.connections(place.tenant, place.server);
  const present: Guard = { key: keys.desired(place.tenant, 'server', place.server), is: 'present' };
  const lease = await store.lease(limits.session.leaseMs);
  try {
    for (let attempt = 0; attempt < limits.session.attempts; attempt++) {
      const [before, record] = await Promise.all([store.get(key), store.get(recordKey)]);
      const holder = parseLive(before);
      if (holder !== undefined && unless(holder)) break;
      const history = takeovers(holder, about, clock);
      const value = JSON.stringify({ ...about, ...history });
      const known = parseConnections(record);
      const counted = connectionsAfter(known, holder, about.session, clock);
      const result = await store.txn({
        if: [asRead(key, before), present, ...(counted === known ? [] : [asRead(recordKey, record)])],
        then: [
          { put: key, value, lease: lease.id },
          ...(counted === known ? [] : [putConnections(place.tenant, place.server, counted)]),
        ],
      });
      if (result.committed) {
        const epoch = result.revision;
        return { epoch, lease, fence: { key, is: 'at', revision: epoch }, isConflict: history.conflict === true };
      }
      if (result.failed.some((failed) => failed.guard.key === present.key)) break;
    }
  } catch (error) {
    void lease.revoke().catch(() => undefined); // the store is away: the lease expires
    throw error;
  }
  await lease.revoke();
  return undefined;
}

/** The record of connections after this session took the key. A session that still held it lost its connection. */
function connectionsAfter(
  before: Connections | undefined,
  holder: LiveValue | undefined,
  session: string,
  clock: Clock,
): Connections {
  const now = clock.now();
  const counted = countConnection(before, session, now);
  const isOpen = holder !== undefined && holder.session !== session && counted !== before;
  return isOpen ? withLoss(counted, 'The agent connected again while its connection was still open', now) : counted;
}

function asRead(key: string, entry: Entry | undefined): Guard {
  return entry === undefined ? { key, is: 'absent' } : { key, is: 'at', revision: entry.modRevision };
}

export function parseLive(entry: Pick<Entry, 'value'> | undefined): LiveValue | undefined {
  if (entry === undefined) return undefined;
  try {
    return LiveValue.parse(JSON.parse(entry.value));
  } catch {
    return undefined; // written by another version: replaced like any other session
  }
}

/** The record of takeovers. If two agents take over from each other several times, one is a copy of the other. */
function takeovers(
  before: LiveValue | undefined,
  now: Pick<LiveValue, 'machineId' | 'bootId' | 'processId'>,
  clock: Clock,
): Pick<LiveValue, 'conflict' | 'takeovers'> {
  if (before === undefined) return {};
  const at = clock.now();
  const recent = (before.takeovers ?? []).filter((it) => at.getTime() - Date.parse(it.at) < limits.conflict.withinMs);
  const by = processOf(now);
  const all = by === processOf(before) ? recent : [...recent, { by, at: at.toISOString() }];
  const isDouble = all.length >= limits.conflict.takeovers && all.filter((it) => it.by === all.at(-1)?.by).length > 1;
  return {
    ...(all.length > 0 && { takeovers: all.slice(-2 * limits.conflict.takeovers) }),
    ...(isDouble && { conflict: true }),
  };
}

/** Names an agent process. One that restarts has a new name and never an earlier one again, unlike copies that take turns. */
function processOf({
  machineId,
  bootId,
  processId = '',
}: Pick<LiveValue, 'machineId' | 'bootId' | 'processId'>): string {
  return `${machineId}/${bootId}/${processId}`;
}
