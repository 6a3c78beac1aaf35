import { z } from 'zod';
import { conflicting, forbidden } from '../../ground/api-error.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import { cancel, pendingInvite } from '../../rights/invites.ts';
import {
  activeUser,
  guardRole,
  isOwner,
  memberOf,
  membersOf,
  requireAbove,
  requireSeat,
  requireWide,
} from '../../rights/members.ts';
import { referred } from '../../workloads/references.ts';
import { pageOfResource } from '../resource-endpoints.ts';
import { Member, MemberCreate, members, MemberUpdate } from '../../resources/member.ts';
import { readOnlyFields, Reference } from '../../resources/object-fields.ts';
import { Project, projects } from '../../resources/project.ts';
import { notifyUser } from '../notify-user.ts';

const byTransferOnly = 'The owner of a project changes by transfer alone';

export const listMembers = defineList({
  path: '/projects/:id/members',
  summary: 'Everybody with a role in a project, its owner included',
  on: ['project', 'id'],
  query: members.query,
  item: Member,
  handle: async (ctx, { it, query }) => {
    const { view } = ctx;
    // leave out members whose user was deleted
    const known = membersOf(it, view).filter(({ desired }) => view.get('user', desired.user_id) !== undefined);
    return pageOfResource(ctx, members, known, query);
  },
});

export const addMember = defineEndpoint({
  method: 'POST',
  path: '/projects/:id/members',
  summary: 'Give a user of the tenant a role in a project',
  on: ['project', 'id'],
  body: MemberCreate,
  response: Member,
  status: 201,
  handle: async (ctx, { it, body }) => {
    const { view, principal } = ctx;
    requireAbove(ctx.access.column, body.role);
    const user = activeUser(body.user_id, 'user_id', view);
    if (memberOf(it, user.meta.id, view) !== undefined) throw hasRole('user_id', user.meta.id);
    requireWide(user, it.meta.id);
    requireSeat(it, view);
    const unit = ctx.repo.begin();
    guardRole(unit, principal.user, it, view);
    unit.require(user);
    const made = unit.create('member', ctx.random.id(), {
      project_id: it.meta.id,
      user_id: user.meta.id,
      role: body.role,
    });
    const invited = pendingInvite(it.meta.id, user.desired.email, view);
    if (invited !== undefined) cancel(unit, invited, ctx.clock.now());
    if (user.meta.id !== principal.user.meta.id)
      notifyUser(unit, ctx.random, user.meta.id, it, {
        type: 'member_added',
        title: `You are now in the project ${it.desired.name}`,
        message: `${principal.user.desired.email} gave you the role ${body.role}`,
      });
    return ctx.commit(unit, () => members.answerOf(made, view));
  },
});

function hasRole(field: string, user: string) {
  const message = `The user has a role in the project already: ${user}`;
  return conflicting(message, [{ field, reason: 'taken', message }]);
}

export const changeMember = defineEndpoint({
  method: 'PUT',
  path: '/projects/:id/members/:memberId',
  summary: 'Change the role of a member, who is named by the id of the membership or of the user',
  on: ['member', 'memberId'],
  body: MemberUpdate,
  readOnly: readOnlyFields(Member, MemberUpdate),
  response: Member,
  handle: async (ctx, { it, body }) => {
    const { view, principal } = ctx;
    const project = referred(view, 'project', it.desired.project_id, 'id');
    if (isOwner(project, it)) throw forbidden(byTransferOnly);
    requireAbove(ctx.access.column, it.desired.role);
    requireAbove(ctx.access.column, body.role);
    const unit = ctx.repo.begin();
    guardRole(unit, principal.user, project, view);
    const changed = unit.change(it, (draft) => void (draft.role = body.role));
    if (body.role !== it.desired.role)
      notifyUser(unit, ctx.random, it.desired.user_id, project, {
        type: 'member_changed',
        title: `Your role in the project ${project.desired.name} changed`,
        message: `${principal.user.desired.email} gave you the role ${body.role}`,
      });
    return ctx.commit(unit, () => members.answerOf(changed, view));
  },
});

export const removeMember = defineEndpoint({
  method: 'DELETE',
  path: '/projects/:id/members/:memberId',
  summary: 'Take the role of a member away, or leave the project oneself',
  on: ['member', 'memberId'],
  handle: async (ctx, { it }) => {
    const { view, principal, access } = ctx;
    const project = view.get('project', it.desired.project_id);
    if (project === undefined) return undefined;
    const isSelf = it.desired.user_id === principal.user.meta.id;
    if (isOwner(project, it)) {
      if (isSelf) throw conflicting('The owner cannot leave the project: transfer it to a member before');
      throw forbidden(byTransferOnly);
    }
    if (!isSelf) requireAbove(access.column, it.desired.role);
    const unit = ctx.repo.begin();
    guardRole(unit, principal.user, project, view);
    unit.requestDelete(it);
    if (!isSelf)
      notifyUser(unit, ctx.random, it.desired.user_id, project, {
        type: 'member_removed',
        isOutside: true,
        title: `You are no longer in the project ${project.desired.name}`,
        message: `${principal.user.desired.email} took your role away`,
      });
    return ctx.commit(unit, () => undefined);
  },
});

export const transferProject = defineEndpoint({
  method: 'POST',
  path: '/projects/:id/transfer',
  summary: 'Make a member the owner of a project; the owner before becomes an admin of it',
  on: ['project', 'id'],
  body: z.strictObject({ new_owner_id: Reference }),
  response: Project,
  handle: async (ctx, { it, body }) => {
    const { view, principal } = ctx;
    const field = 'new_owner_id';
    const heir = activeUser(body.new_owner_id, field, view);
    const member = memberOf(it, heir.meta.id, view);
    if (member === undefined) {
      const message = `A project is transferred to one of its members: ${heir.meta.id}`;
      throw conflicting(message, [{ field, reason: 'not_a_member', message }]);
    }
    const former = view.get('user', it.desired.owner_id);
    const unit = ctx.repo.begin();
    guardRole(unit, principal.user, it, view);
    unit.require(heir);
    if (isOwner(it, member)) return ctx.commit(unit, () => projects.answerOf(it, view));
    unit.requestDelete(member);
    const changed = unit.change(it, (draft) => void (draft.owner_id = heir.meta.id));
    if (former !== undefined) {
      unit.require(former);
      unit.create('member', ctx.random.id(), { project_id: it.meta.id, user_id: former.meta.id, role: 'admin' });
    }
    const text = { type: 'project_transferred', title: `The project ${it.desired.name} has a new owner` };
    const message = `${principal.user.desired.email} transferred it to ${heir.desired.email}`;
    for (const user of new Set([heir.meta.id, it.desired.owner_id]))
      if (user !== principal.user.meta.id && view.get('user', user) !== undefined)
        notifyUser(unit, ctx.random, user, it, { ...text, message });
    return ctx.commit(unit, () => projects.answerOf(changed, view));
  },
});
