import { conflicting, forbidden, notFound } from '../../ground/api-error.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import {
  cancel,
  invitedBy,
  inviteLifeMs,
  isFor,
  isOpen,
  openInvitesTo,
  mayBringIn,
  pendingInvite,
  requireModesty,
  requirePatience,
} from '../../rights/invites.ts';
import type { Invite as Stored } from '../../rights/invites.ts';
import { guardRole, memberOf, requireAbove, requireSeat, requireWide } from '../../rights/members.ts';
import { referred } from '../../workloads/references.ts';
import { pageOfResource } from '../resource-endpoints.ts';
import { Invite, InviteCreate, invites } from '../../resources/invite.ts';
import { notifyUser } from '../notify-user.ts';

export const listInvites = defineList({
  path: '/projects/:id/invites',
  summary: 'Invites to a project that wait to be accepted',
  on: ['project', 'id'],
  query: invites.query,
  item: Invite,
  ofNow: true,
  handle: async (ctx, { it, query }) => pageOfResource(ctx, invites, openInvitesOf(it.meta.id, ctx), query),
});

export const listMyInvites = defineList({
  path: '/me/invites',
  summary: 'Invites to one’s address that wait to be accepted',
  query: invites.query,
  item: Invite,
  ofNow: true,
  ownOnly: true,
  handle: async (ctx, { query }) => {
    const own = openInvitesTo(ctx.principal.user.desired.email, ctx.view, ctx.clock.now());
    return pageOfResource(
      ctx,
      invites,
      own.filter(({ desired }) => desired.project_id !== undefined),
      query,
    );
  },
});

function openInvitesOf(projectId: string, { view, clock }: RequestContext): readonly Stored[] {
  return view.by('invite', 'project', projectId).filter((it) => isOpen(it, view, clock.now()));
}

export const createInvite = defineEndpoint({
  method: 'POST',
  path: '/projects/:id/invites',
  summary: 'Invite the owner of an address to a project, by mail; good for 7 days',
  on: ['project', 'id'],
  heavy: true,
  body: InviteCreate,
  response: Invite,
  status: 201,
  handle: async (ctx, { it, body }) => {
    const { view, principal, clock } = ctx;
    const { email, role } = body;
    requireAbove(ctx.access.column, role);
    const userId = await ctx.repo.idByName('user', 'all', email);
    const user = userId === undefined ? undefined : view.get('user', userId);
    if (user !== undefined && memberOf(it, user.meta.id, view) !== undefined)
      throw taken(`The user with this address has a role in the project already: ${email}`);
    if (user === undefined && !mayBringIn(principal.user, view))
      throw forbidden(
        'Only admins of the tenant invite addresses without an account: ask one to invite it to the tenant first',
      );
    if (user !== undefined) requireWide(user, it.meta.id);
    const former = pendingInvite(it.meta.id, email, view);
    if (former !== undefined && isOpen(former, view, clock.now()))
      throw taken(`An invite to this address is pending: ${email}`);
    requireRoomForInvite(it.meta.id, ctx);
    requirePatience(email, view, clock.now());
    requireModesty(principal.user.meta.id, view, clock.now());
    const unit = ctx.repo.begin();
    guardRole(unit, principal.user, it, view);
    if (former !== undefined) cancel(unit, former, clock.now());
    const made = unit.create('invite', ctx.random.id(), {
      project_id: it.meta.id,
      email,
      role,
      invited_by: principal.user.meta.id,
      expires_at: new Date(clock.now().getTime() + inviteLifeMs).toISOString(),
      state: 'pending',
    });
    if (user !== undefined)
      notifyUser(unit, ctx.random, user.meta.id, it, {
        type: 'invited',
        isOutside: true,
        title: `You are invited to the project ${it.desired.name}`,
        message: `${principal.user.desired.email} invites you with the role ${role}`,
      });
    return ctx.commit(unit, () => invites.answerOf(made, view));
  },
});

