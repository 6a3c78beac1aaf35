import type { ServerPhase } from '../../store/kinds/server.ts';
import type { VolumePhase } from '../../store/kinds/volume.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { agentTooOld, hasCode } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';

/** What the phase of a volume follows from. */
export interface World {
  volume: ReadonlyResource<'volume'>;
  /** The volume on its server; absent before it was asked for, and once it is removed. */
  assignment: Assignment | undefined;
  /** An application or a function mounts it, or it has the data of a database. */
  isBound: boolean;
  /** `gone`: it was deleted, or is being deleted. */
  server: ServerPhase | 'gone' | undefined;
}

type Report = NonNullable<Assignment['observed']>;

export interface State {
  phase: VolumePhase;
  ready: ConditionInput['status'];
  reason: string;
  message: string;
  /** What it waits for; absent: nothing. */
  because?: Because;
}

/** The phase table. Pure. A server that is away changes no phase: nothing is known about the data meanwhile. */
export function stateOf({ volume, assignment, isBound, server }: World): State {
  const report =
    assignment && (upToDate(assignment) ?? (isCopied(volume, assignment) ? assignment.observed : undefined));
  const isAway = server === 'offline' || server === 'error';
  if (isDeleting(volume)) {
    const message = removal(report?.error);
    return { phase: 'deleting', ready: 'false', reason: 'Deleting', message, because: 'its data to be removed' };
  }
  if (server === 'gone')
    return {
      phase: 'error',
      ready: 'false',
      reason: 'ServerGone',
      message:
        'Its server was deleted. Its data stays on that machine, out of reach of Setpoint: copy what matters from there, and delete the volume',
    };
  if (hasCode(report?.error, 'data_lost') && report?.error !== undefined)
    return { phase: 'error', ready: 'false', reason: 'DataLost', message: report.error.message };
  const before = volume.observed?.phase ?? 'pending';
  if (isAway) {
    const message =
      'Its server does not answer, so the state of the volume is not known: see the conditions of the server';
    return { phase: before, ready: 'unknown', reason: 'ServerAway', message, because: 'its server to answer' };
  }
  if (report?.ready === true) return onServer(volume, isBound);
  return copying(volume, report, before) ?? unmade(report?.error, before);
}

/** Its data is on its server. */
function onServer({ desired: { database_id: database } }: World['volume'], isBound: boolean): State {
  const [user, nobody] =
    database === undefined ? ['an application or a function', 'nothing'] : ['its database', 'no database'];
  return isBound
    ? { phase: 'bound', ready: 'true', reason: 'Bound', message: `It is on its server, and ${user} mounts it` }
    : {
        phase: 'available',
        ready: 'true',
        reason: 'Available',
        message: `It is on its server, and ${nobody} mounts it`,
      };
}

/** Whether a volume that is to be a copy has all of it. From then on it is kept on its server as any other volume. */
export function isCopied({ desired, observed }: World['volume'], assignment: World['assignment']): boolean {
  if (desired.copy_from === undefined) return false;
  if (observed?.copied === true || assignment?.desired.spec.type === 'volume') return true;
  return assignment !== undefined && upToDate(assignment)?.ready === true;
}

/** How far its copy is, or what it waits for; `undefined` if it is no copy, has failed, or its server has not begun. */
function copying({ desired }: World['volume'], report: Report | undefined, before: VolumePhase): State | undefined {
  const { copy_from: from } = desired;
  if (from === undefined || report === undefined) return undefined;
  const { error, progress } = report;
  if (hasCode(error, 'copy_waits') && error !== undefined)
    return {
      phase: 'pending',
      ready: 'false',
      reason: 'CopyWaits',
      message: error.message,
      because: 'the Docker volume that it is a copy of to be written to by nothing',
    };
  if (error !== undefined || progress === undefined) return undefined;
  const { done, total } = progress;
  const share = done === undefined || total === undefined ? '' : `: ${inGiB(done)} of ${inGiB(total)} GiB`;
  return {
    // another try after a failure may fail as well: what counts the failures must not begin anew
    phase: before === 'error' ? 'error' : 'pending',
    ready: 'false',
    reason: 'Copying',
    message: `Docker volume ${from.docker_volume} is being copied${share}. Start nothing that writes to it`,
    because: 'its server to copy its data',
  };
}

function inGiB(bytes: number): string {
  return (bytes / 1024 ** 3).toFixed(2);
}

/** Conditions beside the ones that the runtime derives. */
export function conditionsOf(world: World): ConditionInput[] {
  const { ready, reason, message } = stateOf(world);
  const { assignment } = world;
  return [
    { type: 'Ready', status: ready, reason, message },
    ...agentTooOld([assignment && upToDate(assignment)?.error]),
  ];
}

/** How far the removal of its data is. */
function removal(failure: Failure | undefined): string {
  if (failure === undefined) return 'Its data is being removed from its server';
  if (hasCode(failure, 'in_use')) return 'Waits until no container mounts it';
  return `Its server cannot remove its data, and tries again: ${failure.message}`;
}

/** It is being made, its server failed to make it and tries again, or its agent knows no volumes. */
function unmade(failure: Failure | undefined, before: VolumePhase): State {
  const because = 'its server to create it';
  if (failure === undefined)
    return { phase: 'pending', ready: 'false', reason: 'Pending', message: 'Its server is creating it', because };
  const { code, message } = failure;
  if (hasCode(failure, 'agent_outdated'))
    return {
      phase: before === 'error' ? 'pending' : before,
      ready: 'unknown',
      reason: 'AgentTooOld',
      message,
      because: 'the agent of its server to be upgraded',
    };
  return { phase: 'error', ready: 'false', reason: reasonOf(code), message, because };
}

/** The reason of a failure, in the form of conditions: `no_space` is `NoSpace`. */
function reasonOf(code: string): string {
  return code.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
