import { conflicting } from '../api-error.ts';
import { defineEndpoint } from '../endpoint.ts';
import { buildInstanceOf, serviceInstancesOf } from '../instance-ids.ts';
import { Logs, LogsQuery } from '../log-query.ts';
import { readLogs } from '../read-logs.ts';
import {
  Deployment,
  deploymentSettle,
  isCurrentDeployment,
  keptDeployment,
  toDeployment,
} from '../resources/deployment.ts';
import { eventsOf, ObjectEvents } from '../resources/event.ts';
import { deploymentStatus, isUnfinished } from '../status.ts';

export const getDeployment = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id',
  summary: 'A deployment',
  on: ['deployment', 'id'],
  response: Deployment,
  handle: async (ctx, { it }) => keptDeployment(ctx.keep, it, ctx.view),
});

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
  settle: deploymentSettle,
  handle: async (ctx, { it }) => {
    const status = deploymentStatus(it);
    const unit = ctx.repo.begin();
    if (!isUnfinished(it)) {
      if (status !== 'cancelled') throw conflicting(`Cannot cancel as the deployment is ${status}`);
      return ctx.commit(unit, () => toDeployment(it, isCurrentDeployment(it, ctx.view)));
    }
    const cancelled = unit.change(it, (draft) => void (draft.cancel_requested = true));
    return ctx.commit(unit, () => toDeployment(cancelled, isCurrentDeployment(it, ctx.view)));
  },
});

export const listDeploymentEvents = defineEndpoint({
  method: 'GET',
  path: '/deployments/:id/events',
  summary: 'What happened to a deployment, newest first',
  on: ['deployment', 'id'],
  response: ObjectEvents,
  handle: async (ctx, { it }) => eventsOf(ctx.mirror, it),
});
