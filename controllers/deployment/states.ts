import { defined } from '../../store/defined.ts';
import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { DeploymentPhase } from '../../store/kinds/application.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Because } from '../runtime/controller.ts';
import { hasCode } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import { uncopied, withVolumeNames } from '../rollout/mounted.ts';
import { healthOf } from '../rollout/health.ts';
import type { Assignment } from '../rollout/slots.ts';
import { taskState } from '../task/task.ts';
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
  /** Service instances of this deployment. */
  slots: readonly Assignment[];
  /** The volumes that its application mounts. */
  mounted: readonly ReadonlyResource<'volume'>[];
  /** An instance of another deployment may still be answering. */
  olderLive: boolean;
  /** Its deadline for the present phase has passed. */
  expired: boolean;
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
  const { deployment } = world;
  const before: Observed = deployment.observed ?? { phase: 'queued' };
  if (hasDeploymentEnded(before.phase)) return before;
  const end = ending(world);
  if (end !== undefined) return { ...before, phase: end, finished_at: world.now };
  if (world.serverGone) return fail(world, before, gone);
  const wrong = faultIn(deployment.desired.config);
  if (wrong !== undefined) return fail(world, before, wrong);
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
  if (reuse !== undefined) return { ...before, ...reuse, phase: 'deploying', started_at: world.now };
  if (source.type === 'image') return { ...before, phase: 'deploying', image: source.image_url, started_at: world.now };
  const { outcome } = taskState('build', world.build);
  if (outcome !== 'absent' && outcome !== 'waiting') return { ...before, phase: 'building', started_at: world.now };
  return world.expired ? fail(world, before, away[world.serverAway ?? 'offline']) : before;
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
  const build = taskState('build', world.build);
  const spec = world.build?.desired.spec;
  if (build.outcome === 'succeeded' && spec?.type === 'build') {
    const { reuse } = world.deployment.desired;
    if (reuse?.commit !== undefined && build.result.commit !== reuse.commit) return fail(world, before, otherCommit);
    return defined({ ...before, phase: 'deploying' as const, built_at: world.now, image: spec.image, ...build.result });
  }
  if (build.outcome === 'failed') return fail(world, { ...before, ...defined(build.known ?? {}) }, build.error);
  if (build.isExhausted)
    return fail(world, before, {
      code: 'build_lost',
      message: `The server lost the build ${build.attempt} times: see the log of its agent, then deploy again`,
    });
  if (world.expired)
    return fail(
      world,
      before,
      late(world, {
        code: 'build_timeout',
        message:
          'The build did not end in time: see its log, and ask the operator for a longer --build-deadline-seconds if it needs one',
      }),
    );
  return before;
}

function fromDeploying(world: World, before: Observed): Observed {
  const { replicas } = world.application?.desired ?? { replicas: 0 };
  const health = healthOf(world.slots, world.deployment.meta.id, replicas);
  const digest = health.instances.map((it) => upToDate(it)?.image_digest).find((it) => it !== undefined);
  const next: Observed = defined({ ...before, image_digest: before.image_digest ?? digest });
  const broken = health.failures.find(({ of }) => !isOfLostImage(world, of))?.failure;
  if (hasCode(broken, 'image_not_found') && isRebuildable(world)) return rebuilding(before);
  if (broken !== undefined) return fail(world, next, broken);
  // After a success only the new revision answers. An older instance that cannot be stopped must not prevent it.
  if (health.isStable && (!world.olderLive || world.expired))
    return { ...next, phase: 'succeeded', finished_at: world.now };
  if (!world.expired) return next;
  return fail(
    world,
    next,
    late(
      world,
      lackOfVolume(world) ??
        health.errors[0] ?? {
          code: 'not_ready',
          message: 'Its instances did not become ready in time: their log shows what they wait for',
        },
    ),
  );
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
      return 'its instances to be ready and to stay so for 10 s';
    default:
      return undefined;
  }
}
