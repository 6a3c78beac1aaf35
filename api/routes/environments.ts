import { z } from 'zod';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { conflicting, forbidden } from '../api-error.ts';
import { caps, requireRoom } from '../caps.ts';
import { defineEndpoint, defineList } from '../endpoint.ts';
import { PageQuery, pageOf } from '../paging.ts';
import { holdPopulation } from '../population.ts';
import { referred } from '../references.ts';
import {
  Environment,
  EnvironmentCreate,
  environmentSettle,
  EnvironmentUpdate,
  isDefaultEnvironment,
  keptEnvironment,
  toEnvironment,
} from '../resources/environment.ts';
import { assign, given, readOnlyFields } from '../resources/object-fields.ts';
import { lifeStatus } from '../status.ts';

/** `force=true` in a query. */
export const Force = z.object({ force: z.enum(['true', 'false']).optional() });

export const listEnvironments = defineList({
  path: '/projects/:projectId/environments',
  summary: 'Environments of a project',
  on: ['project', 'projectId'],
  query: PageQuery,
  item: Environment,
  handle: async (ctx, { it, query }) => {
    const { items, meta } = pageOf(
      ctx.view.by('environment', 'project', it.meta.id),
      query,
      {
        texts: ({ desired }) => [desired.name, desired.display_name],
        status: lifeStatus,
        sorts: { name: (one) => one.desired.name },
      },
      ctx.view,
    );
    return { items: items.map((one) => keptEnvironment(ctx.keep, one, ctx.view)), meta };
  },
});

export const createEnvironment = defineEndpoint({
  method: 'POST',
  path: '/projects/:projectId/environments',
  summary: 'Create an environment',
  on: ['project', 'projectId'],
  body: EnvironmentCreate,
  response: Environment,
  status: 201,
  settle: environmentSettle,
  handle: async (ctx, { it, body }) => {
    const { labels, ...fields } = body;
    requireRoom(ctx.view.by('environment', 'project', it.meta.id).length, caps.environmentsPerProject, {
      where: 'The project',
      what: 'environments',
      remedy: 'delete one that is not needed',
    });
    const unit = ctx.repo.begin();
    unit.require(it);
    const environment = unit.create(
      'environment',
      ctx.random.id(),
      { type: 'production', ...given(fields), name: body.name, project_id: it.meta.id },
      labels === undefined ? {} : { labels },
    );
    return ctx.commit(unit, () => toEnvironment(environment, false));
  },
});

export const getEnvironment = defineEndpoint({
  method: 'GET',
  path: '/projects/:projectId/environments/:envId',
  summary: 'An environment',
  on: ['environment', 'envId'],
  response: Environment,
  handle: async (ctx, { it }) => keptEnvironment(ctx.keep, it, ctx.view),
});

export const updateEnvironment = defineEndpoint({
  method: 'PUT',
  path: '/projects/:projectId/environments/:envId',
  summary: 'Change fields of an environment; only what is sent changes',
  on: ['environment', 'envId'],
  body: EnvironmentUpdate,
  readOnly: readOnlyFields(Environment, EnvironmentUpdate),
  response: Environment,
  settle: environmentSettle,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.name = body.name ?? draft.name;
      draft.type = body.type ?? draft.type;
      assign(draft, 'display_name', body.display_name);
      assign(draft, 'description', body.description);
      assign(draft, 'color', body.color);
      assign(draft, 'git_branch', body.git_branch);
    });
    if (body.labels !== undefined) unit.label(it, body.labels);
    const isDefault = isDefaultEnvironment(it, ctx.view);
    return ctx.commit(unit, () => toEnvironment(changed, isDefault));
  },
});

export const deleteEnvironment = defineEndpoint({
  method: 'DELETE',
  path: '/projects/:projectId/environments/:envId',
  summary: 'Delete an environment; with resources in it only with force=true, which takes them along',
  on: ['environment', 'envId'],
  query: Force,
  response: Environment,
  settle: environmentSettle,
  handle: async (ctx, { it, query }) => {
    const { view } = ctx;
    const project = referred(view, 'project', it.desired.project_id, 'projectId');
    if (isDefaultEnvironment(it, view)) throw conflicting('Cannot delete the default environment of a project');
    if (view.by('environment', 'project', project.meta.id).length === 1)
      throw conflicting('Cannot delete the last environment of a project');
    const unit = ctx.repo.begin();
    const isForced = query.force === 'true';
    if (!isForced || !['superadmin', 'admin', 'owner'].includes(ctx.access.column)) {
      await holdPopulation(ctx, unit, it);
      if (hasResources(it, view))
        throw isForced
          ? forbidden('Only the owner of the project may delete an environment with resources')
          : conflicting('The environment has resources: delete them or send force=true');
    }
    unit.require(project);
    const deleted = unit.change(it, () => undefined);
    unit.requestDelete(it);
    return ctx.commit(unit, () => toEnvironment(deleted, false));
  },
});

function hasResources(it: ReadonlyResource<'environment'>, view: TenantView): boolean {
  return view.by('application', 'environment', it.meta.id).length > 0;
}

export const setDefaultEnvironment = defineEndpoint({
  method: 'POST',
  path: '/projects/:projectId/environments/:envId/set-default',
  summary: 'Make an environment the default of its project',
  on: ['environment', 'envId'],
  response: Environment,
  handle: async (ctx, { it }) => {
    const project = referred(ctx.view, 'project', it.desired.project_id, 'projectId');
    const unit = ctx.repo.begin();
    unit.require(it);
    unit.change(project, (draft) => void (draft.default_environment_id = it.meta.id));
    return ctx.commit(unit, () => toEnvironment(it, true));
  },
});
