import { defineEndpoint } from '../endpoint/endpoint.ts';
import { buildInstanceOf, serviceInstancesOf } from '../workloads/instance-ids.ts';
import { Logs, LogsQuery } from '../workloads/log-query.ts';
import { readLogs } from '../workloads/read-logs.ts';
import { eventsEndpoint, getEndpoint } from './resource-endpoints.ts';
import { Deployment, deployments } from '../resources/deployment.ts';
import { isUnfinished } from '../resources/status.ts';

export const getDeployment = getEndpoint(deployments, { path: '/deployments/:id', summary: 'A deployment' });

export const readDeploymentLogs = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/logs',
  summary: 'Output of a deployment: of its build and of its instances',
  on: ['deployment', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, {
      workload: it.desired.application_id,
      instances: [buildInstanceOf(it.meta.id), ...serviceInstancesOf(it.meta.id)],
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
      instances: serviceInstancesOf(it.meta.id),
    }),
});

export const readDeploymentBuildLogs = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/build-logs',
  summary: 'Output of the build of a deployment',
  on: ['deployment', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, {
      workload: it.desired.application_id,
      instances: [buildInstanceOf(it.meta.id)],
    }),
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
