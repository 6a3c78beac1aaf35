import { z } from 'zod';
import { conflictReason, isConflict } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import { ApiError, badField, conflicting, forbidden, refusedLogin, unauthorized } from '../../ground/api-error.ts';
import { codeLifeMs, judgeCode, useUp } from '../../auth/login-codes.ts';
import { accountOf } from '../../auth/login-throttle.ts';
import { attemptOfOwner } from '../../accounts/own-attempts.ts';
import { proveAtLogin } from '../../accounts/second-factor-at-login.ts';
import { isSetupToken } from '../../auth/setup-token.ts';
import { endLateSessions, endOtherSessions, startSession } from '../../accounts/sessions.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { readOnlyFields } from '../../resources/object-fields.ts';
import { Email, Login, PersonName, toLoginUser, toUser, User } from '../../resources/user.ts';

/** Any text: the only rule for an existing password is that it is the right one. */
const GivenPassword = z.string().max(1024);

/** A code of the authenticator application, or a recovery code. */
export const Totp = z.string().max(40);

export const setupStatus = defineEndpoint({
  method: 'GET',
  path: '/auth/setup-status',
  summary: 'Whether the first user exists',
  response: z.object({
    setup_complete: z.boolean(),
    setup_token_required: z
      .boolean()
      .meta({ description: 'The first user must present the token that the server printed' }),
  }),
  handle: async ({ view, tenant, setupToken }) => {
    const setup_complete = view.list('user').length > 0;
    return { setup_complete, setup_token_required: !setup_complete && setupToken(tenant) !== undefined };
  },
});

/** A login by code that is not older than this proves the mailbox. */
const freshMs = codeLifeMs;

/** The unique name that the first user takes: of several registrations at once, only one gets it. */
const firstUser = { scope: 'setup', name: 'first' } as const;

export const register = defineEndpoint({
  method: 'POST',
  path: '/auth/register',
  summary: 'Create the first user, a superadmin; refused as soon as there is one',
  heavy: true,
  body: z.strictObject({
    email: Email,
    password: GivenPassword,
    first_name: PersonName.default(''),
    last_name: PersonName.default(''),
    setup_token: z.string().max(1000).optional(),
  }),
  response: Login,
  status: 201,
  handle: async (ctx, { body }) => {
    const closed = forbidden('Registration is closed as there is a user already: ask an admin for an invite');
    if (ctx.view.list('user').length > 0) throw closed;
    requireSetupToken(ctx, body.setup_token);
    ctx.passwords.check(body.password, 'password');
    const { email, first_name, last_name } = body;
    const password_hash = await ctx.passwords.hash(body.password);
    const unit = ctx.repo.begin();
    const user = unit.create('user', ctx.random.id(), {
      email,
      first_name,
      last_name,
      role: 'superadmin',
      password_hash,
      must_reset_password: false,
      two_factor_enabled: false,
      disabled: false,
    });
    const marker = keys.unique(ctx.tenant, 'user', firstUser.scope, firstUser.name);
    unit.guard({ key: marker, is: 'absent' });
    unit.write({ put: marker, value: JSON.stringify({ id: user.meta.id }) });
    const login = await startSession(ctx, unit, user);
    try {
      return await ctx.commit(unit, () => ({ ...login, user: toLoginUser(user) }));
    } catch (error) {
      const reason = conflictReason(error);
      if (reason?.why === 'name-taken' && reason.scope === firstUser.scope) throw closed;
      throw error;
    }
  },
});

/** @throws ApiError FORBIDDEN for a wrong token, or if a required one is missing */
function requireSetupToken({ tenant, setupToken }: RequestContext, given: string | undefined): void {
  const expected = setupToken(tenant);
  if (expected === undefined || isSetupToken(expected, given)) return;
  const [reason, message] =
    given === undefined
      ? ['setup_token_required', 'The setup token is needed that the server printed when it started']
      : ['setup_token_wrong', 'The setup token is not the one that the server printed when it started'];
  throw new ApiError('FORBIDDEN', message, { details: [{ field: 'setup_token', reason, message }] });
}

