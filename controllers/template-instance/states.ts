import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { defined } from '../../store/defined.ts';
import { maxDrift } from '../../store/kinds/template-instance.ts';
import type { Drift as ShownDrift, InstanceChild, InstanceChildKind } from '../../store/kinds/template-instance.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Progress } from '../../store/instance-progress.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';

export type Instance = ReadonlyResource<'template_instance'>;
export type Child = DeepReadonly<InstanceChild>;

/** Why a child cannot be made or changed now. */
export interface Lack {
  reason:
    | 'NameTaken'
    | 'VolumeInUse'
    | 'PortNotUsable'
    | 'ServerNotUsable'
    | 'CredentialNotUsable'
    | 'BuildsUsedUp'
    | 'NoRoom';
  message: string;
}

/** A field of a child that somebody changed by hand. */
export interface Drift extends ShownDrift {
  /** Of the leaf, within its desired state. */
  path: string;
}

/** Everything that the state of an instance follows from. */
export interface World {
  instance: Instance;
  /** How far a child is. */
  progress: (child: Child) => Progress;
  /** What is in the way of a child that is to be made or changed. */
  lack: (child: Child) => Lack | undefined;
  /** What has the place of a child that is to be made, and goes before. */
  former: (child: Child) => ReadonlyResource<InstanceChildKind> | undefined;
  /** What is there of former revisions, and is not declared any more. */
  obsolete: readonly ReadonlyResource<InstanceChildKind>[];
  /** Whether others than the instance use an object of it. */
  isUsed: (it: ReadonlyResource<InstanceChildKind>) => boolean;
  /** Fields of children that are there which somebody changed by hand. */
  drift: readonly Drift[];
}

/** The children that are to be made or changed now: those of the first wave with any, once all before are up. Pure. */
export function dueOf(world: World): Child[] {
  const { children } = world.instance.desired;
  const waiting = children.filter((it) => isDue(world.progress(it)));
  const wave = Math.min(...waiting.map((it) => it.wave));
  const isOpen = children.every((it) => it.wave >= wave || world.progress(it).state === 'up');
  return isOpen ? waiting.filter((it) => it.wave === wave) : [];
}

function isDue({ state }: Progress): boolean {
  return state === 'waiting' || state === 'outdated';
}

/** The children that are due and can be made or changed. Pure. */
export function possibleOf(world: World): Child[] {
  return dueOf(world).filter((it) => !isReplacing(world, it) && world.lack(it) === undefined);
}

/** Whether something else has to be deleted before a child is made. */
function isReplacing(world: World, child: Child): boolean {
  return world.progress(child).state === 'waiting' && world.former(child) !== undefined;
}

/** What is to be deleted now. Pure. */
export function retiredOf(world: World): ReadonlyResource<InstanceChildKind>[] {
  return outdatedOf(world).filter((it) => !isLeft(world, it));
}

/** What would be deleted now, but others use it: it stays, and belongs to no instance. Pure. */
export function leftOf(world: World): ReadonlyResource<InstanceChildKind>[] {
  return outdatedOf(world).filter((it) => isLeft(world, it));
}

function isLeft({ isUsed }: World, it: ReadonlyResource<InstanceChildKind>): boolean {
  return isStaying(it) && isUsed(it);
}

/**
 * What is to go now: what has the place of a child that is due, and once all children are up what is not declared any more,
 * by kind, so that what uses something goes before it.
 */
function outdatedOf(world: World): ReadonlyResource<InstanceChildKind>[] {
  const inTheWay = dueOf(world).flatMap((it) => (isReplacing(world, it) ? (world.former(it) ?? []) : []));
  const isUp = world.instance.desired.children.every((it) => world.progress(it).state === 'up');
  if (!isUp) return inTheWay;
  const kind = (['function', 'application', 'database', 'volume'] as const).find((one) =>
    world.obsolete.some(({ meta }) => meta.kind === one),
  );
  return world.obsolete.filter(({ meta }) => meta.kind === kind);
}

export interface State {
  observed: ObservedOf<'template_instance'>;
  ready: ConditionInput;
  /** Children that it waits for. */
  pending: readonly Child[];
  /** Something is in the way that may go away without a change of its children. */
  isLacking: boolean;
}

/**
 * What is shown of an instance. `made`: children that were made since the view was read. `uncorrected`: why what was changed by
 * hand is not changed back. Pure.
 */
export function stateOf(world: World, made: readonly Child[] = [], uncorrected?: Lack): State {
  const { instance } = world;
  const { children } = instance.desired;
  const due = dueOf(world);
  const all = children.map((child) => ({ child, ...stepOf(world, child, { made, due }) }));
  const there = all
    .filter(({ child }) => made.includes(child) || world.progress(child).state !== 'waiting')
    .map(({ child }) => child.id);
  const isUp = all.every(({ state }) => state === 'up') && world.obsolete.length === 0;
  const { revision = 1 } = instance.desired;
  const reached = isUp ? revision : completedRevision(instance);
  const lack =
    due
      .filter((it) => !made.includes(it) && !isReplacing(world, it))
      .map((child) => world.lack(child))
      .find((it) => it !== undefined) ?? uncorrected;
  const { phase, reason, message } = phaseOf(world, all, { completed: reached === revision, lack });
  const ids = new Set(children.map(({ id }) => id));
  return {
    observed: {
      phase,
      made: [...new Set([...(instance.observed?.made ?? []), ...there])].filter((id) => ids.has(id)),
      ...defined({
        completed: reached > 0 ? (true as const) : undefined,
        completed_revision: reached > 1 ? reached : undefined,
        applied: appliedOf(instance, made),
        drift: world.drift.length === 0 ? undefined : world.drift.slice(0, maxDrift).map(shownDrift),
      }),
    },
    ready: { type: 'Ready', status: phase === 'running' ? 'true' : 'false', reason, message },
    pending: all.filter(({ state }) => state === 'starting').map(({ child }) => child),
    isLacking: lack !== undefined,
  };
}

function shownDrift({ id, field, declared, live }: Drift): ShownDrift {
  return { id, field, declared, live };
}

/** The newest revision of which all was up; 0: there was none. */
function completedRevision({ observed }: Instance): number {
  return observed?.completed_revision ?? (observed?.completed === true ? 1 : 0);
}

/** The revisions of children after these were made and changed. */
function appliedOf({ desired, observed }: Instance, made: readonly Child[]): Record<string, number> | undefined {
  const applied: Record<string, number> = {};
  for (const child of desired.children) {
    const { id, revision = 1 } = child;
    const reached = made.includes(child) ? revision : (observed?.applied?.[id] ?? 1);
    if (reached > 1) applied[id] = reached;
  }
  return Object.keys(applied).length === 0 ? undefined : applied;
}

type Step = Progress & { child: Child };

function stepOf(
  world: World,
  child: Child,
  { made, due }: { made: readonly Child[]; due: readonly Child[] },
): Progress {
  const progress = world.progress(child);
  if (!isDue(progress)) return progress;
  if (made.includes(child)) return { state: 'starting', message: 'It is being brought up' };
  const isReplaced = due.includes(child) && isReplacing(world, child);
  return isReplaced ? { state: 'starting', message: 'The one that it replaces is deleted first' } : progress;
}

type Found = Pick<ConditionInput, 'reason' | 'message'> & { phase: ObservedOf<'template_instance'>['phase'] };

function phaseOf(
  { instance, obsolete }: World,
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
  if (up.length === all.length && obsolete.length > 0)
    return {
      phase: 'deploying',
      reason: 'Deploying',
      message: `All of it is up, and ${obsolete.length} that it does not declare any more are being deleted`,
    };
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
