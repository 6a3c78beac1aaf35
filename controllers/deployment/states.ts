import { defined } from '../../store/defined.ts';
import { hasDeploymentEnded, isUnread } from '../../store/kinds/application.ts';
import type { DeploymentPhase } from '../../store/kinds/application.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { releaseOf } from '../../store/kinds/release-settings.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import type { Resolution } from '../../store/referable.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Because } from '../runtime/controller.ts';
import { hasCode } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import { uncopied, withVolumeNames } from '../rollout/mounted.ts';
import { healthOfAll, servicesOf } from '../rollout/services.ts';
import type { Composed, Service } from '../rollout/services.ts';
import type { Assignment } from '../rollout/slots.ts';
import { awaitedOf } from '../rollout/waiting.ts';
import { hasBegun, taskState } from '../task/task.ts';
import { upToDate } from '../runtime/up-to-date.ts';

export type Deployment = ReadonlyResource<'deployment'>;

/** What a deployment's phase follows from. */
export interface World {
  deployment: Deployment;
  application: ReadonlyResource<'application'> | undefined;
  /** Its server was deleted or is being deleted: nothing will run there any more. */
  serverGone: boolean;
  /** Why its server can run nothing for now. */
  serverAway: 'offline' | 'engine' | undefined;
  build: Assignment | undefined;
  /** The services of its compose file that are built, and the task of each. */
  builds: ReadonlyMap<string, { composed: Composed; task: Assignment | undefined }>;
  /** What reads its compose file in the repository. */
  reading: ReadonlyResource<'operation'> | undefined;
  /** Service instances of this deployment. */
  slots: readonly Assignment[];
  /** The volumes that its application mounts. */
  mounted: readonly ReadonlyResource<'volume'>[];
  /** An instance of another deployment may still be answering. */
  olderLive: boolean;
  /** What its references stand for, where that is not recorded yet. */
  resolution: Resolution | undefined;
  /** Its deadline for the present phase has passed. */
  expired: boolean;
  /** An instance has not become stable in the time that its application gives it. */
  isUnhealthy: boolean;
  now: string;
}

type Observed = ObservedOf<'deployment'>;
/** Failures that are found here, not by an agent. The record takes every code: those of agents grow with releases. */
interface OwnFailure extends Failure {
  code:
    | FailureCode
    | 'build_lost'
    | 'engine_unavailable'
    | 'invalid_config'
    | 'not_ready'
    | 'reference_unresolved'
    | 'server_gone'
    | 'server_offline'
    | 'volume_not_copied';
}

/**
 * The next observed value of a deployment. Pure; every call moves at most one phase on, and a terminal phase never
 * changes.
 *
 * queued → building → deploying → succeeded; from any of them failed, cancelled or superseded. A deployment that reuses
 * an image goes back from deploying to building, once, if the image is gone and its commit is known.
 */
export function advance(world: World): Observed {
  const { deployment, resolution } = world;
  const known: Observed = deployment.observed ?? { phase: 'queued' };
  if (hasDeploymentEnded(known.phase)) return known;
  const isResolved = resolution !== undefined && 'values' in resolution;
  const before: Observed = isResolved ? { ...known, references: resolution.values } : known;
  const end = ending(world);
  if (end !== undefined) return { ...before, phase: end, finished_at: world.now };
  if (world.serverGone) return fail(world, before, gone);
  const wrong = faultIn(deployment.desired.config);
  if (wrong !== undefined) return fail(world, before, wrong);
  if (resolution !== undefined && 'fault' in resolution)
    return fail(world, before, { code: 'reference_unresolved', message: `${resolution.fault}. Then deploy again` });
  if (resolution !== undefined && 'comes' in resolution)
    return world.expired ? fail(world, before, unresolved(resolution.comes)) : before;
  switch (before.phase) {
    case 'queued':
      return fromQueued(world, before);
    case 'building':
      return fromBuilding(world, before);
    default:
      return fromDeploying(world, before);
  }
}

