import type { ReadonlyResource } from '../../store/resource.ts';
import { conflictReason, isTooLarge } from '../../store/errors.ts';
import { foldName } from '../../store/fold-name.ts';
import { escapeReferences } from '../../store/references.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { ApiError, conflicting } from '../ground/api-error.ts';
import type { Reply } from '../ground/cached-json.ts';
import { requireAgent } from '../workloads/agent-capability.ts';
import { addDeployment } from '../workloads/deploying.ts';
import { newApplication, requireApplicationRoom, requireVolumeRoom } from '../workloads/new-application.ts';
import { enterPlace } from '../workloads/place.ts';
import type { Place } from '../workloads/place.ts';
import { requirePort } from '../workloads/ports.ts';
import { requireServerRoom } from '../workloads/server-room.ts';
import type { Taken } from './answer.ts';
import { grantsOf, list } from './findings.ts';
import { aboutName } from './plan.ts';
import type { Planned } from './plan.ts';
import { localImageOf } from './image.ts';
import { mentionsIn, isDeployable, remainingSteps } from './remaining.ts';
import type { Made } from './remaining.ts';
import { valuesOf } from './values.ts';
import { wantedOf } from './wanted.ts';
import type { Obstacle, Wanted } from './wanted.ts';

/** What is to be taken over, and where to. */
export interface Taking {
  place: Place;
  /** Names of entries of the plan. */
  take: readonly string[];
  deploy: boolean;
}

/** What was made, and what is left to do by hand. */
export interface TakenOver {
  taken: Taken[];
  remaining: string[];
}

/**
 * Makes applications and volumes of entries of the plan, all in one transaction, with the values of their variables, which
 * are sealed at once. `answer` makes the answer of it. @throws ApiError with every reason for every name, before anything is
 * written
 */
export async function takeOver<T>(
  ctx: RequestContext,
  server: ReadonlyResource<'server'>,
  plan: readonly Planned[],
  { place, take, deploy }: Taking,
  answer: (done: TakenOver) => Reply<T>,
): Promise<Reply<T>> {
  const wanted = wantedOf(plan, take);
  refuseIfAny(take, [...wanted.obstacles, ...portsOf(ctx, place, wanted)]);
  const { applications, volumes } = wanted;
  if (volumes.length > 0)
    requireAgent(ctx.view.agent(server.meta.id), 'volumes.copy', {
      lack: 'cannot copy volumes of Docker',
      otherwise: 'move what has volumes by hand, as the plan says',
    });
  const { project_id: projectId } = place.fields;
  if (applications.length > 0) requireApplicationRoom(ctx.view, place.fields, { adding: applications.length });
  if (volumes.length > 0) requireVolumeRoom(ctx.view, projectId, { adding: volumes.length });
  // names that are refused are refused before any value leaves its server
  const told = await valuesOf(ctx, server.meta.id, applications);
  refuseIfAny(take, told.obstacles);

  const unit = ctx.repo.begin();
  enterPlace(unit, place);
  const volumeIds = new Map(volumes.map((one) => [one, ctx.random.id()]));
  const taken: Taken[] = [];
  for (const [{ name, source, containers }, id] of volumeIds) {
    const from = { docker_volume: source, containers: containers.slice(0, mostContainers) };
    unit.create('volume', id, { ...place.fields, name, copy_from: from });
    taken.push({ kind: 'volume', name, id, deployment_id: null });
  }
  const { direct_ports_enabled: opensPorts } = server.desired;
  const obstacles: Obstacle[] = [];
  const made: Made[] = [];
  const coming = [];
  const internalIds = new Map<string, string>();
  const hostNames = new Set<string>();
  for (const one of applications) {
    const { name } = one.manifest;
    const values = told.values.get(one) ?? {};
    const draft = unlessRefused(name, obstacles, () =>
      newApplication(ctx, place.fields, { ...one.manifest, env: literal(values) }, { hostNames }),
    );
    if (draft === undefined) continue;
    hostNames.add(draft.desired.host_name ?? '');
    const mounts = one.mounts.flatMap(({ volume, path, readOnly }) => {
      const id = volumeIds.get(volume);
      return id === undefined ? [] : [{ volume_id: id, path, read_only: readOnly }];
    });
    const adopted = localImageOf(one.unit.first.image);
    const capabilities = grantsOf(one.unit);
    const it = unit.create('application', draft.id, {
      ...draft.desired,
      mounts,
      ...(adopted !== undefined && { adopted_image: adopted }),
      ...(capabilities !== undefined && { capabilities }),
    });
    const mentions = mentionsIn(values, one.unit, plan);
    const isDeployed = deploy && isDeployable(one, mentions, opensPorts);
    const deployment = isDeployed ? await addDeployment(ctx, unit, it, { trigger: 'manual' }) : undefined;
    internalIds.set(name, draft.desired.internal_id);
    made.push({ wanted: one, isDeployed, mentions });
    coming.push({ server: server.meta.id, desired: it.desired });
    taken.push({ kind: one.kind, name, id: draft.id, deployment_id: deployment?.meta.id ?? null });
  }
  refuseIfAny(take, obstacles);
  requireServerRoom(ctx.view, coming, 'take');
  const remaining = remainingSteps(made, volumes, { internalIds, project: place.project.desired.name });
  try {
    return await ctx.commit(unit, () => answer({ taken, remaining }));
  } catch (error) {
    refuseIfAny(take, namesakes(error, place, wanted));
    if (!isTooLarge(error)) throw error;
    const message = `Nothing is taken over, as ${take.length} at once are more than one transaction of the store has room for: take fewer, in several requests`;
    throw conflicting(message, [{ field: 'take', reason: 'limit', message }]);
  }
}

