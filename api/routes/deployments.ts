import { defineEndpoint } from '../endpoint/endpoint.ts';
import { configurationChanges, predecessorOf } from '../workloads/configuration-changes.ts';
import { buildInstancesOf, serviceInstancesOf } from '../workloads/instance-ids.ts';
import { imageLogOf } from '../workloads/image-log.ts';
import { Logs, LogsQuery } from '../workloads/log-query.ts';
import { readLogs } from '../workloads/read-logs.ts';
import { eventsEndpoint } from './resource-endpoints.ts';
import { Deployment, DeploymentDetail, deployments } from '../resources/deployment.ts';
import { isUnfinished } from '../resources/status.ts';

export const getDeployment = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id',
  summary: 'A deployment, with what its configuration changed of the one before',
  on: ['deployment', 'id'],
  response: DeploymentDetail,
  handle: async ({ view, tenant, sealer }, { it }) => {
    const before = predecessorOf(it, view);
    const changes =
      before === undefined ? null : configurationChanges(before, it, (one, other) => sealer.isSame(tenant, one, other));
    return { ...deployments.show(it, deployments.seen(it, view)), changes, notes: [...(it.desired.notes ?? [])] };
  },
});

export const readDeploymentLogs = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/logs',
  summary: 'Output of a deployment: how its image was built or pulled, and of its instances',
  on: ['deployment', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, {
      workload: it.desired.application_id,
      instances: [...buildInstancesOf(it), ...serviceInstancesOf(it)],
    }),
});

export const readDeploymentRuntimeLogs = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/runtime-logs',
  summary: 'Output of the instances of a deployment',
  on: ['deployment', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, {
      workload: it.desired.application_id,
      instances: serviceInstancesOf(it),
      streams: ['stdout', 'stderr', 'system'],
    }),
});

export const readDeploymentBuildLogs = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/build-logs',
  summary: 'How the image of a deployment was built or pulled',
  on: ['deployment', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) => readLogs(ctx, it.desired.server_id, query, imageLogOf(it)),
});

export const cancelDeployment = defineEndpoint({
  method: 'POST',
  path: '/deployments/:id/cancel',
  summary: 'Cancel a deployment that has not come to its end',
  on: ['deployment', 'id'],
  response: Deployment,
  settle: deployments.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const cancelled = isUnfinished(it) ? unit.change(it, (draft) => void (draft.cancel_requested = true)) : it;
    return ctx.commit(unit, () => deployments.answerOf(cancelled, ctx.view));
  },
});

export const listDeploymentEvents = eventsEndpoint(deployments, {
  path: '/deployments/:id/events',
  summary: 'What happened to a deployment, newest first',
});
