import { createHash } from 'node:crypto';
import { z } from 'zod';
import { keys } from '../../store/keys.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { Entry, Guard } from '../../store/store.ts';
import { badRequest, conflicting } from '../ground/api-error.ts';
import { canonicalJson } from '../../store/canonical-json.ts';
import { countLimits, requireRoomFor } from '../rights/count-limits.ts';
import type { ShortSecrets } from '../auth/short-secrets.ts';
import type { ApiDependencies } from '../ground/dependencies.ts';

const lifeMs = 24 * 3_600_000;
/** How often expired records are deleted. */
export const forgetExpiredEveryMs = 3_600_000;

const Recorded = z.object({
  v: z.literal(1),
  expires_at: z.iso.datetime(),
  /** Keyed hash of the request's body: the body may hold a password, which a plain hash would let an attacker guess. */
  request: z.string(),
  /** Sealed, since the answer may contain a key that is shown only once. */
  answer: Sealed,
  /** The user in whose budget the record counts. */
  user: z.string().optional(),
  /** The transaction that wrote this record also wrote the object of the answer. */
  wrote: z.boolean(),
  /** The revision of that transaction, once the record was written again: its secret was sealed with another key. */
  revision: z.string().optional(),
});

type Dependencies = Pick<ApiDependencies, 'store' | 'mirror' | 'sealer' | 'unsealer' | 'clock'> & {
  shortSecrets: ShortSecrets;
};

/** A request that may be sent again: the same key and body get the first answer again. */
export interface IdempotentRequest {
  tenant: string;
  /** Id of the calling user. */
  user: string;
  /**
   * Names the record. It begins with a hash of the caller, so that the caller's records can be counted; then follows a
   * hash of tenant, caller, path and key.
   */
  hash: string;
  /** Keyed hash of the body. */
  request: string;
  /** Fails if another request with this key was answered meanwhile. */
  guard: Guard;
}

/** The first answer to a key, or what a new request needs to record its answer. */
export type Recalled = { answer: string } | { begin: IdempotentRequest };

/**
 * Looks up the answer to an earlier request with this key, by `look`.
 *
 * @throws ApiError BAD_REQUEST for an invalid key, CONFLICT if the key was used with another body, TOO_MANY_REQUESTS
 *   if too many answers are kept for the caller.
 */
export async function recallAnswer(
  deps: Dependencies,
  {
    tenant,
    caller,
    user,
    path,
    key,
    body,
  }: { tenant: string; caller: string; user: string; path: string; key: string; body: unknown },
  look: (record: string) => Promise<Entry | undefined>,
): Promise<Recalled> {
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw badRequest('Idempotency-Key must have 1 to 255 visible ASCII characters');
  const own = sha256(caller).slice(0, 16);
  const hash = `${own}${sha256([tenant, caller, path, key].join('\0')).slice(0, 48)}`;
  const request = deps.shortSecrets.hash(`${tenant}/idempotency/${hash}`, canonicalJson(body));
  const record = keys.idempotency(tenant, hash);
  const entry = await look(record);
  if (entry === undefined) {
    const kept = deps.mirror.keysUnder(keys.idempotency(tenant, own));
    requireRoomFor(kept.length, countLimits.answersPerCaller, {
      what: 'answers kept for repeated requests',
      remedy: 'send the request without Idempotency-Key, or when the oldest of them is forgotten (24 h)',
      now: deps.clock.now().getTime(),
      freeAt: () => forgottenAt(kept),
    });
    return { begin: { tenant, user, hash, request, guard: { key: record, is: 'absent' } } };
  }
  const recorded = Recorded.parse(JSON.parse(entry.value));
  if (Date.parse(recorded.expires_at) <= deps.clock.now().getTime())
    return { begin: { tenant, user, hash, request, guard: { key: record, is: 'at', revision: entry.modRevision } } };
  if (recorded.request !== request)
    throw conflicting('Idempotency-Key was used with another body: use a new key for a new request', [
      { field: 'Idempotency-Key', reason: 'reused', message: 'Use a new key for a new request' },
    ]);
  const answer = deps.unsealer.unseal(recorded.answer, placeOf(tenant, hash));
  return { answer: atRevision(answer, recorded.wrote, recorded.revision ?? String(entry.modRevision)) };
}

/** When the oldest of these records is deleted at the latest, in milliseconds of the wall clock. */
function forgottenAt(kept: readonly { value: string; revision: number }[]): number {
  const oldest = kept.reduce((least, one) => (one.revision < least.revision ? one : least));
  return Date.parse(Recorded.parse(JSON.parse(oldest.value)).expires_at) + forgetExpiredEveryMs;
}

/** Records the answer in the unit's own transaction. `wrote`: the unit writes the object of the answer. */
export function recordAnswer(
  deps: Pick<Dependencies, 'sealer' | 'clock'>,
  unit: Unit,
  { tenant, user, hash, request, guard }: IdempotentRequest,
  answer: string,
  wrote: boolean,
): void {
  const recorded: z.infer<typeof Recorded> = {
    v: 1,
    expires_at: new Date(deps.clock.now().getTime() + lifeMs).toISOString(),
    user,
    request,
    answer: deps.sealer.seal(answer, placeOf(tenant, hash)),
    wrote,
  };
  unit.guard(guard);
  unit.write({ put: guard.key, value: JSON.stringify(recorded) });
}

/** Deletes the expired records that the mirror shows. Every replica may do it. */
export async function forgetExpiredAnswers(deps: Pick<ApiDependencies, 'store' | 'mirror' | 'clock'>): Promise<void> {
  const now = deps.clock.now().getTime();
  for (const tenant of deps.mirror.tenants()) {
    for (const { key, value, revision } of deps.mirror.keysUnder(keys.idempotency(tenant, ''))) {
      const recorded = Recorded.safeParse(JSON.parse(value));
      if (recorded.success && Date.parse(recorded.data.expires_at) > now) continue;
      await deps.store.txn({ if: [{ key, is: 'at', revision }], then: [{ delete: key }] });
    }
  }
}

/**
 * Sets the version in an answer. It was recorded before its transaction had a revision; the record has that revision, or
 * names it.
 */
function atRevision(answer: string, wrote: boolean, revision: string): string {
  const value: unknown = JSON.parse(answer, (name, inner: unknown) =>
    name === 'resource_version' && inner === '0' ? revision : inner,
  );
  if (wrote && typeof value === 'object' && value !== null && 'resource_version' in value)
    value.resource_version = revision;
  return JSON.stringify(value);
}

function placeOf(tenant: string, hash: string): SealPlace {
  return { tenant, kind: 'idempotency', id: hash, path: 'answer' };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
