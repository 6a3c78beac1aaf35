import { defined } from '../../store/defined.ts';
import { hasVersionEnded } from '../../store/kinds/function.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Resolution } from '../../store/referable.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { agentTooOld } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import { hasBegun, taskState } from '../task/task.ts';

export type Version = ReadonlyResource<'function_version'>;

/** What the phase of a version follows from. */
export interface World {
  version: Version;
  function: ReadonlyResource<'function'> | undefined;
  build: Assignment | undefined;
  /** What its references stand for, where that is not recorded yet. */
  resolution: Resolution | undefined;
  /** Its server was deleted or is being deleted. */
  serverGone: boolean;
  /** Its server does not answer. */
  serverAway: boolean;
  /** Milliseconds until its image may be built again, which its server reports as gone; `undefined`: it does not. */
  lostIn: number | undefined;
  /** The time for its build is over. */
  expired: boolean;
  now: string;
}

type Observed = ObservedOf<'function_version'>;

/**
 * The next observed value of a version. Pure. building → ready or failed. A ready one is built again where its image is lost, and keeps
 * the name of that until it has another one.
 */
export function advance(world: World): Observed {
  const { version, resolution, now } = world;
  const known: Observed = version.observed ?? { phase: 'building' };
  if (known.phase === 'ready' && world.lostIn === 0) {
    const { finished_at: _, ...rest } = known;
    return { ...rest, phase: 'building', lost_at: now };
  }
  if (hasVersionEnded(known.phase)) return known;
  const isResolved = resolution !== undefined && 'values' in resolution;
  const before: Observed = isResolved ? { ...known, references: resolution.values } : known;
  const fail = (error: Failure): Observed => ({ ...before, phase: 'failed', error, finished_at: now });
  if (world.serverGone) return fail(gone);
  if (resolution !== undefined && !isResolved) {
    const lack = unresolved(resolution, world.expired);
    return lack === undefined ? before : fail(lack);
  }
  const { reuse } = version.desired;
  if (reuse !== undefined && before.lost_at === undefined)
    return { ...before, phase: 'ready', image: reuse.image, image_digest: reuse.image_digest, finished_at: now };
  const build = taskState('build', world.build);
  const spec = world.build?.desired.spec;
  if (build.outcome === 'succeeded' && spec?.type === 'build')
    return defined({
      ...before,
      phase: 'ready' as const,
      image: spec.image,
      image_digest: build.result.image_digest,
      finished_at: now,
    });
  if (build.outcome === 'failed') return fail(build.error);
  if (build.isExhausted) return fail(lost);
  return world.expired ? fail(tooLate(world)) : before;
}

/** Whether it is still to be built. */
export function isWanted({ version, function: of }: World, now: Observed): boolean {
  return isStaying(version) && isStaying(of) && !hasVersionEnded(now.phase);
}

/** Why a reference stands for nothing; `undefined`: it will stand for something soon. */
function unresolved(resolution: Exclude<Resolution, { values: object }>, isLate: boolean): Failure | undefined {
  const code = 'reference_unresolved';
  if ('fault' in resolution) return { code, message: `${resolution.fault}. Then deploy again` };
  const message = `It waited too long for ${resolution.comes}: see the database, then deploy again`;
  return isLate ? { code, message } : undefined;
}

const gone: Failure = {
  code: 'server_gone',
  message: 'Its server was deleted: create the function anew on another server',
};
const lost: Failure = {
  code: 'build_lost',
  message: 'The server lost the build again and again: see the log of its agent, then deploy again',
};
const late: Failure = {
  code: 'build_timeout',
  message: 'The build did not end in time: see its log, and the conditions of its server, then deploy again',
};

const lateTurn: Failure = {
  code: 'build_timeout',
  message:
    'The build did not begin in time, as its server was away or had others before it: see the conditions of the server, then deploy again',
};

function tooLate({ build }: World): Failure {
  return hasBegun(build) ? late : lateTurn;
}

export function conditionsOf(world: World, now: Observed): ConditionInput[] {
  return [ready(world, now), ...agentTooOld([world.build?.observed?.error])];
}

function ready({ serverAway, build }: World, now: Observed): ConditionInput {
  const type = 'Ready';
  switch (now.phase) {
    case 'ready':
      return { type, status: 'true', reason: 'Built', message: 'Its image is built' };
    case 'failed':
      return { type, status: 'false', reason: 'BuildFailed', message: now.error?.message ?? 'The build failed' };
    case 'building':
  }
  if (serverAway)
    return { type, status: 'unknown', reason: 'ServerAway', message: 'Its server does not answer, and builds nothing' };
  if (hasBegun(build)) return { type, status: 'false', reason: 'Building', message: 'Its image is being built' };
  const message =
    build?.observed === undefined ? 'It waits for its server' : 'Its build waits for others on its server';
  return { type, status: 'false', reason: 'Queued', message };
}
