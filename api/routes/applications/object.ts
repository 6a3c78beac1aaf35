import { z } from 'zod';
import { defined } from '../../../store/defined.ts';
import { application as kind } from '../../../store/kinds/application.ts';
import { conflicting, notFound } from '../../ground/api-error.ts';
import { applicationsReferringTo } from '../../workloads/env-references.ts';
import { sourceFrom } from '../../workloads/application-source.ts';
import { requireComposable } from '../../workloads/composed.ts';
import { addConfigDeployment, scale } from '../../workloads/deploying.ts';
import type { Coming } from '../../workloads/deploying.ts';
import { domainsFrom } from '../../workloads/domains.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { applyFields, newApplication, requireApplicationRoom } from '../../workloads/new-application.ts';
import { requirePort, requirePortOf } from '../../workloads/ports.ts';
import { enterPlace, placeFrom } from '../../workloads/place.ts';
import { referred } from '../../workloads/references.ts';
import { requireRegistryAccess, requireSourceAccess } from '../../workloads/source-access.ts';
import { deleteEndpoint, Force, getEndpoint, listEndpoint } from '../resource-endpoints.ts';
import {
  Application,
  ApplicationCreate,
  applications,
  applicationSeen,
  ApplicationUpdate,
} from '../../resources/application.ts';
import { readOnlyFields, Reference } from '../../resources/object-fields.ts';
import { requireServerRoom } from '../../workloads/server-room.ts';
import { targetOf } from '../../resources/status.ts';
import { wordOf } from '../../endpoint/subject.ts';

export const listApplications = listEndpoint(applications, {
  path: '/applications',
  summary: 'Applications that one may see',
});

export const checkApplicationName = defineEndpoint({
  method: 'GET',
  path: '/applications/check-name',
  summary: 'Whether a name is free in an environment, by default the default one of the project',
  projectFrom: 'query.projectId',
  query: z.object({
    name: kind.desired.shape.name,
    projectId: Reference,
    environmentId: Reference.optional(),
  }),
  response: z.object({ available: z.boolean(), name: z.string(), suggestion: z.string().nullable() }),
  handle: async ({ view, repo }, { query }) => {
    const { name } = query;
    const project = referred(view, 'project', query.projectId, 'projectId');
    const environmentId = query.environmentId ?? project.desired.default_environment_id;
    if (view.get('environment', environmentId)?.desired.project_id !== project.meta.id)
      throw notFound(wordOf('environment'), 'environmentId');
    const isFree = async (text: string): Promise<boolean> =>
      (await repo.idByName('application', environmentId, text)) === undefined;
    if (await isFree(name)) return { available: true, name, suggestion: null };
    // A character of two units that the cut would split is left out.
    const start = name.slice(0, 90).replace(/[\uD800-\uDBFF]$/, '');
    for (let suffix = 2; suffix < 100; suffix += 1) {
      const suggestion = `${start}-${suffix}`;
      if (await isFree(suggestion)) return { available: false, name, suggestion };
    }
    return { available: false, name, suggestion: null };
  },
});

export const createApplication = defineEndpoint({
  method: 'POST',
  path: '/applications',
  summary: 'Create an application; it is stopped until it is deployed or started',
  projectFrom: 'body.project_id',
  body: ApplicationCreate,
  response: Application,
  status: 201,
  settle: applications.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const place = placeFrom(view, body);
    const { project_id, server_id } = place.fields;
    requireApplicationRoom(view, place.fields, { adding: 1 });
    const { id, desired } = newApplication(ctx, place.fields, body);
    await requireComposable(ctx, id, desired);
    desired.domains = (await domainsFrom(ctx, body.domains, { projectId: project_id, serverId: server_id })) ?? [];
    requireServerRoom(view, [{ server: server_id, desired }], 'server_id');
    requirePort(ctx, { projectId: project_id, serverId: server_id, port: desired.config.exposed_port });
    const unit = ctx.repo.begin();
    enterPlace(unit, place);
    requireSourceAccess(view, unit, { projectId: project_id, source: desired.source });
    requireRegistryAccess(view, unit, desired);
    const it = unit.create('application', id, desired, defined({ labels: body.labels }));
    return ctx.commit(unit, () => applications.answerOf(it, view));
  },
});

export const getApplication = getEndpoint(applications, {
  path: '/applications/:id',
  summary: 'An application, without its environment variables',
});

export const updateApplication = defineEndpoint({
  method: 'PUT',
  path: '/applications/:id',
  summary:
    'Change fields of an application; a changed configuration is rolled out at once, a changed source at the next deploy',
  on: ['application', 'id'],
  body: ApplicationUpdate,
  readOnly: readOnlyFields(Application, ApplicationUpdate),
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it, body }) => {
    const source = sourceFrom(ctx, it.meta.id, body, it.desired.source);
    const { meta, desired } = it;
    const of = { id: meta.id, projectId: desired.project_id, serverId: desired.server_id, before: desired.domains };
    const domains = await domainsFrom(ctx, body.domains, of);
    const unit = ctx.repo.begin();
    const replicas = body.replicas === null ? 1 : body.replicas;
    const before = it.desired;
    requireSourceAccess(ctx.view, unit, { projectId: before.project_id, source, before: before.source });
    const changed = unit.change(it, (draft) => {
      draft.name = body.name ?? draft.name;
      draft.source = source;
      draft.domains = domains ?? draft.domains;
      applyFields(ctx, draft, body, it.meta.id);
    });
    await requireComposable(ctx, it.meta.id, changed.desired);
    requireRegistryAccess(ctx.view, unit, changed.desired, before);
    if (changed.desired.config.exposed_port !== it.desired.config.exposed_port) requirePortOf(ctx, changed);
    if (body.labels !== undefined) unit.label(it, body.labels);
    const isScaled = replicas !== undefined && replicas !== before.replicas;
    const scaled: Coming = isScaled ? await scale(ctx, unit, changed, replicas) : { next: changed };
    requireServerRoom(ctx.view, [{ server: before.server_id, desired: scaled.next.desired, before }], '');
    const isRunning = before.run === 'running' && changed.desired.run === 'running';
    const rollout = isRunning ? await addConfigDeployment(ctx, unit, changed, changed.desired.config) : undefined;
    const target = rollout ?? scaled.target ?? targetOf(it, ctx.view);
    return ctx.commit(unit, () => applications.show(changed, applicationSeen(changed, ctx.view, target)));
  },
});

export const deleteApplication = deleteEndpoint(
  applications,
  {
    path: '/applications/:id',
    summary: 'Delete an application and its deployments; one that others refer to only with force=true',
  },
  {
    query: Force,
    async check({ view }, _, { it, query }) {
      if (query.force === 'true') return;
      const names = applicationsReferringTo(view, it).map(({ desired }) => desired.name);
      if (names.length === 0) return;
      const some = names.slice(0, 10).join(', ') + (names.length > 10 ? ` and ${names.length - 10} more` : '');
      const message = `Variables of ${some} refer to the application: change them, or send force=true`;
      throw conflicting(message, [{ field: 'force', reason: 'force_needed', message }]);
    },
  },
);
