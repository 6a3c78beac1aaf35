import { z } from 'zod';
import { AssignmentPhase } from '../../../store/kinds/assignment.ts';
import type { TenantView } from '../../../store/mirror.ts';
import { referredObjects } from '../../../store/referable.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { applicationsReferringTo, functionsReferringTo } from '../../../store/referring.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { eventsEndpoint, listOfEndpoint } from '../resource-endpoints.ts';
import { applications } from '../../resources/application.ts';
import { deployments } from '../../resources/deployment.ts';
import { ServiceName } from '../../resources/fields.ts';
import { instanceLinks, Linked, linkTo } from '../../resources/linked.ts';
import { orNull } from '../../resources/object-fields.ts';
import { serverStatus } from '../../resources/status.ts';

const Instance = z
  .object({
    id: z.string(),
    service: z.string().nullable().meta({ description: 'Of its compose file; null for an application without one' }),
    replica: z.int(),
    deployment_id: z.string(),
    server_id: z.string(),
    status: z
      .enum([...AssignmentPhase.options, 'unknown'])
      .meta({ description: 'unknown while the server does not answer' }),
    ready: z.boolean(),
    restarts: z.int(),
    started_at: z.string().nullable(),
    container_id: z.string().nullable(),
    image_digest: z.string().nullable(),
    exit_code: z.int().nullable().meta({ description: 'Of the process that ended last, also while another one runs' }),
    last_exit: z
      .object({
        code: z.int().nullable(),
        out_of_memory: z.boolean(),
        lines: z.string().nullable().meta({ description: 'The last lines that it wrote' }),
      })
      .nullable()
      .meta({ description: 'How its process ended last' }),
    memory_kills: z.int().nullable().meta({
      description: 'Processes of it that were killed for memory, the first one or another: counted as `restarts`',
    }),
  })
  .meta({ id: 'Instance' });

export const listInstances = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/instances',
  summary: 'Instances of an application that run or shall run',
  on: ['application', 'id'],
  query: z.object({ service: ServiceName, limit: z.coerce.number<string>().int().min(1).max(500).optional() }),
  response: z.array(Instance),
  handle: async ({ view }, { it, query: { service, limit } }) =>
    view
      .by('assignment', 'workload', it.meta.id)
      .flatMap((one) => toInstance(one, view))
      .filter((one) => service === undefined || one.service === service)
      .sort(
        (a, b) => (a.service ?? '').localeCompare(b.service ?? '') || a.replica - b.replica || (a.id < b.id ? -1 : 1),
      )
      .slice(0, limit),
});

function toInstance(it: ReadonlyResource<'assignment'>, view: TenantView): z.infer<typeof Instance>[] {
  const { desired } = it;
  const { spec } = desired;
  const observed: Partial<NonNullable<typeof it.observed>> = it.observed ?? {};
  const { phase = 'pending', ready = false, restarts = 0 } = observed;
  const isAtRest = desired.run === 'stopped' && ['stopped', 'pending'].includes(phase);
  if (spec.type !== 'service' || isAtRest) return [];
  const server = view.get('server', desired.server_id);
  const isAnswering = server !== undefined && !['offline', 'error'].includes(serverStatus(server));
  return [
    {
      id: it.meta.id,
      service: spec.config?.service ?? null,
      replica: spec.slot,
      deployment_id: desired.version,
      server_id: desired.server_id,
      status: isAnswering ? phase : 'unknown',
      ready: isAnswering && ready,
      restarts,
      ...orNull({
        started_at: observed.started_at,
        container_id: observed.container_id,
        image_digest: observed.image_digest ?? spec.image_digest,
        exit_code: observed.exit_code,
        last_exit: lastExit(observed.last_exit),
        memory_kills: observed.memory_kills,
      }),
    },
  ];
}

function lastExit(
  seen: NonNullable<ReadonlyResource<'assignment'>['observed']>['last_exit'],
): z.infer<typeof Instance>['last_exit'] {
  if (seen === undefined) return null;
  const { code = null, out_of_memory: isKilled = false, lines = null } = seen;
  return { code, out_of_memory: isKilled, lines };
}

type Finder = (it: ReadonlyResource<'application'>, view: TenantView) => Linked[];
const linked: Readonly<Record<'database' | 'volume' | 'function' | 'template_instance', Finder>> = {
  database: (it, view) =>
    referredObjects(view, it, 'database').flatMap((id) => {
      const other = view.get('database', id);
      return other === undefined ? [] : [linkTo(other)];
    }),
  volume: ({ desired }, view) =>
    desired.mounts.flatMap(({ volume_id }) => {
      const it = view.get('volume', volume_id);
      return it === undefined ? [] : [linkTo(it)];
    }),
  function: (it, view) => functionsReferringTo(view, it).map(linkTo),
  template_instance: ({ desired }, view) => instanceLinks(view, desired),
};

export const listDependencies = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/dependencies',
  summary: 'Resources that are linked to an application',
  on: ['application', 'id'],
  response: z.object({
    applications: z.array(Linked),
    databases: z.array(Linked),
    volumes: z.array(Linked),
    functions: z.array(Linked),
    template_instance: Linked.nullable(),
    referenced_by: z.array(Linked).meta({ description: 'Applications whose variables refer to this one' }),
  }),
  handle: async ({ view }, { it }) => ({
    applications: referredObjects(view, it, 'application').flatMap((id) => {
      const other = view.get('application', id);
      return other === undefined ? [] : [linkTo(other)];
    }),
    databases: linked.database(it, view),
    volumes: linked.volume(it, view),
    functions: linked.function(it, view),
    template_instance: linked.template_instance(it, view)[0] ?? null,
    referenced_by: applicationsReferringTo(view, it).map(linkTo),
  }),
});

export const listApplicationEvents = eventsEndpoint(applications, {
  path: '/applications/:id/events',
  summary: 'What happened to an application, newest first',
});

export const listDeployments = listOfEndpoint('application', deployments, {
  path: '/applications/:appId/deployments',
  summary: 'Deployments of an application',
});
