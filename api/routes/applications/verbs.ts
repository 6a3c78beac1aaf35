import { z } from 'zod';
import { maxReplicas } from '../../../store/kinds/application.ts';
import { plainCopy } from '../../../store/plain-copy.ts';
import { successes } from '../../../store/serving.ts';
import { conflicting } from '../../ground/api-error.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import {
  activeOf,
  addDeployment,
  builtBy,
  cancelActive,
  scale,
  startDeployment,
  startUp,
} from '../../workloads/deploying.ts';
import type { Coming } from '../../workloads/deploying.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Application, applications, applicationSeen } from '../../resources/application.ts';
import { Deployment, deployments } from '../../resources/deployment.ts';
import { requireServerRoom } from '../../workloads/server-room.ts';

/** The application with the status that follows from the request. */
function answerOf({ view }: Pick<RequestContext, 'view'>, { next, target }: Coming): Application {
  return applications.show(next, applicationSeen(next, view, target));
}

export const deployApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/deploy',
  summary: 'Deploy the application as it is now; a deployment of the same that waits or builds is answered again',
  on: ['application', 'id'],
  heavy: true,
  response: Deployment,
  settle: deployments.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const { target } = startDeployment(ctx, unit, it);
    return ctx.commit(unit, () => deployments.answerOf(target, ctx.view));
  },
});

export const startApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/start',
  summary: 'Let the application run, after a scale to 0 with the replicas of before; deploys it if none has succeeded',
  on: ['application', 'id'],
  heavy: true,
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const coming = startUp(ctx, unit, it);
    return ctx.commit(unit, () => answerOf(ctx, coming));
  },
});

export const stopApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/stop',
  summary: 'Stop the application and cancel a deployment under way',
  on: ['application', 'id'],
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const next = unit.change(it, (draft) => void (draft.run = 'stopped'));
    cancelActive(unit, it, ctx.view);
    return ctx.commit(unit, () => answerOf(ctx, { next }));
  },
});

export const restartApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/restart',
  summary: 'Restart the instances one after another',
  on: ['application', 'id'],
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it }) => {
    const token = ctx.random.id();
    const unit = ctx.repo.begin();
    const next = unit.change(it, (draft) => void (draft.restart_token = token));
    return ctx.commit(unit, () => answerOf(ctx, { next }));
  },
});

export const scaleApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/scale',
  summary: 'Set the number of replicas; 0 stops the application, more than 0 after that starts it again',
  on: ['application', 'id'],
  body: z.strictObject({ replicas: z.int().min(0).max(maxReplicas) }),
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it, body: { replicas } }) => {
    const unit = ctx.repo.begin();
    const coming = scale(ctx, unit, it, replicas);
    requireServerRoom(
      ctx.view,
      [{ server: it.desired.server_id, desired: coming.next.desired, before: it.desired }],
      'replicas',
    );
    return ctx.commit(unit, () => answerOf(ctx, coming));
  },
});

export const rollbackApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/rollback',
  summary: 'Return to image and configuration of the deployment that succeeded before the one that serves',
  on: ['application', 'id'],
  heavy: true,
  response: Deployment,
  settle: deployments.settle,
  handle: async (ctx, { it }) => {
    const { view } = ctx;
    const [, ...earlier] = successes(view, it.meta.id);
    const target = earlier.find((one) => builtBy(one) !== undefined);
    if (target === undefined) throw conflicting('There is no earlier successful deployment to return to');
    const unit = ctx.repo.begin();
    const active = activeOf(it, view);
    if (active?.desired.rollback_of === target.meta.id && !ctx.request.isKeyed)
      return ctx.commit(unit, () => deployments.answerOf(active, ctx.view));
    unit.change(it, (draft) => {
      // A snapshot of a deployment has the same form.
      draft.source = plainCopy<typeof draft.source>(target.desired.source);
      draft.config = plainCopy<typeof draft.config>(target.desired.config);
    });
    const deployment = addDeployment(ctx, unit, it, {
      trigger: 'rollback',
      rollbackOf: target.meta.id,
      reuse: builtBy(target),
    });
    return ctx.commit(unit, () => deployments.answerOf(deployment, ctx.view));
  },
});