function taken(message: string) {
  return conflicting(message, [{ field: 'email', reason: 'taken', message }]);
}

/** @throws ApiError CONFLICT */
function requireRoomForInvite(projectId: string, ctx: RequestContext): void {
  const where = 'The project';
  requireRoom(openInvitesOf(projectId, ctx).length, countLimits.openInvitesPerProject, {
    where,
    what: 'pending invites',
    remedy: 'cancel one that is not needed',
  });
  requireRoom(ctx.view.by('invite', 'project', projectId).length, countLimits.invitesPerProject, {
    where,
    what: 'recent invites',
    remedy: 'try again when old ones are forgotten, some days after their end',
  });
}

export const cancelInvite = defineEndpoint({
  method: 'DELETE',
  path: '/projects/:id/invites/:inviteId',
  summary: 'Cancel an invite',
  on: ['invite', 'inviteId'],
  handle: async (ctx, { it }) => {
    if (it.desired.state === 'accepted') throw used();
    const project = it.desired.project_id === undefined ? undefined : ctx.view.get('project', it.desired.project_id);
    if (project === undefined || !isOpen(it, ctx.view, ctx.clock.now())) throw notFound('Invite');
    const unit = ctx.repo.begin();
    guardRole(unit, ctx.principal.user, project, ctx.view);
    cancel(unit, it, ctx.clock.now());
    return ctx.commit(unit, () => undefined);
  },
});

export const getInvite = defineEndpoint({
  method: 'GET',
  path: '/invites/:token',
  summary: 'An invite to one’s address, by the token that was mailed or by its id',
  response: Invite,
  handle: async (ctx) => {
    const it = named(ctx);
    if (!isFor(it, ctx.principal.user)) throw notFound('Invite');
    return invites.answerOf(it, ctx.view);
  },
});

export const acceptInvite = defineEndpoint({
  method: 'POST',
  path: '/invites/:token/accept',
  summary: 'Accept an invite to one’s address: it gives the role that it names',
  response: Invite,
  handle: async (ctx) => {
    const { view, principal, clock } = ctx;
    const it = named(ctx);
    const { user } = principal;
    if (!isFor(it, user))
      throw forbidden('The invite is for another address than that of the account: log in with that address');
    const { project_id, role, state } = it.desired;
    if (state === 'accepted') throw used();
    if (project_id === undefined || role === 'user')
      throw conflicting('The invite is for a new account, and this address has one: there is nothing to accept');
    const project = referred(view, 'project', project_id, 'token');
    if (memberOf(project, user.meta.id, view) !== undefined)
      throw conflicting('The user has a role in the project already');
    requireWide(user, project.meta.id);
    requireSeat(project, view);
    const inviter = view.get('user', it.desired.invited_by);
    const unit = ctx.repo.begin();
    unit.require(user);
    // the commit fails if the inviter has lost the right to invite meanwhile
    if (inviter !== undefined) guardRole(unit, inviter, project, view);
    const accepted = unit.change(it, (draft) => {
      draft.state = 'accepted';
      draft.accepted_by = user.meta.id;
      draft.accepted_at = clock.now().toISOString();
    });
    unit.create('member', ctx.random.id(), { project_id, user_id: user.meta.id, role });
    if (inviter !== undefined)
      notifyUser(unit, ctx.random, inviter.meta.id, project, {
        type: 'invite_accepted',
        title: `An invite to the project ${project.desired.name} was accepted`,
        message: `${user.desired.email} now has the role ${role}`,
      });
    return ctx.commit(unit, () => invites.answerOf(accepted, view));
  },
});

/** The invite that the path names. @throws ApiError NOT_FOUND, also for one that is neither open nor accepted. */
function named({ params, view, clock }: RequestContext): Stored {
  const it = invitedBy(params.get('token') ?? '', view);
  if (it === undefined || (it.desired.state !== 'accepted' && !isOpen(it, view, clock.now()))) throw notFound('Invite');
  return it;
}

function used() {
  return conflicting('The invite was accepted already');
}
