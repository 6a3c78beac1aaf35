import { createHash } from 'node:crypto';
import { z } from 'zod';
import { keys } from '../../store/keys.ts';
import type { KeyRecord } from '../../store/key-table.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Write } from '../../store/store.ts';
import { tooMany } from '../ground/api-error.ts';
import type { ApiDependencies } from '../ground/dependencies.ts';
import { writeInTenant } from '../ground/tenant-writes.ts';
import { byProof } from './authenticate.ts';
import type { Principal } from './principal.ts';
import { principalId, credentialOf } from './principal.ts';

export const ticketLifeMs = 30_000;
/** Unused tickets of one caller. */
const ticketsPerCaller = 100;
/** Expired tickets that one creation deletes. */
const clearedPerTicket = 20;
const prefix = 'wst_';

const Stored = z.object({
  /** Path of the stream, without tenant and query. */
  path: z.string(),
  expires_at: z.iso.datetime(),
  by: z.object({ type: z.enum(['session', 'key']), id: z.string() }),
});

type Dependencies = Pick<ApiDependencies, 'store' | 'mirror' | 'clock' | 'random'>;

/** Whether a credential in a URL looks like a ticket. */
export function isTicketForm(text: string): boolean {
  return text.startsWith(prefix);
}

/** Tickets for streams: each opens one socket. They change no object, so they are not in the audit log. */
export interface StreamTickets {
  /**
   * Makes a ticket that opens the stream at `path` once, as the caller, within 30 seconds and on any replica. The store
   * holds only its hash. @throws ApiError TOO_MANY_REQUESTS while the caller has 100 unused ones, NOT_FOUND in a
   * tenant that is being deleted; Unavailable.
   */
  make(tenant: string, caller: Principal, path: string): Promise<string>;
  /**
   * Returns the caller that a ticket lets in at `path`. Of several requests with one ticket, on any replicas, at most
   * one succeeds. A ticket for another path is used up, too. Returns `undefined` if the ticket, or the session or key
   * that made it, is not valid.
   */
  redeem(view: TenantView, ticket: string, path: string): Promise<Principal | undefined>;
}

export function createStreamTickets(deps: Dependencies): StreamTickets {
  return {
    make: (tenant, caller, path) => make(deps, tenant, caller, path),
    redeem: (view, ticket, path) => redeem(deps, view, ticket, path),
  };
}

async function make(
  { store, mirror, clock, random }: Dependencies,
  tenant: string,
  caller: Principal,
  path: string,
): Promise<string> {
  const now = clock.now().getTime();
  const of = sha256(principalId(caller)).slice(0, 16);
  const known = mirror.keysUnder(keys.ticket(tenant, of));
  const expired = known.filter((record) => isOver(record, now)).slice(0, clearedPerTicket);
  if (known.length - expired.length >= ticketsPerCaller)
    throw tooMany('Too many tickets for streams wait to be used', ticketLifeMs / 1000);
  const ticket = `${prefix}${of}${random.bytes(32).toString('base64url')}`;
  const stored: z.infer<typeof Stored> = {
    path,
    expires_at: new Date(now + ticketLifeMs).toISOString(),
    by: credentialOf(caller),
  };
  const cleared: Write[] = expired.map(({ key }) => ({ delete: key }));
  const put: Write = { put: keyOf(tenant, ticket), value: JSON.stringify(stored) };
  await writeInTenant({ store, mirror }, tenant, [...cleared, put]);
  return ticket;
}

async function redeem(
  { store, clock }: Dependencies,
  view: TenantView,
  ticket: string,
  path: string,
): Promise<Principal | undefined> {
  const key = keyOf(view.tenant, ticket);
  const entry = await store.get(key);
  if (entry === undefined) return undefined;
  const used = await store.txn({ if: [{ key, is: 'at', revision: entry.modRevision }], then: [{ delete: key }] });
  if (!used.committed) return undefined;
  const stored = Stored.parse(JSON.parse(entry.value));
  if (stored.path !== path || Date.parse(stored.expires_at) <= clock.now().getTime()) return undefined;
  return byProof(stored.by, { view, clock });
}

/** Deletes tickets that expired unused. Every replica may do it. @throws Unavailable */
export async function forgetExpiredTickets({
  store,
  mirror,
  clock,
}: Pick<Dependencies, 'store' | 'mirror' | 'clock'>): Promise<void> {
  const now = clock.now().getTime();
  for (const tenant of mirror.tenants())
    for (const record of mirror.keysUnder(keys.ticket(tenant, '')))
      if (isOver(record, now)) await store.txn({ if: [], then: [{ delete: record.key }] });
}

function isOver({ value }: KeyRecord, now: number): boolean {
  const stored = Stored.safeParse(JSON.parse(value));
  return !stored.success || Date.parse(stored.data.expires_at) <= now;
}

/** The key begins with the caller, so that the tickets of a caller can be counted. */
function keyOf(tenant: string, ticket: string): string {
  return keys.ticket(tenant, `${ticket.slice(prefix.length, prefix.length + 16)}${sha256(ticket)}`);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
