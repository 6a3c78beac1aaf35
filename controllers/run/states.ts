import { defined } from '../../store/defined.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { hasRunEnded } from '../../store/kinds/run.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { agentTooOld } from '../rollout/failures.ts';
import { uncopied } from '../rollout/mounted.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { taskState } from '../task/task.ts';

export type Run = ReadonlyResource<'run'>;

/** What the phase of a run follows from. */
export interface World {
  run: Run;
  application: ReadonlyResource<'application'> | undefined;
  deployment: ReadonlyResource<'deployment'> | undefined;
  /** The volumes that its application mounts. */
  mounted: readonly ReadonlyResource<'volume'>[];
  task: Assignment | undefined;
  /** Its server was deleted or is being deleted. */
  serverGone: boolean;
  /** Its server does not answer. */
  serverAway: boolean;
  /** The time for its present phase is over. */
  expired: boolean;
  now: string;
}

type Observed = ObservedOf<'run'>;

/** Whether its task may run: until an end was recorded, which is the only record of it. */
export function isWanted({ run, application, deployment, mounted, serverGone }: World): boolean {
  if (isCancelled(run) || hasRunEnded(run.observed?.phase) || serverGone) return false;
  return isStaying(application) && deployment !== undefined && uncopied(mounted) === undefined;
}

function isCancelled(run: Run): boolean {
  return run.desired.cancel_requested || isDeleting(run);
}

/**
 * The next observed value of a run. Pure. pending → running → succeeded, failed, cancelled or lost; an end never
 * changes. A run whose task is gone without a result is lost: it is never begun again.
 */
export function advance(world: World): Observed {
  const { run, task, now } = world;
  const before: Observed = run.observed ?? { phase: 'pending' };
  if (hasRunEnded(before.phase)) return before;
  const end = (phase: Observed['phase'], more: Omit<Partial<Observed>, 'phase'> = {}): Observed =>
    defined({ ...before, ...more, phase, finished_at: now });
  const state = taskState('run', task);
  switch (state.outcome) {
    case 'succeeded': {
      const { exit_code } = state.result;
      if (exit_code === 0) return end('succeeded', { exit_code });
      const message = `The command ended with exit code ${exit_code}: see its log`;
      return end('failed', { exit_code, error: { code: 'exited', message } });
    }
    case 'failed':
      return isCancelled(run) ? end('cancelled') : end('failed', { ...state.known, error: state.error });
    case 'lost':
      return end('lost', { error: state.error ?? lost });
    case 'absent':
      return withoutTask(world, before, end);
    default:
      if (world.serverGone) return end('lost', { error: lost });
      if (world.expired)
        return state.outcome === 'waiting' ? end('failed', { error: late }) : end('lost', { error: lost });
      if (state.outcome === 'waiting') return before;
      return { ...before, phase: 'running', started_at: before.started_at ?? now };
  }
}

function withoutTask(
  world: World,
  before: Observed,
  end: (phase: Observed['phase'], more?: Omit<Partial<Observed>, 'phase'>) => Observed,
): Observed {
  if (isCancelled(world.run) || !isStaying(world.application)) return end('cancelled');
  if (before.phase === 'running') return end('lost', { error: lost });
  if (world.serverGone) return end('failed', { error: gone });
  if (world.deployment === undefined) return end('failed', { error: noDeployment });
  return world.expired ? end('failed', { error: late }) : before;
}

const lost = {
  code: 'interrupted',
  message: 'It is not known what became of the command, as its server lost it: check what it did, then run it again',
};
const late = {
  code: 'not_started',
  message: 'The server did not begin the command in time, and it will not be begun later: run it again',
};
const gone = { code: 'server_gone', message: 'The server of the application was deleted before the command began' };
const noDeployment = {
  code: 'deployment_gone',
  message: 'The deployment was removed from the history before the command began: run it with another one',
};

export function conditionsOf(world: World, now: Observed): ConditionInput[] {
  return [ready(world, now), ...agentTooOld([world.task?.observed?.error])];
}

function ready(world: World, now: Observed): ConditionInput {
  const message = now.error?.message ?? '';
  switch (now.phase) {
    case 'succeeded':
      return { type: 'Ready', status: 'true', reason: 'Succeeded', message: 'The command ended with exit code 0' };
    case 'failed':
      return { type: 'Ready', status: 'false', reason: 'Failed', message };
    case 'lost':
      return { type: 'Ready', status: 'false', reason: 'Lost', message };
    case 'cancelled':
      return { type: 'Ready', status: 'false', reason: 'Cancelled', message: 'The command was cancelled' };
    case 'pending':
    case 'running':
  }
  if (world.serverAway) {
    const why = 'Its server does not answer, so it is not known how far the command is';
    return { type: 'Ready', status: 'unknown', reason: 'ServerAway', message: why };
  }
  const running = { type: 'Ready', status: 'false' } as const;
  if (isCancelled(world.run)) return { ...running, reason: 'Cancelling', message: 'Its process is being ended' };
  return now.phase === 'running'
    ? { ...running, reason: 'Running', message: 'The command runs' }
    : { ...running, reason: 'Pending', message: 'It waits for its server' };
}

/** What a run waits for; `undefined` once it has ended. */
export function awaited({ run, mounted }: World, now: Observed): Because | undefined {
  if (hasRunEnded(now.phase)) return undefined;
  if (isCancelled(run)) return 'its process to end';
  const copying = uncopied(mounted);
  if (now.phase === 'pending' && copying !== undefined) return `volume ${copying.name} to be copied`;
  return now.phase === 'running' ? 'its command to end' : 'its server to begin it';
}