/** What is wrong with settings that an earlier release took although no container can be made of them. */
function faultIn({ start_command, memory_limit, cpu_limit }: Deployment['desired']['config']): OwnFailure | undefined {
  const parsed: Record<string, object> = {
    start_command: start_command === undefined ? {} : parseCommand(start_command),
    memory_limit: memory_limit === undefined ? {} : parseMemory(memory_limit),
    cpu_limit: cpu_limit === undefined ? {} : parseCpus(cpu_limit),
  };
  for (const [field, result] of Object.entries(parsed))
    if ('fault' in result)
      return { code: 'invalid_config', message: `${field} is wrong: ${String(result.fault)}. Change it and deploy` };
  return undefined;
}

/** The phase in which it ends for reasons outside of it; `undefined` if it does not. */
function ending({ deployment, application }: World): DeploymentPhase | undefined {
  if (!isStaying(application)) return 'cancelled';
  if (isDeleting(deployment) || deployment.desired.cancel_requested) return 'cancelled';
  if (application.desired.deployment_id !== deployment.meta.id) return 'superseded';
  return application.desired.run === 'stopped' ? 'cancelled' : undefined;
}

function fromQueued(world: World, before: Observed): Observed {
  const { source, reuse } = world.deployment.desired;
  if (isUnread(world.deployment.desired)) return fromUnread(world, before);
  if (world.builds.size > 0) return toBuilding(world, ofCommit(world, before));
  if (reuse !== undefined) {
    const { services: _, ...image } = reuse;
    return { ...before, ...image, phase: 'deploying', started_at: world.now };
  }
  if (source.type === 'compose')
    return defined({
      ...ofCommit(world, before),
      phase: 'deploying' as const,
      image: world.deployment.desired.services?.[0]?.image,
      started_at: world.now,
      // nothing was built, so that the time of the rollout is none of a build
      ...(source.repository !== undefined && { built_at: world.now }),
    });
  if (source.type === 'image') return { ...before, phase: 'deploying', image: source.image_url, started_at: world.now };
  return toBuilding(world, before);
}

type Builds = Pick<World, 'build' | 'builds'>;

/** The tasks of its builds, as far as they were asked for. */
export function buildTasks({ build, builds }: Builds): Assignment[] {
  const tasks = builds.size > 0 ? [...builds.values()].map(({ task }) => task) : [build];
  return tasks.filter((task) => task !== undefined);
}

/** Whether its server is at one of its builds now; it may let all that have not ended wait for those of others. */
export function isBeingBuilt(world: Builds): boolean {
  return buildTasks(world).some((task) => hasBegun(task) && taskState('build', task).outcome === 'running');
}

/** Whether its server has taken up a build of it, and none has begun yet. */
export function waitsForTurn(world: Builds): boolean {
  const tasks = buildTasks(world);
  return tasks.some(({ observed }) => observed !== undefined) && !tasks.some(hasBegun);
}

/** It builds once its server has begun one of its builds. */
function toBuilding(world: World, before: Observed): Observed {
  if (buildTasks(world).some(hasBegun)) return { ...before, phase: 'building', started_at: world.now };
  if (!world.expired) return before;
  return fail(world, before, late(world, waitsForTurn(world) ? lateTurn : away.offline));
}

/** Its compose file is read first. */
function fromUnread(world: World, before: Observed): Observed {
  const { finished_at, error, phase } = world.reading?.observed ?? {};
  if (finished_at !== undefined && phase !== 'succeeded')
    return fail(
      world,
      ofCommit(world, before),
      error ?? { code: 'failed', message: 'Its compose file cannot be read' },
    );
  return world.expired ? fail(world, before, away[world.serverAway ?? 'offline']) : before;
}

/** With the commit that its compose file was read at. */
function ofCommit({ deployment, reading }: World, before: Observed): Observed {
  const { commit } = deployment.desired;
  const read = reading?.observed?.result;
  if (commit === undefined) return before;
  const message = read?.['commit'] === commit ? read['commit_message'] : undefined;
  return { ...before, commit, ...(typeof message === 'string' && { commit_message: message }) };
}

function unresolved(comes: string): OwnFailure {
  return {
    code: 'reference_unresolved',
    message: `It waited too long for ${comes}: see the database, then deploy again`,
  };
}

const gone: OwnFailure = {
  code: 'server_gone',
  message: 'Its server was deleted: create the application anew on another server',
};

