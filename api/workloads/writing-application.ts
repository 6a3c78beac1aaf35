import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import type { ApplicationCreate, ApplicationUpdate } from '../resources/application.ts';
import { targetOf } from '../resources/status.ts';
import { sourceFrom } from './application-source.ts';
import { requireComposable } from './composed.ts';
import { addConfigDeployment, scale, startDeployment } from './deploying.ts';
import type { Coming } from './deploying.ts';
import { domainsFrom, holdHosts } from './domains.ts';
import { applyFields, newApplication, requireApplicationRoom } from './new-application.ts';
import { enterPlace } from './place.ts';
import type { Place } from './place.ts';
import { requirePort, requirePortOf } from './ports.ts';
import { requireServerRoom } from './server-room.ts';
import { requireRegistryAccess, requireSourceAccess } from './source-access.ts';

type Application = ReadonlyResource<'application'>;
type Mounts = DesiredOf<'application'>['mounts'];

/** Adds a new application to a unit, judged by all that a request for it is judged by. @throws ApiError */
export async function addApplication(
  ctx: RequestContext,
  unit: Unit,
  place: Place,
  { mounts = [], ...body }: ApplicationCreate & { mounts?: Mounts },
): Promise<Resource<'application'>> {
  const { view } = ctx;
  const { project_id, server_id } = place.fields;
  requireApplicationRoom(view, place.fields, { adding: 1 });
  const { id, desired } = newApplication(ctx, place.fields, body);
  desired.mounts = mounts;
  await requireComposable(ctx, id, desired);
  await holdHosts(ctx, unit, body.domains, { serverId: server_id });
  desired.domains = (await domainsFrom(ctx, body.domains, { projectId: project_id, serverId: server_id })) ?? [];
  requireServerRoom(view, [{ server: server_id, desired }], 'server_id');
  requirePort(ctx, { projectId: project_id, serverId: server_id, port: desired.config.exposed_port });
  enterPlace(unit, place);
  requireSourceAccess(view, unit, { projectId: project_id, source: desired.source });
  requireRegistryAccess(view, unit, desired);
  return unit.create('application', id, desired, defined({ labels: body.labels }));
}

/** An application after a change, and the deployment that it converges to. */
export interface ChangedApplication {
  changed: Resource<'application'>;
  target: ReadonlyResource<'deployment'> | undefined;
}

/**
 * Changes fields of an application in a unit. What runs gets a changed configuration by a deployment; with `deploys` a
 * source that no deployment has is deployed, too. @throws ApiError
 */
export async function changeApplication(
  ctx: RequestContext,
  unit: Unit,
  it: Application,
  body: ApplicationUpdate,
  { deploys = false }: { deploys?: boolean } = {},
): Promise<ChangedApplication> {
  // the unit may have changed the object before, and shows what becomes of it
  const { meta, desired: before } = it;
  const targeted = targetOf(it, ctx.view);
  const source = sourceFrom(ctx, meta.id, body, before);
  const of = { id: meta.id, projectId: before.project_id, serverId: before.server_id, before: before.domains };
  await holdHosts(ctx, unit, body.domains, of);
  const domains = await domainsFrom(ctx, body.domains, of);
  const replicas = body.replicas === null ? 1 : body.replicas;
  requireSourceAccess(ctx.view, unit, { projectId: before.project_id, source, before: before.source });
  const changed = unit.change(it, (draft) => {
    draft.name = body.name ?? draft.name;
    draft.source = source;
    draft.domains = domains ?? draft.domains;
    applyFields(ctx, draft, body, meta.id);
  });
  await requireComposable(ctx, meta.id, changed.desired);
  requireRegistryAccess(ctx.view, unit, changed.desired, before);
  if (changed.desired.config.exposed_port !== before.config.exposed_port) requirePortOf(ctx, changed);
  if (body.labels !== undefined) unit.label(it, body.labels);
  const isScaled = replicas !== undefined && replicas !== before.replicas;
  const scaled: Coming = isScaled ? await scale(ctx, unit, changed, replicas) : { next: changed };
  requireServerRoom(ctx.view, [{ server: before.server_id, desired: scaled.next.desired, before }], '');
  const isUndeployed =
    targeted === undefined || !sealedEqual(targeted.desired.source, changed.desired.source, ctx.view.isSame);
  const isRunning = before.run === 'running' && changed.desired.run === 'running';
  const rollout =
    deploys && isUndeployed
      ? (await startDeployment(ctx, unit, changed)).target
      : isRunning
        ? await addConfigDeployment(ctx, unit, changed, changed.desired.config)
        : undefined;
  return { changed, target: rollout ?? scaled.target ?? targeted };
}