/** As many as a volume names. */
const mostContainers = 100;

/** What got its name from another request since the plan was made, as the error of the transaction says. */
function namesakes(error: unknown, place: Place, { applications, volumes }: Wanted): Obstacle[] {
  const reason = conflictReason(error);
  if (reason?.why !== 'name-taken') return [];
  const { kind, holder } = reason;
  const isOf = (name: string): boolean => foldName(name) === reason.name;
  const refuse = (name: string, taken: string): Obstacle[] =>
    kind === 'application' || kind === 'volume'
      ? [{ name, code: 'name_taken', message: aboutName(kind, taken, place.environment.desired.name, holder) }]
      : [];
  if (kind === 'application')
    return applications.flatMap(({ manifest: { name } }) => (isOf(name) ? refuse(name, name) : []));
  return volumes.flatMap((volume) => {
    const of = applications.find(({ mounts }) => mounts.some((one) => one.volume === volume));
    return isOf(volume.name) ? refuse(of?.manifest.name ?? volume.name, volume.name) : [];
  });
}

/** Ports of the server that cannot be given. */
function portsOf(ctx: RequestContext, { fields, server }: Place, { applications }: Wanted): Obstacle[] {
  const obstacles: Obstacle[] = [];
  const owners = new Map<number, string>();
  for (const { manifest } of applications) {
    const { name, exposed_port: port } = manifest;
    unlessRefused(name, obstacles, () =>
      requirePort(ctx, { projectId: fields.project_id, serverId: server.meta.id, port }),
    );
    if (port === undefined || !server.desired.direct_ports_enabled) continue;
    const owner = owners.get(port);
    if (owner === undefined) owners.set(port, name);
    else
      obstacles.push({
        name,
        code: 'port_taken',
        message: `Port ${port} of the server would belong to ${owner}, too: take one of them, and let the program of the other listen on another port`,
      });
  }
  return obstacles;
}

/** The result, or `undefined` if it is refused; the refusal is added to `obstacles`. */
function unlessRefused<T>(name: string, obstacles: Obstacle[], attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    obstacles.push({ name, code: error.details[0]?.reason ?? 'refused', message: error.message });
    return undefined;
  }
}

/** @throws ApiError CONFLICT with every obstacle */
function refuseIfAny(take: readonly string[], obstacles: readonly Obstacle[]): void {
  if (obstacles.length === 0) return;
  const names = list(obstacles.map(({ name }) => name));
  throw conflicting(
    `Nothing is taken over, as it is not possible for all that are named (${names}): the details say why`,
    obstacles.map(({ name, code, message }) => {
      const at = take.indexOf(name);
      return { field: at < 0 ? 'take' : `take.${at}`, reason: code, message: `${name}: ${message}` };
    }),
  );
}

/** Variables as they are, also where a value looks like a reference. */
function literal(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeReferences(value)]));
}