const away: Record<NonNullable<World['serverAway']>, OwnFailure> = {
  offline: {
    code: 'server_offline',
    message: 'Its server did not connect in time: check its agent, then deploy again',
  },
  engine: {
    code: 'engine_unavailable',
    message:
      'The container engine of its server did not answer in time: see the conditions of the server, then deploy again',
  },
};

const otherCommit: OwnFailure = {
  code: 'build_failed',
  message:
    'The server built another commit than that of the rollback: upgrade its agent and every control plane, then deploy again',
};

function fromBuilding(world: World, before: Observed): Observed {
  if (world.builds.size > 0) return fromBuildingServices(world, before);
  const build = taskState('build', world.build);
  const spec = world.build?.desired.spec;
  if (build.outcome === 'succeeded' && spec?.type === 'build') {
    const { reuse } = world.deployment.desired;
    if (reuse?.commit !== undefined && build.result.commit !== reuse.commit) return fail(world, before, otherCommit);
    return defined({ ...before, phase: 'deploying' as const, built_at: world.now, image: spec.image, ...build.result });
  }
  if (build.outcome === 'failed') return fail(world, { ...before, ...defined(build.known ?? {}) }, told(build.error));
  if (build.isExhausted) return fail(world, before, lost(build.attempt));
  return world.expired ? fail(world, before, tooLate(world)) : before;
}

/** The builds of services go on in any order, and the first that fails ends the deployment. */
function fromBuildingServices(world: World, before: Observed): Observed {
  const digests: Record<string, string> = {};
  for (const [name, { task }] of world.builds) {
    const build = taskState('build', task);
    const of = ({ code, message }: Failure): Failure => ({ code, message: `Service ${name}: ${message}` });
    if (build.outcome === 'failed') return fail(world, before, of(told(build.error)));
    if (build.isExhausted) return fail(world, before, of(lost(build.attempt)));
    if (build.outcome === 'succeeded') digests[name] = build.result.image_digest;
  }
  if (Object.keys(digests).length < world.builds.size)
    return world.expired ? fail(world, before, tooLate(world)) : before;
  const [main] = world.deployment.desired.services ?? [];
  return defined({
    ...before,
    phase: 'deploying' as const,
    built_at: world.now,
    image: main?.image,
    image_digest: main?.image_digest ?? digests[main?.name ?? ''],
    service_digests: digests,
  });
}

function lost(attempts: number): OwnFailure {
  const message = `The server lost the build ${attempts} times: see the log of its agent, then deploy again`;
  return { code: 'build_lost', message };
}

const lateBuild: OwnFailure = {
  code: 'build_timeout',
  message:
    'The build did not end in time: see its log, and ask the operator for a longer --build-deadline-seconds if it needs one',
};

const lateTurn: OwnFailure = {
  code: 'build_timeout',
  message: 'The build did not begin in time, as its server had others before it: deploy again',
};

function tooLate(world: World): Failure {
  return late(world, isBeingBuilt(world) ? lateBuild : lateTurn);
}

/** The failure of a build as its agent reports it; of one that was late, with what to do. */
function told(error: Failure): Failure {
  return hasCode(error, 'build_timeout') ? lateBuild : error;
}

function fromDeploying(world: World, before: Observed): Observed {
  const health = healthOfAll(world.slots, servicesIn(world));
  const digest = health.instances.map((it) => upToDate(it)?.image_digest).find((it) => it !== undefined);
  const progress = Math.max(before.stable_instances ?? 0, health.stable);
  const next: Observed = defined({
    ...before,
    image_digest: before.image_digest ?? digest,
    service_digests: digestsOf(world, before),
    stable_instances: progress === 0 ? undefined : progress,
  });
  const broken = health.failures.find(({ of }) => !isOfLostImage(world, of))?.failure;
  if (hasCode(broken, 'image_not_found') && isRebuildable(world)) return rebuilding(before);
  if (broken !== undefined) return fail(world, next, broken);
  // After a success only the new revision answers. An older instance that cannot be stopped must not prevent it.
  const isDone = health.isStable && health.instances.every((it) => hasPinned(it, world.deployment.desired, next));
  if (isDone && (!world.olderLive || world.expired)) return { ...next, phase: 'succeeded', finished_at: world.now };
  const seen = health.errors[0] ?? unready(health.instances);
  if (world.isUnhealthy) return fail(world, next, late(world, seen ?? unhealthy(world)));
  if (!world.expired) return next;
  return fail(
    world,
    next,
    late(
      world,
      lackOfVolume(world) ??
        seen ?? {
          code: 'not_ready',
          message: 'Its instances did not become ready in time: their log shows what they wait for',
        },
    ),
  );
}

