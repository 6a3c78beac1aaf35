import { conflict } from '../../store/errors.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { markProven, requireFactorRoom, wrongFactorText } from '../auth/wrong-factors.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { mailAfterAnswer } from './mail-after-answer.ts';
import { isAuthenticatorCode, proveSecondFactor } from './second-factor.ts';
import type { Proof } from './second-factor.ts';

type User = ReadonlyResource<'user'>;

/** How long a mail of wrong second factors may wait for the mail server. */
const warningMs = 3_600_000;

/**
 * Judges the second factor of a login whose password or mailed code was right. A wrong code is counted in the record of the user, and
 * the user is told of several; a proof makes this place a known one. Recovery codes cannot be guessed and are not counted. Returns the
 * user as the judgement read it.
 *
 * @throws ApiError as `requireFactorRoom`; conflict if the account was changed meanwhile
 */
export async function proveAtLogin(
  ctx: RequestContext,
  unit: Unit,
  before: User,
  given: string | undefined,
): Promise<{ second: Proof; user: User }> {
  if (!before.desired.two_factor_enabled) return { second: 'proven', user: before };
  // each guess reads what the one before has counted
  return ctx.inTurn(`${ctx.tenant} ${before.meta.id} second factor`, async (waited) => {
    if (waited) await ctx.fresh();
    const user = sameAccount(ctx, before);
    const isGuess = given !== undefined && isAuthenticatorCode(given);
    if (isGuess) requireFactorRoom(ctx, user);
    const second = proveSecondFactor(ctx, unit, user, given);
    if (second === 'proven') unit.change(user, (draft) => markProven(ctx, draft));
    if (second === 'wrong' && isGuess && (await ctx.countWrongFactor(user))) mail(ctx, user);
    return { second, user };
  });
}

/** The account as it is now, if the password is still the one that was proven. @throws conflict */
function sameAccount({ view }: Pick<RequestContext, 'view'>, { meta: { kind, id }, desired }: User): User {
  const user = view.get('user', id);
  if (user?.desired.disabled === false && user.desired.password_hash === desired.password_hash) return user;
  throw conflict('Account was changed during its login', { why: 'changed', ref: { kind, id } });
}

function mail(ctx: RequestContext, { desired: { email } }: User): void {
  const { title, message } = wrongFactorText(ctx.request);
  const text = [`${message}.`, `Setpoint is at ${ctx.config.publicUrl}.`, ''].join('\n\n');
  mailAfterAnswer(
    ctx,
    { to: email, subject: title, text },
    { withinMs: warningMs, lack: 'Cannot mail that second factors were wrong: the user has a notification' },
  );
}
