import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { defined } from '../../store/defined.ts';
import type { InstanceChild } from '../../store/kinds/template-instance.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Progress } from '../../store/instance-progress.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';

export type Instance = ReadonlyResource<'template_instance'>;
export type Child = DeepReadonly<InstanceChild>;

/** Why a child cannot be made now. */
export interface Lack {
  reason: 'NameTaken' | 'PortNotUsable' | 'ServerNotUsable' | 'CredentialNotUsable' | 'BuildsUsedUp' | 'NoRoom';
  message: string;
}

/** Everything that the state of an instance follows from. */
export interface World {
  instance: Instance;
  /** How far a child is. */
  progress: (child: Child) => Progress;
  /** What is in the way of a child that is to be made. */
  lack: (child: Child) => Lack | undefined;
}

/** The children that are to be made now: those of the first wave that is not made, once all before are up. Pure. */
export function dueOf(world: World): Child[] {
  const { children } = world.instance.desired;
  const waiting = children.filter((it) => world.progress(it).state === 'waiting');
  const wave = Math.min(...waiting.map((it) => it.wave));
  const isOpen = children.every((it) => it.wave >= wave || world.progress(it).state === 'up');
  return isOpen ? waiting.filter((it) => it.wave === wave) : [];
}

/** The children that are due and can be made. Pure. */
export function possibleOf(world: World): Child[] {
  return dueOf(world).filter((it) => world.lack(it) === undefined);
}

export interface State {
  observed: ObservedOf<'template_instance'>;
  ready: ConditionInput;
  /** Children that it waits for. */
  pending: readonly Child[];
  /** Something is in the way that may go away without a change of its children. */
  isLacking: boolean;
}

/** What is shown of an instance. `made`: children that were made since the view was read. Pure. */
export function stateOf(world: World, made: readonly Child[] = []): State {
  const { instance } = world;
  const { children } = instance.desired;
  const all = children.map((child) => ({ child, ...stepOf(world, child, made) }));
  const there = all.filter(({ state }) => state !== 'waiting').map(({ child }) => child.id);
  const isUp = all.every(({ state }) => state === 'up');
  const completed = isUp || instance.observed?.completed === true;
  const lack = dueOf(world)
    .filter((it) => !made.includes(it))
    .map((child) => world.lack(child))
    .find((it) => it !== undefined);
  const { phase, reason, message } = phaseOf(instance, all, { completed, lack });
  return {
    observed: {
      phase,
      made: [...new Set([...(instance.observed?.made ?? []), ...there])],
      ...defined({ completed: completed ? (true as const) : undefined }),
    },
    ready: { type: 'Ready', status: phase === 'running' ? 'true' : 'false', reason, message },
    pending: all.filter(({ state }) => state === 'starting').map(({ child }) => child),
    isLacking: lack !== undefined,
  };
}

type Step = Progress & { child: Child };

function stepOf(world: World, child: Child, made: readonly Child[]): Progress {
  const progress = world.progress(child);
  return progress.state === 'waiting' && made.includes(child)
    ? { state: 'starting', message: 'It is being brought up' }
    : progress;
}

type Found = Pick<ConditionInput, 'reason' | 'message'> & { phase: ObservedOf<'template_instance'>['phase'] };

function phaseOf(
  instance: Instance,
  all: readonly Step[],
  { completed, lack }: { completed: boolean; lack: Lack | undefined },
): Found {
  if (!isStaying(instance))
    return { phase: 'deleting', reason: 'Deleting', message: 'What it made is being removed, the last first' };
  const trouble = completed ? 'degraded' : 'failed';
  const inState = (state: Progress['state']): readonly Step[] => all.filter((it) => it.state === state);
  const [failed, gone, stopped] = [inState('failed'), inState('gone'), inState('stopped')];
  if (failed.length > 0) return { phase: trouble, reason: 'ChildFailed', message: inWords(failed) };
  if (gone.length > 0) return { phase: trouble, reason: 'ChildGone', message: inWords(gone) };
  if (lack !== undefined) return { phase: trouble, ...lack };
  if (stopped.length > 0) return { phase: 'degraded', reason: 'ChildStopped', message: inWords(stopped) };
  const up = inState('up');
  if (up.length === all.length) return { phase: 'running', reason: 'Ready', message: 'All of it is up' };
  const waves = Math.max(...all.map(({ child }) => child.wave)) + 1;
  const wave = Math.min(...all.filter(({ state }) => state !== 'up').map(({ child }) => child.wave)) + 1;
  const message = `${up.length} of ${all.length} are up, wave ${wave} of ${waves} is being made`;
  return { phase: 'deploying', reason: 'Deploying', message };
}

/** Most children that a message names. */
const mostNamed = 5;

function inWords(steps: readonly Step[]): string {
  const named = steps.slice(0, mostNamed).map(({ child, message }) => `${child.kind} ${child.key}: ${message}`);
  const more = steps.length - named.length;
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '');
}
