import { z } from 'zod';
import { GrantedCapability } from '../../../agent-protocol/workload.ts';
import { builtBy } from '../../../store/built-by.ts';
import { maxReplicas } from '../../../store/kinds/application.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { plainCopy } from '../../../store/plain-copy.ts';
import { successes } from '../../../store/serving.ts';
import { conflicting, notFound } from '../../ground/api-error.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { activeOf, addDeployment, cancelActive, scale, startDeployment, startUp } from '../../workloads/deploying.ts';
import type { Coming } from '../../workloads/deploying.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Application, applications, applicationSeen } from '../../resources/application.ts';
import { Deployment, deployments } from '../../resources/deployment.ts';
import { Reference } from '../../resources/object-fields.ts';
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
    const { target } = await startDeployment(ctx, unit, it);
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
    const coming = await startUp(ctx, unit, it);
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

export const grantCapabilities = defineEndpoint({
  method: 'PUT',
  path: '/applications/:id/capabilities',
  summary: 'Say which further capabilities of the kernel the instances of an application have; they are replaced',
  on: ['application', 'id'],
  body: z.strictObject({
    capabilities: z
      .array(GrantedCapability)
      .max(GrantedCapability.options.length)
      .refine((them) => new Set(them).size === them.length, 'Must have none twice')
      .meta({
        description:
          'NET_RAW: raw packets, as ping sends them; IPC_LOCK: memory that is never swapped; SYS_NICE: priorities of its processes. []: none',
      }),
  }),
  response: Application,
  settle: applications.settle,
  handle: async (ctx, { it, body: { capabilities } }) => {
    const unit = ctx.repo.begin();
    const next = unit.change(it, (draft) => {
      if (capabilities.length > 0) draft.capabilities = capabilities.toSorted();
      else delete draft.capabilities;
    });
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
    const coming = await scale(ctx, unit, it, replicas);
    requireServerRoom(
      ctx.view,
      [{ server: it.desired.server_id, desired: coming.next.desired, before: it.desired }],
      'replicas',
    );
    return ctx.commit(unit, () => answerOf(ctx, coming));
  },
});

/**
 * The deployment to return to: the one that is named, or the success before the one that serves. An image that the server
 * does not have any more is built again from its commit, or pulled.
 *
 * @throws ApiError NOT_FOUND for a deployment of another application, CONFLICT for one that cannot serve again
 */
function returnTarget(
  view: RequestContext['view'],
  it: ReadonlyResource<'application'>,
  id: string | undefined,
): ReadonlyResource<'deployment'> {
  const [serving, ...earlier] = successes(view, it.meta.id);
  const possible = earlier.filter((one) => builtBy(one) !== undefined);
  if (id === undefined) {
    const [target] = possible;
    if (target === undefined) throw conflicting('There is no earlier successful deployment to return to');
    return target;
  }
  const named = view.get('deployment', id);
  if (named?.desired.application_id !== it.meta.id) throw notFound('Deployment', 'deployment_id');
  if (named.meta.id === serving?.meta.id || possible.includes(named)) return named;
  const numbers = possible.map(({ desired }) => desired.number).join(', ');
  const ways = numbers === '' ? 'there is no earlier one that did' : `those that did are ${numbers}`;
  throw conflicting(`Cannot return to deployment ${named.desired.number} as it has not succeeded: ${ways}`);
}

export const rollbackApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/rollback',
  summary:
    'Return to image and configuration of a deployment that succeeded, by default the one before that which serves',
  on: ['application', 'id'],
  heavy: true,
  body: z.strictObject({ deployment_id: Reference.nullish() }).default({}),
  response: Deployment,
  settle: deployments.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const target = returnTarget(view, it, body.deployment_id ?? undefined);
    const unit = ctx.repo.begin();
    const active = activeOf(it, view);
    if (active?.desired.rollback_of === target.meta.id && !ctx.request.isKeyed)
      return ctx.commit(unit, () => deployments.answerOf(active, ctx.view));
    unit.change(it, (draft) => {
      // A snapshot of a deployment has the same form.
      draft.source = plainCopy<typeof draft.source>(target.desired.source);
      draft.config = plainCopy<typeof draft.config>(target.desired.config);
    });
    const deployment = await addDeployment(ctx, unit, it, {
      trigger: 'rollback',
      rollbackOf: target.meta.id,
      reuse: builtBy(target),
    });
    return ctx.commit(unit, () => deployments.answerOf(deployment, ctx.view));
  },
});
