import { z } from 'zod';
import { AssignmentPhase } from '../../../store/kinds/assignment.ts';
import type { KindName } from '../../../store/kinds/kinds.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { successes } from '../../../store/serving.ts';
import { conflicting, serviceUnavailable } from '../../api-error.ts';
import { caps, requireRoom } from '../../caps.ts';
import { activeOf, addDeployment } from '../../deploying.ts';
import { defineEndpoint } from '../../endpoint.ts';
import { serviceInstancesOf } from '../../instance-ids.ts';
import { Logs, LogsQuery } from '../../log-query.ts';
import { readLogs } from '../../read-logs.ts';
import { eventsEndpoint, listOfEndpoint } from '../resource-endpoints.ts';
import { applications } from '../../resources/application.ts';
import { deployments } from '../../resources/deployment.ts';
import { orNull } from '../../resources/object-fields.ts';
import { untilSettled } from '../../settle.ts';
import { serverStatus } from '../../status.ts';

const Instance = z
  .object({
    id: z.string(),
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
    exit_code: z.int().nullable().meta({ description: 'Of the process that ended last, while none runs' }),
  })
  .meta({ id: 'Instance' });

export const listInstances = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/instances',
  summary: 'Instances of an application that run or shall run',
  on: ['application', 'id'],
  response: z.array(Instance),
  handle: async ({ view }, { it }) =>
    view
      .by('assignment', 'workload', it.meta.id)
      .flatMap((one) => toInstance(one, view))
      .sort((a, b) => a.replica - b.replica || (a.id < b.id ? -1 : 1)),
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
        exit_code: phase === 'running' ? undefined : observed.exit_code,
      }),
    },
  ];
}

const Linked = z.object({ id: z.string(), name: z.string() });
type Linked = z.infer<typeof Linked>;

type Finder = (it: ReadonlyResource<'application'>, view: TenantView) => Linked[];
/** A kind that is added must be looked for: its entry below no longer compiles. */
type FinderOf<K extends string> = K extends KindName ? Finder : 'no such kind';
const linked: { [K in 'database' | 'volume' | 'function' | 'template_instance']: FinderOf<K> } = {
  database: 'no such kind',
  volume: 'no such kind',
  function: 'no such kind',
  template_instance: 'no such kind',
};

function find(finder: Finder | 'no such kind', it: ReadonlyResource<'application'>, view: TenantView): Linked[] {
  return finder === 'no such kind' ? [] : finder(it, view);
}

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
  }),
  handle: async ({ view }, { it }) => ({
    applications: [],
    databases: find(linked.database, it, view),
    volumes: find(linked.volume, it, view),
    functions: find(linked.function, it, view),
    template_instance: find(linked.template_instance, it, view)[0] ?? null,
  }),
});

export const readRuntimeLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/runtime-logs',
  summary: 'Output of the instances of an application, also of ones that are gone',
  on: ['application', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) => {
    const streams = ['stdout', 'stderr', 'system'] as const;
    const scope = { workload: it.meta.id, streams };
    if (query.previous !== 'true') return readLogs(ctx, it.desired.server_id, query, scope);
    const [, previous] = successes(ctx.view, it.meta.id);
    const instances = previous === undefined ? [] : serviceInstancesOf(previous.meta.id);
    return readLogs(ctx, it.desired.server_id, query, { ...scope, instances });
  },
});

export const readBuildLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/build-logs',
  summary: 'Output of the builds of an application',
  on: ['application', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, { workload: it.meta.id, streams: ['build'] }),
});

export const listApplicationEvents = eventsEndpoint(applications, {
  path: '/applications/:id/events',
  summary: 'What happened to an application, newest first',
});

export const listDeployments = listOfEndpoint('application', deployments, {
  path: '/applications/:appId/deployments',
  summary: 'Deployments of an application',
});

const syncPatienceMs = 20_000;

/** The result of an operation; one that a leader of an earlier release wrote has no files. */
const SyncResult = z.object({
  up_to_date: z.boolean(),
  current_commit: z.string().nullable(),
  latest_commit: z.string(),
  branch: z.string(),
  changed_files: z.array(z.string()).default([]),
  changed_files_known: z.boolean().default(false),
  matched: z.boolean().optional(),
});

export const syncDeployments = defineEndpoint({
  method: 'POST',
  path: '/applications/:appId/deployments/sync',
  summary: 'Compare the branch with what serves; deploys a newer commit that matches where autodeploy is on',
  on: ['application', 'appId'],
  heavy: true,
  waitsForAgent: true,
  response: z.object({
    up_to_date: z.boolean(),
    current_commit: z.string().nullable(),
    latest_commit: z.string(),
    branch: z.string(),
    changed_files: z.array(z.string()).meta({ description: 'Files that differ between both commits, at most 1000' }),
    changed_files_known: z
      .boolean()
      .meta({ description: 'Whether changed_files is complete; what is not counts as matched' }),
    matched: z.boolean().meta({ description: 'There is another commit, and a changed file is one of watch_paths' }),
    deployment_id: z.string().nullable(),
  }),
  handle: async (ctx, { it }) => {
    const { source } = it.desired;
    if (source.type !== 'git') throw conflicting('Only an application with a git source can be compared');
    const { view, tenant } = ctx;
    const underWay = view
      .by('operation', 'application', it.meta.id)
      .filter(({ observed }) => observed?.finished_at === undefined);
    requireRoom(underWay.length, caps.comparisonsPerApplication, {
      where: 'The application',
      what: 'comparisons under way',
      remedy: 'wait for one of them to end',
    });
    const id = ctx.random.id();
    const asking = ctx.repo.begin();
    asking.require(it);
    asking.create('operation', id, {
      type: 'sync',
      project_id: it.desired.project_id,
      application_id: it.meta.id,
      server_id: it.desired.server_id,
      requested_by: ctx.principal.user.meta.id,
      requested_at: ctx.clock.now().toISOString(),
      deadline_seconds: syncPatienceMs / 1000,
    });
    await ctx.commit(asking, () => undefined);
    const isOver = (): boolean => view.get('operation', id)?.observed?.finished_at !== undefined;
    await untilSettled(ctx, tenant, isOver, syncPatienceMs, ctx.signal());
    const { observed } = view.get('operation', id) ?? {};
    if (observed?.phase === 'failed' && observed.error !== undefined && observed.error.code !== 'away')
      throw conflicting(observed.error.message, [
        { field: '', reason: observed.error.code, message: observed.error.message },
      ]);
    if (observed?.phase !== 'succeeded') throw serviceUnavailable('The agent of the server did not answer in time');
    const result = SyncResult.parse(observed.result);
    const answer = { ...result, matched: result.matched ?? !result.up_to_date };
    const now = view.get('application', it.meta.id);
    if (!answer.matched || now === undefined || !now.desired.autodeploy || activeOf(now, view) !== undefined)
      return { ...answer, deployment_id: null };
    const unit = ctx.repo.begin();
    const deployment = addDeployment(ctx, unit, now, { trigger: 'webhook' });
    return ctx.commit(unit, () => ({ ...answer, deployment_id: deployment.meta.id }));
  },
});
