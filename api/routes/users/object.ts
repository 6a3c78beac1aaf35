import type { Unit } from '../../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { conflicting } from '../../ground/api-error.ts';
import { endLateSessions, endOtherSessions } from '../../accounts/sessions.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { holdPopulation } from '../../workloads/population.ts';
import { requireRank } from '../../rights/require-rank.ts';
import { getEndpoint, listEndpoint } from '../resource-endpoints.ts';
import { assign, readOnlyFields } from '../../resources/object-fields.ts';
import { Account, AccountUpdate, users } from '../../resources/user.ts';

type User = ReadonlyResource<'user'>;

/** Most projects that a refusal names. */
const named = 10;

export const listUsers = listEndpoint(users, { path: '/users', summary: 'Users of the tenant' }, ({ view }) =>
  view.list('user'),
);

export const getUser = getEndpoint(users, { path: '/users/:id', summary: 'One user of the tenant' });

export const updateUser = defineEndpoint({
  method: 'PUT',
  path: '/users/:id',
  summary: 'Change role, names or access of a user; a change of role or access ends the user’s sessions',
  on: ['user', 'id'],
  body: AccountUpdate,
  readOnly: readOnlyFields(Account, AccountUpdate),
  response: Account,
  handle: async (ctx, { it, body }) => {
    const { role = it.desired.role, disabled = it.desired.disabled } = body;
    requireRank(ctx, it.desired.role);
    requireRank(ctx, role);
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.role = role;
      draft.disabled = disabled;
      if (body.first_name !== undefined) draft.first_name = body.first_name;
      if (body.last_name !== undefined) draft.last_name = body.last_name;
      assign(draft, 'confined_to', body.confined_to);
    });
    guardRank(ctx, unit, it);
    if (role !== 'superadmin' || disabled) keepSuperadmin(ctx, unit, it);
    if (role === it.desired.role && disabled === it.desired.disabled)
      return ctx.commit(unit, () => users.answerOf(changed, ctx.view));
    const kept = ownSession(ctx, it);
    await endOtherSessions(ctx, unit, it.meta.id, kept);
    const answer = await ctx.commit(unit, () => users.answerOf(changed, ctx.view));
    await endLateSessions(ctx, it.meta.id, kept);
    return answer;
  },
});

export const deleteUser = defineEndpoint({
  method: 'DELETE',
  path: '/users/:id',
  summary: 'Delete a user who owns no project',
  on: ['user', 'id'],
  handle: async (ctx, { it }) => {
    requireRank(ctx, it.desired.role);
    const unit = ctx.repo.begin();
    guardRank(ctx, unit, it);
    keepSuperadmin(ctx, unit, it);
    await holdPopulation(ctx, unit, it);
    requireNoProjects(ctx, it);
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

/** Guards that the caller's own account does not change before the commit. */
function guardRank({ principal }: RequestContext, unit: Unit, it: User): void {
  if (principal.user.meta.id !== it.meta.id) unit.require(principal.user);
}

/**
 * Guards that an enabled superadmin remains if this one goes: if two remove each other at once, one of them fails.
 *
 * @throws ApiError CONFLICT for the last one
 */
function keepSuperadmin({ view, principal }: RequestContext, unit: Unit, it: User): void {
  if (it.desired.role !== 'superadmin' || it.desired.disabled) return;
  const others = view
    .list('user')
    .filter(({ meta, desired }) => meta.id !== it.meta.id && desired.role === 'superadmin' && !desired.disabled);
  // prefer the caller, who is guarded already: one guard less can fail
  const other = others.find(({ meta }) => meta.id === principal.user.meta.id) ?? others[0];
  if (other === undefined)
    throw conflicting('The last superadmin must stay: make another user superadmin first', [
      { field: 'role', reason: 'last_superadmin', message: 'An enabled superadmin must remain' },
    ]);
  unit.require(other);
}

/** @throws ApiError CONFLICT with the names of the projects */
function requireNoProjects({ view }: RequestContext, it: User): void {
  const owned = view.by('project', 'owner', it.meta.id);
  if (owned.length === 0) return;
  const names = owned.slice(0, named).map(({ desired }) => desired.name);
  const more = owned.length > names.length ? ` and ${owned.length - names.length} more` : '';
  throw conflicting(
    `Cannot delete the user, who owns projects: ${names.join(', ')}${more}. Transfer or delete them first`,
    owned.slice(0, named).map(({ meta, desired }) => ({
      field: 'id',
      reason: 'owns_project',
      message: `The user owns project ${desired.name} (${meta.id})`,
    })),
  );
}

/** The session to keep: users who change their own account stay logged in here. */
function ownSession({ principal: { user, by } }: RequestContext, it: User): string | undefined {
  return user.meta.id === it.meta.id && by.type === 'session' ? by.session.meta.id : undefined;
}
