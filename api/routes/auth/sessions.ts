import { z } from 'zod';
import { notFound } from '../../ground/api-error.ts';
import { endLateSessions, endOtherSessions } from '../../accounts/sessions.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import { serialise } from '../../ground/cached-json.ts';
import { pageOf } from '../../resources/paging.ts';
import { Session, sessions } from '../../resources/user.ts';

export const listSessions = defineList({
  path: '/auth/sessions',
  summary: 'Where one is logged in',
  query: sessions.query,
  item: Session,
  ownOnly: true,
  perSession: true,
  ofNow: true,
  handle: async (ctx, { query }) => {
    const now = ctx.clock.now().getTime();
    const own = ctx.view.by('session', 'user', ctx.principal.user.meta.id);
    const live = own.filter(({ desired }) => Date.parse(desired.expires_at) > now);
    const { items, meta } = pageOf(live, query, sessions.listing, ctx.view);
    const current = currentOf(ctx);
    return { items: items.map((it) => serialise(sessions.show(it, { current: it.meta.id === current }))), meta };
  },
});

export const endSession = defineEndpoint({
  method: 'DELETE',
  path: '/auth/sessions/:id',
  summary: 'Log out in one place',
  on: ['session', 'id'],
  handle: async (ctx, { it }) => {
    if (it.desired.user_id !== ctx.principal.user.meta.id) throw notFound('Session');
    const unit = ctx.repo.begin();
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

export const endSessions = defineEndpoint({
  method: 'DELETE',
  path: '/auth/sessions',
  summary: 'Log out everywhere but here',
  response: z.object({ ended: z.int() }),
  handle: async (ctx) => {
    const user = ctx.principal.user.meta.id;
    const current = currentOf(ctx);
    const ended = ctx.view.by('session', 'user', user).filter(({ meta }) => meta.id !== current).length;
    const unit = ctx.repo.begin();
    await endOtherSessions(ctx, unit, user, current);
    await ctx.commit(unit, () => ({ ended }));
    await endLateSessions(ctx, user, current);
    return { ended };
  },
});

/** The session of the caller; `undefined` for a service key. */
function currentOf({ principal: { by } }: RequestContext): string | undefined {
  return by.type === 'session' ? by.session.meta.id : undefined;
}