export const login = defineEndpoint({
  method: 'POST',
  path: '/auth/login',
  summary: 'Exchange e-mail and password for a token',
  heavy: true,
  body: z.strictObject({ email: z.string().max(254), password: GivenPassword, totp: Totp.optional() }),
  response: Login,
  handle: async (ctx, { body }) => {
    const email = body.email.trim();
    const id = await ctx.repo.idByName('user', 'all', email);
    const known = id === undefined ? undefined : ctx.view.get('user', id);
    const unit = ctx.repo.begin();
    let refusal = unauthorized('E-mail or password is wrong');
    const proven = await ctx.throttle.attempt(accountOf(ctx.tenant, email), ctx.request.address, async () => {
      const { ok, stale } = await ctx.passwords.verify(body.password, known?.desired.password_hash);
      if (known === undefined || !ok || known.desired.disabled) return undefined;
      const { second, user } = await proveAtLogin(ctx, unit, known, body.totp);
      if (second === 'wrong') refusal = wrongTotp();
      return second === 'wrong' ? undefined : { user, stale, second };
    });
    if (proven === undefined) throw refusal;
    const { user, stale, second } = proven;
    if (second === 'missing') throw missingTotp();
    const password_hash = stale ? await ctx.passwords.hash(body.password) : undefined;
    unit.require(user);
    if (password_hash !== undefined) unit.change(user, (draft) => void (draft.password_hash = password_hash));
    const login = await startSession(ctx, unit, user);
    return ctx.commit(unit, () => ({ ...login, user: toLoginUser(user) }));
  },
});

export function missingTotp(): ApiError {
  return refusedLogin('totp', 'totp_required', 'A code of the authenticator application is needed');
}

export function wrongTotp(): ApiError {
  return refusedLogin('totp', 'totp_wrong', 'The code of the authenticator application is wrong or was used already');
}

export const logout = defineEndpoint({
  method: 'POST',
  path: '/auth/logout',
  summary: 'End the session whose token was sent; succeeds without one',
  response: z.object({ logged_out: z.literal(true) }),
  handle: async (ctx) => {
    const { caller } = ctx;
    if (caller?.by.type === 'session') {
      const unit = ctx.repo.begin();
      unit.requestDelete(caller.by.session);
      try {
        await ctx.commit(unit, () => undefined);
      } catch (error) {
        // another request ended the session meanwhile: the result is the requested one
        if (!isConflict(error)) throw error;
      }
    }
    return { logged_out: true as const };
  },
});

export const getMe = defineEndpoint({
  method: 'GET',
  path: '/auth/me',
  summary: 'The user who asks',
  response: User,
  handle: async (ctx) => ctx.keep(ctx.principal.user, '', () => toUser(ctx.principal.user)),
});

/** Fields of an account that its user cannot change here; they may be sent back unchanged. */
const decided = User.pick({ email: true, role: true, must_reset_password: true, two_factor_enabled: true });
const MeUpdate = z.strictObject({ first_name: PersonName, last_name: PersonName, ...decided.shape }).partial();

export const updateMe = defineEndpoint({
  method: 'PUT',
  path: '/auth/me',
  summary: 'Change one’s names',
  ofCaller: true,
  body: MeUpdate,
  readOnly: readOnlyFields(User, MeUpdate),
  response: User,
  handle: async (ctx, { body }) => {
    const before = toUser(ctx.principal.user);
    for (const field of Object.keys(decided.shape) as (keyof typeof decided.shape)[])
      // the keys of `decided`
      if (body[field] !== undefined && body[field] !== before[field])
        throw badField(field, 'read_only', `${field} cannot be changed here: leave it out, or send it as it is`);
    const unit = ctx.repo.begin();
    const user = unit.change(ctx.principal.user, (draft) => {
      if (body.first_name !== undefined) draft.first_name = body.first_name;
      if (body.last_name !== undefined) draft.last_name = body.last_name;
    });
    return ctx.commit(unit, () => toUser(user));
  },
});

