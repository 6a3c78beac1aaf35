import { z } from 'zod';
import { conflicting, notFound } from '../../ground/api-error.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import { cancel, inviteLifeMs, isOpen, pendingInvite, requireModesty, requirePatience } from '../../rights/invites.ts';
import { requireRank } from '../../rights/require-rank.ts';
import { pageOfResource } from '../resource-endpoints.ts';
import { Invite, invites } from '../../resources/invite.ts';
import { Email } from '../../resources/user.ts';

/** Index value of invites to the tenant itself. */
const toTenant = 'tenant';

const UserInviteCreate = z.strictObject({ email: Email, role: z.enum(['user', 'admin']).default('user') });

export const listUserInvites = defineList({
  path: '/users/invites',
  summary: 'Invites to the tenant that wait to be accepted',
  // none of them is to a project
  query: invites.query.omit({ projectId: true }),
  item: Invite,
  ofNow: true,
  handle: async (ctx, { query }) => {
    const { view, clock } = ctx;
    const open = view.by('invite', 'project', toTenant).filter((it) => isOpen(it, view, clock.now()));
    return pageOfResource(ctx, invites, open, query);
  },
});

export const inviteUser = defineEndpoint({
  method: 'POST',
  path: '/users/invites',
  summary: 'Invite the owner of an address to the tenant, by mail; a login by a one-time code accepts it',
  heavy: true,
  body: UserInviteCreate,
  response: Invite,
  status: 201,
  handle: async (ctx, { body: { email, role } }) => {
    const { view, principal, clock, repo, random } = ctx;
    requireRank(ctx, role);
    if ((await repo.idByName('user', 'all', email)) !== undefined)
      throw taken(`A user has this address already: ${email}`);
    const former = pendingInvite(undefined, email, view);
    if (former !== undefined && isOpen(former, view, clock.now()))
      throw taken(`An invite to this address is pending: ${email}`);
    requireRoom(view.by('invite', 'project', toTenant).length, countLimits.invitesPerTenant, {
      where: 'The tenant',
      what: 'invites',
      remedy: 'cancel what is not needed, or try again later: old ones are forgotten some days after their end',
    });
    requirePatience(email, view, clock.now());
    requireModesty(principal.user.meta.id, view, clock.now());
    const unit = repo.begin();
    unit.require(principal.user);
    if (former !== undefined) cancel(unit, former, clock.now());
    const made = unit.create('invite', random.id(), {
      email,
      role,
      invited_by: principal.user.meta.id,
      expires_at: new Date(clock.now().getTime() + inviteLifeMs).toISOString(),
      state: 'pending',
    });
    return ctx.commit(unit, () => invites.answerOf(made, view));
  },
});

export const cancelUserInvite = defineEndpoint({
  method: 'DELETE',
  path: '/users/invites/:inviteId',
  summary: 'Cancel an invite to the tenant',
  on: ['invite', 'inviteId'],
  handle: async (ctx, { it }) => {
    if (it.desired.project_id !== undefined) throw notFound('Invite');
    if (it.desired.state === 'accepted') throw conflicting('The invite was accepted already');
    requireRank(ctx, it.desired.role === 'admin' ? 'admin' : 'user');
    if (!isOpen(it, ctx.view, ctx.clock.now())) throw notFound('Invite');
    const unit = ctx.repo.begin();
    unit.require(ctx.principal.user);
    cancel(unit, it, ctx.clock.now());
    return ctx.commit(unit, () => undefined);
  },
});

function taken(message: string): Error {
  return conflicting(message, [{ field: 'email', reason: 'taken', message }]);
}
