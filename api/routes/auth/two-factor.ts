import { z } from 'zod';
import type { Unit } from '../../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { badField, badRequest, conflicting } from '../../ground/api-error.ts';
import { judgeCode, useUp } from '../../auth/login-codes.ts';
import { attemptOfOwner } from '../../accounts/own-attempts.ts';
import {
  beginSecondFactor,
  confirmSecondFactor,
  isSettingUp,
  proveSecondFactor,
  renewRecoveryCodes,
} from '../../accounts/second-factor.ts';
import { endLateSessions, endOtherSessions } from '../../accounts/sessions.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { missingTotp, Totp, wrongTotp } from './login.ts';

const RecoveryCodes = z
  .object({ recovery_codes: z.array(z.string()).meta({ description: 'Shown in this answer only; each works once' }) })
  .meta({ id: 'RecoveryCodes' });
const Proven = z.strictObject({ totp: Totp.min(1) });

export const getTwoFactor = defineEndpoint({
  method: 'GET',
  path: '/auth/me/two-factor',
  summary: 'Whether a login asks for a second factor',
  response: z.object({ enabled: z.boolean(), pending: z.boolean(), recovery_codes_left: z.int() }),
  handle: async ({ principal: { user }, clock }) => ({
    enabled: user.desired.two_factor_enabled,
    pending: isSettingUp(user, clock.now().getTime()),
    recovery_codes_left: user.desired.two_factor_enabled ? (user.desired.two_factor?.recovery.length ?? 0) : 0,
  }),
});

export const beginTwoFactor = defineEndpoint({
  method: 'POST',
  path: '/auth/me/two-factor',
  summary: 'Get a secret for an authenticator application; nothing is asked for before it is confirmed',
  heavy: true,
  body: z.strictObject({
    password: z.string().max(1024).optional(),
    code: z.string().max(40).optional().meta({ description: 'A one-time code, for an account without password' }),
  }),
  response: z.object({ secret: z.string(), uri: z.string() }),
  handle: async (ctx, { body }) => {
    const user = ctx.principal.user;
    if (user.desired.two_factor_enabled) throw conflicting('Two-factor login is enabled already');
    const unit = ctx.repo.begin();
    await proveAgain(ctx, unit, body);
    const begun = beginSecondFactor(ctx, unit, user);
    return ctx.commit(unit, () => begun);
  },
});

export const confirmTwoFactor = defineEndpoint({
  method: 'POST',
  path: '/auth/me/two-factor/confirm',
  summary: 'Enable two-factor login by a first code; ends one’s other sessions',
  heavy: true,
  body: Proven,
  response: RecoveryCodes,
  handle: async (ctx, { body }) => {
    const user = ctx.principal.user;
    if (user.desired.two_factor_enabled) throw conflicting('Two-factor login is enabled already');
    if (!isSettingUp(user, ctx.clock.now().getTime()))
      throw conflicting('No setup of two-factor login was begun within the last 15 minutes: begin it again');
    const unit = ctx.repo.begin();
    const codes = await attemptOfOwner(ctx, async () => confirmSecondFactor(ctx, unit, user, body.totp));
    if (codes === undefined) throw badField('totp', 'wrong', 'The code is wrong: is the clock of the device right?');
    return endingOthers(ctx, unit, () => ({ recovery_codes: codes }));
  },
});

export const disableTwoFactor = defineEndpoint({
  method: 'DELETE',
  path: '/auth/me/two-factor',
  summary: 'Disable two-factor login; ends one’s other sessions',
  heavy: true,
  body: Proven,
  response: z.object({ enabled: z.literal(false) }),
  handle: async (ctx, { body }) => {
    const user = ctx.principal.user;
    const unit = ctx.repo.begin();
    await proveEnabled(ctx, unit, user, body.totp);
    unit.change(user, (draft) => {
      draft.two_factor_enabled = false;
      delete draft.two_factor;
    });
    return endingOthers(ctx, unit, () => ({ enabled: false as const }));
  },
});

export const renewRecovery = defineEndpoint({
  method: 'POST',
  path: '/auth/me/two-factor/recovery-codes',
  summary: 'Get new recovery codes; the earlier ones are void',
  heavy: true,
  body: Proven,
  response: RecoveryCodes,
  handle: async (ctx, { body }) => {
    const user = ctx.principal.user;
    const unit = ctx.repo.begin();
    await proveEnabled(ctx, unit, user, body.totp);
    const recovery_codes = renewRecoveryCodes(ctx, unit, user);
    return ctx.commit(unit, () => ({ recovery_codes }));
  },
});

/** Requires the password or a code, as a stranger may be at an open session. @throws ApiError */
async function proveAgain(
  ctx: RequestContext,
  unit: Unit,
  { password, code }: { password?: string | undefined; code?: string | undefined },
): Promise<void> {
  const { email, password_hash } = ctx.principal.user.desired;
  if (password === undefined && code === undefined) throw badRequest('Either password or code is needed');
  const proven = await attemptOfOwner(ctx, async () => {
    if (password !== undefined) return (await ctx.passwords.verify(password, password_hash)).ok ? true : undefined;
    const judged = judgeCode(ctx, email, code ?? '');
    if (judged.isRight) useUp(ctx, unit, judged);
    else await ctx.countFailure(judged);
    return judged.isRight ? true : undefined;
  });
  if (proven === undefined)
    throw badField(password === undefined ? 'code' : 'password', 'wrong', 'The password or code is wrong');
}

async function proveEnabled(
  ctx: RequestContext,
  unit: Unit,
  user: ReadonlyResource<'user'>,
  totp: string,
): Promise<void> {
  if (!user.desired.two_factor_enabled) throw conflicting('Two-factor login is not enabled');
  const proof = await attemptOfOwner(ctx, async () => {
    const found = proveSecondFactor(ctx, unit, user, totp);
    return found === 'wrong' ? undefined : found;
  });
  if (proof === undefined) throw badField('totp', 'wrong', wrongTotp().message);
  if (proof === 'missing') throw badField('totp', 'totp_required', missingTotp().message);
}

async function endingOthers<T>(ctx: RequestContext, unit: Unit, answer: () => T): Promise<T> {
  const { user, by } = ctx.principal;
  const session = by.type === 'session' ? by.session.meta.id : undefined;
  await endOtherSessions(ctx, unit, user.meta.id, session);
  await ctx.commit(unit, answer);
  await endLateSessions(ctx, user.meta.id, session);
  return answer();
}
