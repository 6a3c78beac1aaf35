import { z } from 'zod';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { tooMany, unauthorized } from '../../ground/api-error.ts';
import { mailAfterAnswer } from '../../accounts/mail-after-answer.ts';
import { createInvited, invitationTo } from '../../accounts/invited.ts';
import { codeIdOf, codeLifeMs, judgeCode, makeCode, useUp } from '../../auth/login-codes.ts';
import { accountOf } from '../../auth/login-throttle.ts';
import { proveAtLogin } from '../../accounts/second-factor-at-login.ts';
import { startSession } from '../../accounts/sessions.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import type { Invite } from '../../rights/invites.ts';
import { Email, Login, toLoginUser } from '../../resources/user.ts';
import { missingTotp, Totp, wrongTotp } from './login.ts';

export const sendCode = defineEndpoint({
  method: 'POST',
  path: '/auth/send-code',
  summary: 'Send a one-time code to an address; answers the same for every address',
  heavy: true,
  body: z.strictObject({ email: Email, method: z.literal('email').optional() }),
  response: z.object({ sent: z.literal(true), expires_in: z.int().meta({ description: 'Seconds' }) }),
  handle: async (ctx, { body: { email } }) => {
    const quota = ctx.codeRate(`${ctx.tenant} ${ctx.request.address}`);
    if (quota?.retryAfter !== undefined) throw tooMany('Too many codes were asked for from here', quota.retryAfter);
    return inTurn(ctx, email, async () => {
      const who = await whoIs(ctx, email);
      const unit = ctx.repo.begin();
      const code = makeCode(ctx, unit, email);
      const answer = await ctx.commit(unit, () => ({ sent: true as const, expires_in: codeLifeMs / 1000 }));
      if (who !== undefined) mail(ctx, addressOf(who), code);
      return answer;
    });
  },
});

export const verifyCode = defineEndpoint({
  method: 'POST',
  path: '/auth/verify-code',
  summary: 'Exchange a one-time code for a token; an invited address gets its account by it',
  heavy: true,
  body: z.strictObject({ email: Email, code: z.string().max(40), totp: Totp.optional() }),
  response: Login,
  handle: async (ctx, { body: { email, code, totp } }) =>
    inTurn(ctx, email, async () => {
      const who = await whoIs(ctx, email);
      const unit = ctx.repo.begin();
      let refusal = unauthorized('The code is wrong, used or expired: ask for a new one');
      // counted apart from passwords and other places, to spare the owner; the store counts all guesses
      const guesser = `${accountOf(ctx.tenant, email)} code from ${ctx.request.address}`;
      const proven = await ctx.throttle.attempt(guesser, ctx.request.address, async () => {
        const judged = judgeCode(ctx, email, code);
        if (judged.isRight && who !== undefined) {
          const account = 'user' in who ? await proveAtLogin(ctx, unit, who.user, totp) : undefined;
          const second = account?.second ?? 'proven';
          if (second === 'proven') useUp(ctx, unit, judged);
          if (second !== 'wrong') return { second, who: account ?? who };
          refusal = wrongTotp();
        }
        await ctx.countFailure(judged);
        return undefined;
      });
      if (proven === undefined) throw refusal;
      if (proven.second === 'missing') throw missingTotp();
      const user = 'user' in proven.who ? proven.who.user : createInvited(ctx, unit, proven.who.invite);
      if ('user' in proven.who) unit.require(proven.who.user);
      const login = await startSession(ctx, unit, user);
      return ctx.commit(unit, () => ({ ...login, user: toLoginUser(user) }));
    }),
});

/** Runs requests about one address one after another in this process, so that each reads what the one before wrote. */
function inTurn<T>(ctx: RequestContext, email: string, run: () => Promise<T>): Promise<T> {
  return ctx.inTurn(`${ctx.tenant} ${codeIdOf(email)}`, async (waited) => {
    if (waited) await ctx.fresh();
    return run();
  });
}

/** The person who may log in by a code: a user, or an invited address. */
type Person = { user: ReadonlyResource<'user'> } | { invite: Invite };

async function whoIs(ctx: RequestContext, email: string): Promise<Person | undefined> {
  const id = await ctx.repo.idByName('user', 'all', email);
  const invite = invitationTo(email, ctx);
  if (id === undefined) return invite && { invite };
  const user = ctx.view.get('user', id);
  return user?.desired.disabled === false ? { user } : undefined;
}

function addressOf(who: Person): string {
  return 'user' in who ? who.user.desired.email : who.invite.desired.email;
}

function mail(ctx: RequestContext, to: string, code: string): void {
  const text = [
    `${code} is your code to log in to Setpoint at ${ctx.config.publicUrl}.`,
    `It works once, for ${codeLifeMs / 60_000} minutes. If you did not ask for it, ignore this mail: no login succeeds without it.`,
    '',
  ].join('\n\n');
  mailAfterAnswer(
    ctx,
    { to, subject: 'Your code to log in', text },
    { withinMs: codeLifeMs, lack: 'Cannot mail a code to log in: the user has to ask for another' },
  );
}