export const changePassword = defineEndpoint({
  method: 'PUT',
  path: '/auth/me/password',
  summary: 'Change one’s password; ends one’s other sessions',
  ofCaller: true,
  heavy: true,
  body: z.strictObject({ current_password: GivenPassword, new_password: GivenPassword }),
  response: User,
  handle: async (ctx, { body }) => {
    const { password_hash } = ctx.principal.user.desired;
    const proven = await attemptOfOwner(ctx, async () => {
      const { ok } = await ctx.passwords.verify(body.current_password, password_hash);
      return ok ? true : undefined;
    });
    if (proven === undefined) throw badField('current_password', 'wrong', 'Current password is wrong');
    return setPassword(ctx, ctx.repo.begin(), { password: body.new_password, field: 'new_password' });
  },
});

/** `new_password` is another spelling of `password`. */
const InitialPassword = z
  .strictObject({
    password: GivenPassword,
    new_password: GivenPassword,
    code: z.string().max(40).meta({ description: 'A one-time code, where the login is older than ten minutes' }),
  })
  .partial()
  .refine((body) => (body.password ?? body.new_password) !== undefined, { path: ['password'], message: 'is required' })
  .meta({ hidden: ['new_password'], required: ['password'] });

export const setInitialPassword = defineEndpoint({
  method: 'POST',
  path: '/auth/me/set-initial-password',
  summary: 'Give a password to an account that has none, within ten minutes of a login by code or with a new code',
  heavy: true,
  body: InitialPassword,
  response: User,
  handle: async (ctx, { body }) => {
    if (ctx.principal.user.desired.password_hash !== undefined) throw conflicting('The account has a password already');
    const unit = ctx.repo.begin();
    await requireFreshCode(ctx, unit, body.code);
    return setPassword(ctx, unit, { password: body.password ?? body.new_password ?? '', field: 'password' });
  },
});

/**
 * A first password outlives the session, so that an open session alone is not enough: the user must prove the mailbox
 * now. Accounts without a password log in only by code, so that a young session is such a proof.
 *
 * @throws ApiError FORBIDDEN if a code is needed and missing; BAD_REQUEST for a wrong one
 */
async function requireFreshCode(ctx: RequestContext, unit: Unit, code: string | undefined): Promise<void> {
  const { user, by } = ctx.principal;
  if (code === undefined) {
    const age = by.type === 'session' ? ctx.clock.now().getTime() - Date.parse(by.session.meta.createdAt) : Infinity;
    if (age <= freshMs) return;
    const message = `The login is older than ${freshMs / 60_000} minutes: log in by a mailed code again, or send a new one as \`code\``;
    throw new ApiError('FORBIDDEN', message, { details: [{ field: 'code', reason: 'code_required', message }] });
  }
  const proven = await attemptOfOwner(ctx, async () => {
    const judged = judgeCode(ctx, user.desired.email, code);
    if (judged.isRight) useUp(ctx, unit, judged);
    else await ctx.countFailure(judged);
    return judged.isRight ? true : undefined;
  });
  if (proven === undefined) throw badField('code', 'wrong', 'The code is wrong, used or expired: ask for a new one');
}

async function setPassword(ctx: RequestContext, unit: Unit, { password, field }: { password: string; field: string }) {
  ctx.passwords.check(password, field);
  const { user, by } = ctx.principal;
  const session = by.type === 'session' ? by.session.meta.id : undefined;
  const password_hash = await ctx.passwords.hash(password);
  const changed = unit.change(user, (draft) => {
    draft.password_hash = password_hash;
    draft.must_reset_password = false;
  });
  await endOtherSessions(ctx, unit, user.meta.id, session);
  const answer = await ctx.commit(unit, () => toUser(changed));
  await endLateSessions(ctx, user.meta.id, session);
  return answer;
}
