import { hash } from 'node:crypto';
import { jwtVerify, SignJWT } from 'jose';
import type { JWTPayload } from 'jose';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Sealer, Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import type { Random } from '../ground/random.ts';
import { ensureSigningKeys, openSigningKeys, signingKeysKey } from './signing-keys.ts';

const issuer = 'setpoint';
const type = 'JWT';
const maxRemembered = 10_000;
const reloadAtMostEveryMs = 1000;

/** The contents of a token. It has no rights in it. */
export interface Claims {
  tenant: string;
  userId: string;
  sessionId: string;
  /** Wall clock, milliseconds since 1970. */
  expiresAt: number;
}

export interface Tokens {
  /** @param issuedAt the time that the life of the token is counted from */
  sign(claims: Claims, issuedAt: Date): Promise<string>;
  /**
   * Returns `undefined` for a token that is not ours, not for this tenant, or expired. It does not check the session.
   */
  verify(token: string, tenant: string): Promise<Claims | undefined>;
  close(): void;
}

/**
 * Tokens are JWTs signed with Ed25519. No other algorithm and no key from outside the stored list is accepted. A
 * verified token is remembered by its hash until its session ends, since verifying costs more than the rest of a read.
 */
export async function createTokens(deps: {
  store: Pick<Store, 'get' | 'txn'>;
  mirror: Pick<Mirror, 'subscribe' | 'subscribeKeys'>;
  sealer: Sealer;
  unsealer: Unsealer;
  clock: Clock;
  random: Random;
}): Promise<Tokens> {
  const { store, mirror, unsealer, clock } = deps;
  let ring = openSigningKeys(await ensureSigningKeys(deps), unsealer);
  let reloadedAt = clock.monotonic();
  const remembered = new Map<string, Claims>();
  const bySession = new Map<string, Set<string>>();

  const forget = (digest: string): void => {
    const claims = remembered.get(digest);
    if (claims === undefined) return;
    remembered.delete(digest);
    const digests = bySession.get(claims.sessionId);
    digests?.delete(digest);
    if (digests?.size === 0) bySession.delete(claims.sessionId);
  };
  const remember = (digest: string, claims: Claims): void => {
    const [oldest] = remembered.keys();
    if (remembered.size >= maxRemembered && oldest !== undefined) forget(oldest);
    remembered.set(digest, claims);
    const digests = bySession.get(claims.sessionId);
    if (digests === undefined) bySession.set(claims.sessionId, new Set([digest]));
    else digests.add(digest);
  };

  const unsubscribe = [
    mirror.subscribeKeys((change) => {
      if (change.key !== signingKeysKey || change.after === undefined) return;
      ring = openSigningKeys(change.after, unsealer);
      remembered.clear();
      bySession.clear();
    }),
    mirror.subscribe((change) => {
      if (change.kind !== 'session' || change.after !== undefined) return;
      for (const digest of bySession.get(change.id) ?? []) forget(digest);
    }),
  ];

  /** Another replica may have signed with a key that the mirror does not show yet. */
  const keyOf = async (kid: string | undefined) => {
    const known = kid === undefined ? undefined : ring.verifying.get(kid);
    if (known !== undefined || kid === undefined || clock.monotonic() - reloadedAt < reloadAtMostEveryMs) return known;
    reloadedAt = clock.monotonic();
    const stored = await store.get(signingKeysKey);
    if (stored !== undefined) ring = openSigningKeys(stored.value, unsealer);
    return ring.verifying.get(kid);
  };

  const check = async (token: string, tenant: string): Promise<JWTPayload | undefined> => {
    try {
      const { payload } = await jwtVerify(
        token,
        async ({ kid }) => {
          const key = await keyOf(kid);
          if (key === undefined) throw new UnknownKey();
          return key;
        },
        {
          algorithms: ['EdDSA'],
          issuer,
          audience: tenant,
          typ: type,
          requiredClaims: ['sub', 'sid', 'iat', 'exp'],
          clockTolerance: 60,
          currentDate: clock.now(),
        },
      );
      return payload;
    } catch (error) {
      if (error instanceof UnknownKey || isTokenFault(error)) return undefined;
      throw error;
    }
  };

  return {
    async sign(claims, issuedAt) {
      return new SignJWT({ sid: claims.sessionId })
        .setProtectedHeader({ alg: 'EdDSA', typ: type, kid: ring.current.kid })
        .setIssuer(issuer)
        .setAudience(claims.tenant)
        .setSubject(claims.userId)
        .setIssuedAt(issuedAt)
        .setExpirationTime(new Date(claims.expiresAt))
        .sign(ring.current.key);
    },
    async verify(token, tenant) {
      const digest = hash('sha256', token, 'base64');
      const known = remembered.get(digest);
      if (known !== undefined) {
        if (known.expiresAt <= clock.now().getTime()) {
          forget(digest);
          return undefined;
        }
        return known.tenant === tenant ? known : undefined;
      }
      const payload = await check(token, tenant);
      if (payload?.sub === undefined || payload.exp === undefined || typeof payload['sid'] !== 'string')
        return undefined;
      const claims = { tenant, userId: payload.sub, sessionId: payload['sid'], expiresAt: payload.exp * 1000 };
      remember(digest, claims);
      return claims;
    },
    close() {
      for (const end of unsubscribe) end();
    },
  };
}

/** The key of a token is not in the stored list. */
class UnknownKey extends Error {}

/** Whether jose rejects the token, as opposed to the store failing while a key is looked up. */
function isTokenFault(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('ERR_J');
}