/** Whether an instance has the image that the deployment pinned: its tag may have moved between two pulls. */
function hasPinned(it: Assignment, { source }: Deployment['desired'], observed: Observed): boolean {
  if (source.type === 'git') return true; // its image has no tag that moves
  const pinned = source.type === 'compose' ? observed.service_digests?.[it.desired.service] : observed.image_digest;
  const { image_digest: digest, phase } = upToDate(it) ?? {};
  // an agent that was restarted asks for no image of a process that has come to its end
  return pinned === undefined || digest === pinned || (digest === undefined && phase === 'succeeded');
}

/** The services of the deployment, as many instances of each as its application wants. */
export function servicesIn({ application, deployment }: Pick<World, 'application' | 'deployment'>): Service[] {
  return servicesOf(application ?? noReplicas, deployment);
}

/** What an application that is gone wants. */
export const noReplicas = { desired: { replicas: 0 } };

/** The digests of the images of its services, each as it was first found. */
function digestsOf({ deployment, slots }: World, before: Observed): Observed['service_digests'] {
  if (deployment.desired.services === undefined) return undefined;
  const found = slots.flatMap((it): [string, string][] => {
    const digest = upToDate(it)?.image_digest;
    return digest === undefined ? [] : [[it.desired.service, digest]];
  });
  const digests = { ...Object.fromEntries(found), ...before.service_digests };
  return Object.keys(digests).length === 0 ? undefined : digests;
}

/** What the agent sees of an instance that is not ready. */
function unready(instances: readonly Assignment[]): Failure | undefined {
  const message = awaitedOf(instances);
  return message === undefined ? undefined : { code: 'unhealthy', message };
}

function unhealthy({ application }: World): OwnFailure {
  const { healthyDeadline, minHealthySeconds } = releaseOf(application?.desired ?? {});
  const message =
    `An instance was not ready for ${minHealthySeconds} s within ${healthyDeadline} s of its start: its log shows what ` +
    'it waits for. If it needs longer, set a higher healthy_deadline';
  return { code: 'not_ready', message };
}

/** No instance is made before the volumes that it mounts are the copies that they are to begin as. */
function lackOfVolume({ mounted }: World): OwnFailure | undefined {
  const lacking = uncopied(mounted);
  if (lacking === undefined) return undefined;
  const message = `Volume ${lacking.name} was not copied in time: ${lacking.why}. Then deploy again`;
  return { code: 'volume_not_copied', message };
}

/** Whether the image that it was to reuse can be built again, and was not yet. */
function isRebuildable({ deployment }: World): boolean {
  const { source, reuse } = deployment.desired;
  return source.type === 'git' && reuse?.commit !== undefined && deployment.observed?.built_at === undefined;
}

function rebuilding(before: Observed): Observed {
  const { image: _, image_digest: __, ...rest } = before;
  return { ...rest, phase: 'building' };
}

/** Whether the instance still has the lost image, which was built again since: its failure does not count then. */
function isOfLostImage({ deployment: { desired, observed } }: World, { desired: { spec } }: Assignment): boolean {
  if (desired.reuse === undefined || observed?.built_at === undefined) return false;
  return spec.type === 'service' && spec.image !== observed.image;
}

/** The failure of a missed deadline: if the server is away, that is the reason. */
function late({ serverAway }: World, otherwise: Failure): Failure {
  return serverAway === undefined ? otherwise : away[serverAway];
}

function fail(world: World, before: Observed, error: Failure): Observed {
  const message = withVolumeNames(error.message, world.mounted);
  return { ...before, phase: 'failed', error: { ...error, message }, finished_at: world.now };
}

/** What a deployment waits for; `undefined` once it has ended. */
export function awaited({ phase }: Pick<Observed, 'phase'>): Because | undefined {
  switch (phase) {
    case 'queued':
      return 'its server to take it up';
    case 'building':
      return 'its image to be built';
    case 'deploying':
      return 'its instances to be ready and to stay so';
    default:
      return undefined;
  }
}
