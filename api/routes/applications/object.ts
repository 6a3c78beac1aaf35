import { z } from 'zod';
import { application as kind } from '../../../store/kinds/application.ts';
import { notFound } from '../../ground/api-error.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { placeFrom } from '../../workloads/place.ts';
import { referred } from '../../workloads/references.ts';
import { addApplication, changeApplication } from '../../workloads/writing-application.ts';
import { deleteEndpoint, Force, getEndpoint, listEndpoint, requireUnreferredOrForce } from '../resource-endpoints.ts';
import {
  Application,
  ApplicationCreate,
  applications,
  applicationSeen,
  ApplicationUpdate,
} from '../../resources/application.ts';
import { readOnlyFields, Reference } from '../../resources/object-fields.ts';
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
    const unit = ctx.repo.begin();
    const it = await addApplication(ctx, unit, placeFrom(view, body), body);
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
    const unit = ctx.repo.begin();
    const { changed, target } = await changeApplication(ctx, unit, it, body);
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
      if (query.force !== 'true') requireUnreferredOrForce(view, it);
    },
  },
);
