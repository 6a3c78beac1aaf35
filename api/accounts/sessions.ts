import type { RequestContext } from '../endpoint/context.ts';
import { tokenLifeMs } from '../auth/signing-keys.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Starting = Pick<RequestContext, 'tenant' | 'view' | 'clock' | 'random' | 'tokens' | 'request'>;
type Ending = Pick<RequestContext, 'view' | 'repo' | 'fresh' | 'commit'>;

/** Expired sessions that one login deletes. */
const clearedPerLogin = 5;
/** Sessions ended in one transaction: each takes a guard and three deletions. */
const endedPerTransaction = 10;

/** Adds a session of the user to the unit; its token is valid once the unit is committed. */
export async function startSession(
  ctx: Starting,
  unit: Unit,
  user: Pick<ReadonlyResource<'user'>, 'meta'>,
): Promise<{ token: string; expires_at: string }> {
  const now = ctx.clock.now();
  const expiresAt = new Date(now.getTime() + tokenLifeMs);
  const sessionId = ctx.random.id();
  unit.create('session', sessionId, {
    user_id: user.meta.id,
    expires_at: expiresAt.toISOString(),
    source: ctx.request.address,
    user_agent: ctx.request.userAgent,
  });
  const expired = ctx.view
    .by('session', 'user', user.meta.id)
    .filter((session) => Date.parse(session.desired.expires_at) <= now.getTime());
  for (const session of expired.slice(0, clearedPerLogin)) unit.requestDelete(session);
  const claims = { tenant: ctx.tenant, userId: user.meta.id, sessionId, expiresAt: expiresAt.getTime() };
  return { token: await ctx.tokens.sign(claims, now), expires_at: expiresAt.toISOString() };
}

/**
 * Ends sessions of a user before a change that makes them invalid. The last ones are added to `unit`, the transaction
 * of that change; the others are ended in earlier transactions. If the request is cut in between, users must log in
 * again and nothing else has happened.
 */
export async function endOtherSessions(
  ctx: Ending,
  unit: Unit,
  userId: string,
  keep: string | undefined,
): Promise<void> {
  for (;;) {
    const others = otherSessions(ctx, userId, keep);
    if (others.length <= endedPerTransaction) {
      for (const session of others) unit.requestDelete(session);
      return;
    }
    const batch = ctx.repo.begin();
    for (const session of others.slice(0, endedPerTransaction)) batch.requestDelete(session);
    await ctx.commit(batch, () => undefined);
    await ctx.fresh();
  }
}

/** Ends the sessions that began while the change was under way. */
export async function endLateSessions(ctx: Ending, userId: string, keep: string | undefined): Promise<void> {
  await ctx.fresh();
  const unit = ctx.repo.begin();
  await endOtherSessions(ctx, unit, userId, keep);
  await ctx.commit(unit, () => undefined);
}

function otherSessions(ctx: Ending, userId: string, keep: string | undefined): ReadonlyResource<'session'>[] {
  return ctx.view.by('session', 'user', userId).filter((session) => session.meta.id !== keep);
}
