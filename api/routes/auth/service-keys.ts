import type { KeyScope } from '../../../store/kinds/identity.ts';
import { badField, forbidden, notFound } from '../../ground/api-error.ts';
import { keyOf } from '../../auth/principal.ts';
import type { Principal } from '../../auth/principal.ts';
import { createServiceKey, hashServiceKey } from '../../auth/service-key.ts';
import { projectRole, scopeCovers } from '../../rights/authorize.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import { referred } from '../../workloads/references.ts';
import { listOfEndpoint, pageOfResource } from '../resource-endpoints.ts';
import { NewServiceKey, ServiceKey, ServiceKeyCreate, serviceKeys } from '../../resources/user.ts';

export const listServiceKeys = defineList({
  path: '/settings/service-keys',
  summary: 'One’s service keys, without their values',
  query: serviceKeys.query,
  item: ServiceKey,
  ownOnly: true,
  handle: async (ctx, { query }) => {
    const narrowed = keyOf(ctx.principal)?.desired.project_id;
    const all = ctx.view.by('service_key', 'user', ctx.principal.user.meta.id);
    const own = narrowed === undefined ? all : all.filter(({ desired }) => desired.project_id === narrowed);
    return pageOfResource(ctx, serviceKeys, own, query);
  },
});

export const listServiceKeysOf = listOfEndpoint('user', serviceKeys, {
  path: '/users/:id/service-keys',
  summary: 'Service keys of a user, without their values',
});

export const createKey = defineEndpoint({
  method: 'POST',
  path: '/settings/service-keys',
  summary: 'Create a service key; its value is in this answer only',
  body: ServiceKeyCreate,
  response: NewServiceKey,
  status: 201,
  handle: async (ctx, { body }) => {
    const { principal, view } = ctx;
    const limits = {
      scopes: body.scopes ?? undefined,
      project: body.project_id ?? undefined,
      expires_at: body.expires_at ?? undefined,
    };
    if (limits.expires_at !== undefined && Date.parse(limits.expires_at) <= ctx.clock.now().getTime())
      throw badField('expires_at', 'past', 'expires_at must be in the future');
    const project = limits.project === undefined ? undefined : referred(view, 'project', limits.project, 'project_id');
    if (project !== undefined && projectRole(principal, project, view) === undefined) throw forbidden();
    requireWithin(principal, limits);
    requireRoom(view.by('service_key', 'user', principal.user.meta.id).length, countLimits.serviceKeysPerUser, {
      where: 'The user',
      what: 'service keys',
      remedy: 'revoke one that is not used',
    });
    const key = createServiceKey(ctx.random);
    const unit = ctx.repo.begin();
    unit.require(principal.user);
    if (project !== undefined) unit.require(project);
    const parent = keyOf(principal);
    if (parent !== undefined) unit.require(parent);
    const it = unit.create('service_key', ctx.random.id(), {
      user_id: principal.user.meta.id,
      name: body.name,
      prefix: key.slice(0, 10),
      hash: hashServiceKey(key),
      ...(limits.scopes !== undefined && { scopes: limits.scopes }),
      ...(limits.project !== undefined && { project_id: limits.project }),
      ...(limits.expires_at !== undefined && { expires_at: limits.expires_at }),
      ...(parent !== undefined && { parent_id: parent.meta.id }),
    });
    return ctx.commit(unit, () => ({ ...serviceKeys.answerOf(it, view), key }));
  },
});

/** A key must not make a key that is wider or lives longer than itself. @throws ApiError FORBIDDEN */
function requireWithin(
  principal: Principal,
  limits: { scopes: readonly KeyScope[] | undefined; project: string | undefined; expires_at: string | undefined },
): void {
  const own = keyOf(principal)?.desired;
  if (own === undefined) return;
  const scopesWithin =
    own.scopes === undefined || limits.scopes?.every((scope) => scopeCovers(own.scopes, scope)) === true;
  const projectWithin = own.project_id === undefined || own.project_id === limits.project;
  const lifeWithin =
    own.expires_at === undefined ||
    (limits.expires_at !== undefined && Date.parse(limits.expires_at) <= Date.parse(own.expires_at));
  if (!scopesWithin || !projectWithin || !lifeWithin)
    throw forbidden('A service key cannot create one that is wider or lives longer than itself');
}

export const deleteKey = defineEndpoint({
  method: 'DELETE',
  path: '/settings/service-keys/:id',
  summary: 'Revoke a service key, with the keys that it made',
  on: ['service_key', 'id'],
  handle: async (ctx, { it }) => {
    if (ctx.access.grant === 's' && it.desired.user_id !== ctx.principal.user.meta.id) throw notFound('Service key');
    const by = keyOf(ctx.principal);
    if (by?.desired.project_id !== undefined && by.meta.id !== it.meta.id)
      throw forbidden('A service key that is narrowed to a project can revoke only itself');
    const unit = ctx.repo.begin();
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});
