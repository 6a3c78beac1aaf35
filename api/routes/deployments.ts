import { conflicting } from '../api-error.ts';
import { defineEndpoint } from '../endpoint.ts';
import { buildInstanceOf, serviceInstancesOf } from '../instance-ids.ts';
import { Logs, LogsQuery } from '../log-query.ts';
import { readLogs } from '../read-logs.ts';
import { eventsEndpoint, getEndpoint } from '../resource-endpoints.ts';
import { Deployment, deployments } from '../resources/deployment.ts';
import { deploymentStatus, isUnfinished } from '../status.ts';

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
    const status = deploymentStatus(it);
    const unit = ctx.repo.begin();
    if (!isUnfinished(it)) {
      if (status !== 'cancelled') throw conflicting(`Cannot cancel as the deployment is ${status}`);
      return ctx.commit(unit, () => deployments.answerOf(it, ctx.view));
    }
    const cancelled = unit.change(it, (draft) => void (draft.cancel_requested = true));
    return ctx.commit(unit, () => deployments.answerOf(cancelled, ctx.view));
  },
});

export const listDeploymentEvents = eventsEndpoint(deployments, {
  path: '/deployments/:id/events',
  summary: 'What happened to a deployment, newest first',
});
