import { Secret, TOTP } from 'otpauth';
import type { SealPlace } from '../../store/seal.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { markProven } from '../auth/wrong-factors.ts';
import type { RequestContext } from '../endpoint/context.ts';
import type { Random } from '../ground/random.ts';

type Context = Pick<RequestContext, 'tenant' | 'clock' | 'random' | 'sealer' | 'unsealer' | 'shortSecrets'>;
type User = ReadonlyResource<'user'>;

const issuer = 'Setpoint';
const periodMs = 30_000;
/** Steps of 30 s by which the clock of the user's device may be off. */
const window = 1;
const secretBytes = 20;
const recoveryCodes = 10;
/** How long a setup can be confirmed after it was begun. */
const setupLifeMs = 15 * 60_000;

export type Proof = 'proven' | 'missing' | 'wrong';

/**
 * Judges a code of the authenticator application, or a recovery code. An account without a second factor is `proven`. A
 * code that is used up is recorded in the unit, so that of two requests with the same code only one succeeds.
 */
export function proveSecondFactor(ctx: Context, unit: Unit, user: User, given: string | undefined): Proof {
  const { two_factor_enabled, two_factor } = user.desired;
  if (!two_factor_enabled || two_factor === undefined) return 'proven';
  if (given === undefined || given.trim() === '') return 'missing';
  const text = withoutSeparators(given);
  const step = stepOf(ctx, user, text);
  if (step !== undefined) {
    if (step <= two_factor.last_step) return 'wrong';
    unit.change(user, (draft) => {
      if (draft.two_factor !== undefined) draft.two_factor.last_step = step;
    });
    return 'proven';
  }
  const used = two_factor.recovery.find((hash) => ctx.shortSecrets.matches(hash, ownerOf(ctx, user), text));
  if (used === undefined) return 'wrong';
  unit.change(user, (draft) => {
    if (draft.two_factor !== undefined)
      draft.two_factor.recovery = draft.two_factor.recovery.filter((hash) => hash !== used);
  });
  return 'proven';
}

/** Adds a new secret to the unit; it has no effect before it is confirmed. The secret is shown only in this answer. */
export function beginSecondFactor(ctx: Context, unit: Unit, user: User): { secret: string; uri: string } {
  const secret = new Secret({ buffer: Uint8Array.from(ctx.random.bytes(secretBytes)).buffer });
  const sealed = ctx.sealer.seal(secret.base32, placeOf(ctx, user));
  unit.change(user, (draft) => {
    const begun_at = ctx.clock.now().toISOString();
    draft.two_factor = { secret: sealed, begun_at, last_step: 0, recovery: [], failed: [], known: [] };
  });
  return { secret: secret.base32, uri: new TOTP({ issuer, label: user.desired.email, secret }).toString() };
}

/** Whether a setup was begun and can still be confirmed. */
export function isSettingUp({ desired: { two_factor, two_factor_enabled } }: User, now: number): boolean {
  if (two_factor === undefined || two_factor_enabled) return false;
  return now - Date.parse(two_factor.begun_at) < setupLifeMs;
}

/**
 * Switches the second factor on in the unit; this place is a known one from now on. Returns the recovery codes; `undefined` if the code
 * is wrong.
 */
export function confirmSecondFactor(
  ctx: Context & Pick<RequestContext, 'request'>,
  unit: Unit,
  user: User,
  given: string,
): string[] | undefined {
  const step = stepOf(ctx, user, given.replaceAll(/\s/g, ''));
  if (step === undefined) return undefined;
  unit.change(user, (draft) => {
    draft.two_factor_enabled = true;
    if (draft.two_factor !== undefined) draft.two_factor.last_step = step;
    markProven(ctx, draft);
  });
  return renewRecoveryCodes(ctx, unit, user);
}

/** Replaces all recovery codes in the unit. They are shown only in this answer. */
export function renewRecoveryCodes(ctx: Context, unit: Unit, user: User): string[] {
  const codes = Array.from({ length: recoveryCodes }, () => recoveryCode(ctx.random));
  const hashes = codes.map((code) => ctx.shortSecrets.hash(ownerOf(ctx, user), code.replaceAll('-', '')));
  unit.change(user, (draft) => {
    if (draft.two_factor !== undefined) draft.two_factor.recovery = hashes;
  });
  return codes;
}

/** Whether a text has the form of a code of the authenticator application; recovery codes are longer. */
export function isAuthenticatorCode(given: string): boolean {
  return /^\d{6}$/.test(withoutSeparators(given));
}

function withoutSeparators(given: string): string {
  return given.replaceAll(/[\s-]/g, '').toLowerCase();
}

/** The time step of a code; `undefined` if it matches no step near now. */
function stepOf(ctx: Context, user: User, code: string): number | undefined {
  const { two_factor } = user.desired;
  if (two_factor === undefined || !isAuthenticatorCode(code)) return undefined;
  const secret = Secret.fromBase32(ctx.unsealer.unseal(two_factor.secret, placeOf(ctx, user)));
  const timestamp = ctx.clock.now().getTime();
  const delta = new TOTP({ secret }).validate({ token: code, timestamp, window });
  return delta === null ? undefined : Math.floor(timestamp / periodMs) + delta;
}

/** 50 random bits in Crockford's alphabet, which has no look-alikes. */
function recoveryCode(random: Random): string {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
  const text = Array.from(random.bytes(10), (byte) => alphabet.charAt(byte % 32)).join('');
  return `${text.slice(0, 5)}-${text.slice(5)}`;
}

function ownerOf({ tenant }: Context, user: User): string {
  return `${tenant}/user/${user.meta.id}/recovery`;
}

function placeOf({ tenant }: Context, user: User): SealPlace {
  return { tenant, kind: 'user', id: user.meta.id, path: 'two_factor.secret' };
}
