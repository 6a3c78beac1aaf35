import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { KeyRecord } from '../../store/key-table.ts';
import { keys } from '../../store/keys.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Write } from '../../store/store.ts';
import { credentialOf } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import { countLimits, requireRoom } from './count-limits.ts';
import type { ApiDependencies } from '../ground/dependencies.ts';
import { writeInTenant } from '../ground/tenant-writes.ts';

/** Time in which the creator of a terminal attaches to it. */
const attachWithinMs = 60_000;
/** A replica that is gone leaves the record of its open terminals for this time. */
const leaseMs = 30_000;
/** Expired records that one creation deletes. */
const clearedPerSession = 20;
const prefix = 'trm_';

/** Where a terminal is; `in` is absent in records of an earlier release, which knows instances only. */
const Place = z.discriminatedUnion('in', [
  z.object({
    in: z.literal('instance').default('instance'),
    application_id: z.string(),
    /** The assignment that is the instance. */
    instance_id: z.string(),
    server_id: z.string(),
    command: z.tuple([z.string()], z.string()).optional(),
  }),
  z.object({
    in: z.literal('database'),
    database_id: z.string(),
    instance_id: z.string(),
    server_id: z.string(),
    command: z.tuple([z.string()], z.string()).optional(),
  }),
  z.object({ in: z.literal('server'), server_id: z.string() }),
]);

const Session = z.object({
  shell: z.string().optional(),
  cols: z.int(),
  rows: z.int(),
  /** Who may attach, by this very session or key. */
  by: z.object({ type: z.enum(['session', 'key']), id: z.string() }),
  state: z.discriminatedUnion('is', [
    z.object({ is: z.literal('waiting'), expires_at: z.iso.datetime() }),
    /** The record has a lease and goes with it. */
    z.object({ is: z.literal('open') }),
  ]),
});
const Stored = z.intersection(Place, Session);
type Stored = z.infer<typeof Stored>;

/** What a terminal runs, and where. */
export type TerminalPlace = z.infer<typeof Place> & Omit<z.infer<typeof Session>, 'by' | 'state'>;

/** A terminal that its creator attached to. */
export interface AttachedTerminal {
  place: TerminalPlace;
  /** Forgets the terminal. Never rejects: the lease forgets it, too. */
  release(): Promise<void>;
}

type Dependencies = Pick<ApiDependencies, 'store' | 'mirror' | 'clock' | 'random'>;

/**
 * Terminals from their creation to their end, in the store, so that a user can attach at any replica. They change no
 * object; the audit log has who opened and closed one.
 */
export interface TerminalSessions {
  /**
   * Makes a terminal to which the caller, by the same session or key, attaches once within a minute. The store holds
   * only a hash of its id.
   *
   * @throws ApiError CONFLICT if the user or the server has too many, NOT_FOUND in a tenant that is being deleted; Unavailable
   */
  make(tenant: string, caller: Principal, place: TerminalPlace): Promise<{ id: string; expiresAt: string }>;
  /**
   * Returns the terminal. Of several attempts, on any replicas, at most one succeeds. `undefined` if there is none of
   * this id, it was used or expired, or another credential made it; that leaves it as it is.
   */
  attach(view: TenantView, caller: Principal, id: string): Promise<AttachedTerminal | undefined>;
}

export function createTerminalSessions(deps: Dependencies): TerminalSessions {
  return {
    make: (tenant, caller, place) => make(deps, tenant, caller, place),
    attach: (view, caller, id) => attach(deps, view, caller, id),
  };
}

async function make(
  { store, mirror, clock, random }: Dependencies,
  tenant: string,
  caller: Principal,
  place: TerminalPlace,
): Promise<{ id: string; expiresAt: string }> {
  const now = clock.now().getTime();
  const owner = sha256(caller.user.meta.id).slice(0, 16);
  const known = mirror.keysUnder(keys.terminal(tenant, ''));
  const expired = known.filter((record) => isOver(record, now));
  const live = known.filter((record) => !expired.includes(record));
  requireRoom(
    live.filter(({ key }) => key.startsWith(keys.terminal(tenant, owner))).length,
    countLimits.terminalsPerUser,
    {
      where: 'The user',
      what: 'terminals',
      remedy: 'close one of them',
    },
  );
  requireRoom(live.filter((it) => serverOf(it) === place.server_id).length, countLimits.terminalsPerServer, {
    where: 'The server',
    what: 'terminals',
    remedy: 'wait until one of them is closed',
  });
  const id = `${prefix}${owner}${random.bytes(32).toString('base64url')}`;
  const expiresAt = new Date(now + attachWithinMs).toISOString();
  const stored: Stored = { ...place, by: credentialOf(caller), state: { is: 'waiting', expires_at: expiresAt } };
  const cleared: Write[] = expired.slice(0, clearedPerSession).map(({ key }) => ({ delete: key }));
  await writeInTenant({ store, mirror }, tenant, [
    ...cleared,
    { put: keyOf(tenant, id), value: JSON.stringify(stored) },
  ]);
  return { id, expiresAt };
}

async function attach(
  { store, clock }: Dependencies,
  view: TenantView,
  caller: Principal,
  id: string,
): Promise<AttachedTerminal | undefined> {
  if (!id.startsWith(prefix)) return undefined;
  const key = keyOf(view.tenant, id);
  const entry = await store.get(key);
  if (entry === undefined) return undefined;
  const stored = Stored.safeParse(JSON.parse(entry.value));
  if (!stored.success) return undefined; // a place that only a later release knows
  const { by, state, ...place } = stored.data;
  const own = credentialOf(caller);
  if (by.type !== own.type || by.id !== own.id) return undefined;
  if (state.is === 'open' || Date.parse(state.expires_at) <= clock.now().getTime()) return undefined;
  const lease = await store.lease(leaseMs);
  const release = (): Promise<void> => lease.revoke().catch(() => undefined); // it ends by itself
  try {
    const open: Stored = { ...place, by, state: { is: 'open' } };
    const taken = await store.txn({
      if: [{ key, is: 'at', revision: entry.modRevision }],
      then: [{ put: key, value: JSON.stringify(open), lease: lease.id }],
    });
    if (taken.committed) return { place, release };
  } catch (error) {
    await release();
    throw error;
  }
  await release();
  return undefined;
}

/** Deletes terminals to which their creators did not attach in time. Every replica may do it. @throws Unavailable */
export async function forgetExpiredTerminals({
  store,
  mirror,
  clock,
}: Pick<Dependencies, 'store' | 'mirror' | 'clock'>): Promise<void> {
  const now = clock.now().getTime();
  for (const tenant of mirror.tenants())
    for (const { key, revision, ...record } of mirror.keysUnder(keys.terminal(tenant, '')))
      // Its creator may attach in this moment by the clock of another replica.
      if (isOver(record, now)) await store.txn({ if: [{ key, is: 'at', revision }], then: [{ delete: key }] });
}

function serverOf({ value }: Pick<KeyRecord, 'value'>): string | undefined {
  return Stored.safeParse(JSON.parse(value)).data?.server_id;
}

function isOver({ value }: Pick<KeyRecord, 'value'>, now: number): boolean {
  const stored = Stored.safeParse(JSON.parse(value));
  if (!stored.success) return false; // of a later release: its lease or that release deletes it
  const { state } = stored.data;
  return state.is === 'waiting' && Date.parse(state.expires_at) <= now;
}

/** The key begins with the user, so that the terminals of a user can be counted. */
function keyOf(tenant: string, id: string): string {
  return keys.terminal(tenant, `${id.slice(prefix.length, prefix.length + 16)}${sha256(id)}`);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
