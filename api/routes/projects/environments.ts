import { objectsIn } from '../../../store/objects-in.ts';
import { conflicting, forbidden } from '../../ground/api-error.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { destinationFor } from '../../workloads/backing-up.ts';
import { requireCloneable, requireDataCopyable, requireEnvironmentRoom } from '../../workloads/cloning.ts';
import { holdPopulation, inWords } from '../../workloads/population.ts';
import { referred, usableServer } from '../../workloads/references.ts';
import {
  deleteEndpoint,
  Force,
  getEndpoint,
  listOfEndpoint,
  needsForce,
  updateEndpoint,
} from '../resource-endpoints.ts';
import {
  Environment,
  EnvironmentClone,
  EnvironmentCreate,
  environments,
  EnvironmentUpdate,
} from '../../resources/environment.ts';
import { given } from '../../resources/object-fields.ts';
import { addEnvironment, writeEnvironment } from '../../workloads/writing-environment.ts';

export const listEnvironments = listOfEndpoint('project', environments, {
  path: '/projects/:projectId/environments',
  summary: 'Environments of a project',
});

export const createEnvironment = defineEndpoint({
  method: 'POST',
  path: '/projects/:projectId/environments',
  summary: 'Create an environment',
  on: ['project', 'projectId'],
  body: EnvironmentCreate,
  response: Environment,
  status: 201,
  settle: environments.settle,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    const environment = addEnvironment(ctx, unit, it, body);
    return ctx.commit(unit, () => environments.answerOf(environment, ctx.view));
  },
});

export const getEnvironment = getEndpoint(environments, {
  path: '/projects/:projectId/environments/:envId',
  summary: 'An environment',
});

export const updateEnvironment = updateEndpoint(
  environments,
  {
    path: '/projects/:projectId/environments/:envId',
    summary: 'Change fields of an environment; only what is sent changes',
  },
  {
    body: EnvironmentUpdate,
    change: writeEnvironment,
  },
);

export const deleteEnvironment = deleteEndpoint(
  environments,
  {
    path: '/projects/:projectId/environments/:envId',
    summary: 'Delete an environment; with resources in it only with force=true, which takes them along',
  },
  {
    query: Force,
    async check(ctx, unit, { it, query }) {
      const { view } = ctx;
      const project = referred(view, 'project', it.desired.project_id, 'projectId');
      if (view.by('environment', 'project', project.meta.id).length === 1)
        throw conflicting('Cannot delete the last environment of a project: delete the project instead');
      const isForced = query.force === 'true';
      if (!isForced || !['superadmin', 'admin', 'owner'].includes(ctx.access.column)) {
        await holdPopulation(ctx, unit, it);
        const content = objectsIn(view, 'environment', it.meta.id);
        if (content.length > 0)
          throw isForced
            ? forbidden(
                'Only the owner of the project may delete an environment with resources: delete them first, or ask the owner',
              )
            : needsForce(`The environment has resources (${inWords(content)})`);
      }
      unit.require(project);
    },
  },
);

export const cloneEnvironment = defineEndpoint({
  method: 'POST',
  path: '/projects/:projectId/environments/:envId/clone',
  summary:
    'Copy an environment with all that is in it, secrets included, and data if wanted; the copies are not deployed',
  on: ['environment', 'envId'],
  heavy: true,
  body: EnvironmentClone,
  response: Environment,
  status: 201,
  settle: environments.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const destination = body.include_data === true ? destinationFor(view, body.destination_id) : undefined;
    if (destination !== undefined) requireDataCopyable(view, it);
    const project = referred(view, 'project', it.desired.project_id, 'projectId');
    requireEnvironmentRoom(project, view);
    const unit = ctx.repo.begin();
    unit.require(project);
    unit.require(it);
    if (destination !== undefined) unit.require(destination);
    const map = new Map(Object.entries(body.server_map ?? {}));
    for (const id of new Set(map.values())) unit.require(usableServer(view, id, 'server_map', project.meta.id));
    requireCloneable(view, project, it, map);
    const { color, git_branch } = it.desired;
    const environment = unit.create(
      'environment',
      ctx.random.id(),
      {
        ...given({
          color,
          git_branch,
          description: body.description === undefined ? it.desired.description : body.description,
        }),
        name: body.name,
        type: body.type ?? it.desired.type,
        project_id: project.meta.id,
        clone_of: {
          environment_id: it.meta.id,
          server_map: Object.fromEntries(map),
          complete: false,
          ...(destination !== undefined && { data: { destination_id: destination.meta.id, total: 0, failed: [] } }),
        },
      },
      { labels: { ...it.meta.labels } },
    );
    return ctx.commit(unit, () => environments.answerOf(environment, ctx.view));
  },
});

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
    return ctx.commit(unit, () => environments.show(it, { is_default: true }));
  },
});
