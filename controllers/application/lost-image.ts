import { deployLack } from '../../store/deploy-lack.ts';
import { repositoryOf } from '../../store/kinds/application.ts';
import { createDeployment } from '../../store/new-deployment.ts';
import { isStaying } from '../../store/resource.ts';
import { credentialsOf } from '../../store/source-credentials.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { hasCode } from '../rollout/failures.ts';
import { isOfAny, servicesOf } from '../rollout/services.ts';
import type { Context } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { App, Deployment, World } from './world.ts';

/**
 * The deployment that is to serve and whose image is no more on the server, where only a build at its commit brings it back.
 * `undefined` also after an attempt that failed, until a user deploys, and after one that was cancelled, until the
 * application is stopped and started.
 */
export function lostImageOf({
  app,
  server,
  serving,
  target,
  slots,
}: Omit<World, 'unreadyTooLong'>): Deployment | undefined {
  if (!isStaying(app) || app.desired.run !== 'running' || server === undefined) return undefined;
  if (serving === undefined || repositoryOf(serving.desired.source) === undefined) return undefined;
  if (serving.observed?.commit === undefined) return undefined;
  const isNewest = target?.meta.id === serving.meta.id || target?.observed?.phase === 'cancelled';
  if (!isNewest) return undefined;
  const services = servicesOf(app, serving);
  const isLost = slots.some(
    (it) => isOfAny(it, services) && hasCode(upToDate(it)?.error, 'image_not_found') && !isGivenUp(it, serving, target),
  );
  return isLost ? serving : undefined;
}

/** Whether a user has cancelled an attempt since the instance was to run last: a stop and a start change what is wanted of it. */
function isGivenUp({ meta }: Assignment, serving: Deployment, target: Deployment | undefined): boolean {
  if (target === undefined || target.meta.id !== attemptId(serving, target.desired.number)) return false;
  return Date.parse(meta.updatedAt) <= Date.parse(target.desired.queued_at);
}

/** The id of the deployment of that number as an attempt to build what serves again. */
function attemptId(serving: Deployment, number: number): string {
  return uuidv5(serving.meta.id, `built again/${number}`);
}

/** Whether the application may still use its server, and what its source is fetched with. */
export function mayBuild(app: App, lost: Deployment, { view }: Pick<Context, 'view'>): boolean {
  const server = view.get('server', app.desired.server_id);
  return deployLack(app.desired, server, credentialsOf(view, app.desired, lost.desired.source)) === undefined;
}

/** Deploys what served once more, by a build at its commit. A crash repeats nothing: the application points at the new one. */
export async function buildAgain(
  { app, server }: Omit<World, 'unreadyTooLong'>,
  lost: Deployment,
  ctx: Context,
): Promise<void> {
  const { commit } = lost.observed ?? {};
  const { number, source } = lost.desired;
  const id = attemptId(lost, app.desired.next_deployment_number);
  await ctx.transact(
    (unit) => {
      unit.require(lost);
      if (server !== undefined) unit.require(server);
      createDeployment(unit, app, id, { trigger: 'config', source, commit, queued_at: ctx.clock.now().toISOString() });
    },
    { audited: 'controller application' },
  );
  ctx.event(app, {
    type: 'warning',
    reason: 'ImageGone',
    message: `The image of deployment ${number} was removed from the server: it is built again at commit ${(commit ?? '').slice(0, 12)}`,
  });
}
