import { defined } from '../../store/defined.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import type { CommitPlan, CommitStep } from '../../store/declared/commit.ts';
import { textKeyOf } from '../../store/declared/text-key.ts';
import { pinnedTo, withPin } from '../../store/pinned-sync.ts';
import { maxMessageChars, maxRunSteps, maxStepFields, maxSyncKeys, maxSyncRuns } from '../../store/kinds/sync.ts';
import type { SyncRun } from '../../store/kinds/sync.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';

export type Sync = ReadonlyResource<'sync'>;
export type Observed = ObservedOf<'sync'>;
type Before = DeepReadonly<Observed> | undefined;

/** A commit as it was read. */
export interface Read {
  commit: string;
  message: string;
  /** By which it was found. */
  tag?: string | undefined;
}

/** What was seen before, and is not what leads to the present commit. */
export interface Replaced {
  commit: string;
  tag?: string | undefined;
}

/** What a plan leads to. */
export type Decision =
  /** What is there is as it is declared, and known to be of this commit. */
  | { does: 'nothing' }
  /** It differs, and nobody asked for a change. */
  | { does: 'tell' }
  /** A person has to force these steps first. */
  | { does: 'wait'; keys: string[] }
  | { does: 'apply'; force: string[] };

/** Whether a person asks for the commit to be applied. */
function isAsked({ desired, observed }: Sync): boolean {
  return desired.request !== undefined && desired.request.at !== observed?.handled_request;
}

/**
 * What is done with a plan. Pure. A commit is applied once; what differs later was changed by somebody, and is changed back
 * where that was asked for. Steps that lose data, or overwrite what others declare, are done only if a person names them, of
 * the commit that the person has seen.
 */
export function decide(sync: Sync, commit: string, plan: CommitPlan): Decision {
  const { desired, observed } = sync;
  // objects record the commit that declares them, also one that changes nothing else of them
  const isToRecord = observed?.commit_applied !== commit || isAsked(sync);
  if (!plan.changes && !isToRecord) return { does: 'nothing' };
  if (!isToRecord && desired.drift === 'warn') return { does: 'tell' };
  // a commit that came since is another plan
  const named = isAsked(sync) && desired.request?.commit === commit ? desired.request.force : [];
  const forced = plan.steps.flatMap(({ key }) => [key, textKeyOf(key)]).filter((key) => named.includes(key));
  const keys = plan.needs_force.filter((key) => !forced.includes(key));
  if (keys.length === 0) return { does: 'apply', force: forced };
  // not all that is needed is listed at once: what was named before of this commit gives room to the rest
  const open = desired.request?.commit === commit && desired.request.at !== observed?.applied_request;
  const rest = open ? keys.filter((key) => desired.request?.force.includes(key) !== true) : keys;
  return { does: 'wait', keys: rest.length > 0 ? rest : keys };
}

/** Keys of what a plan changes. */
export function differing({ steps }: CommitPlan): string[] {
  return changing(steps)
    .map(({ key }) => key)
    .slice(0, maxSyncKeys);
}

function changing(steps: readonly CommitStep[]): CommitStep[] {
  return steps.filter(({ action }) => action !== 'unchanged');
}

/** Why a sync has drifted, in words. */
export function changedByHand(differs: readonly string[]): string {
  const message = `Somebody has changed what the commit declares: ${inWords(differs)}. Ask for a sync to change it back, or commit the change`;
  return message.slice(0, maxMessageChars);
}

/** That what was seen before was replaced: the history of a branch, or a tag, as an event. Pure. */
export function replacement(
  { branch = '', tag, commit }: NonNullable<Observed['head']>,
  replaces: Replaced,
): { type: 'warning'; reason: string; message: string } {
  const type = 'warning';
  const [now, before] = [commit.slice(0, 12), replaces.commit.slice(0, 12)];
  if (tag === undefined)
    return {
      type,
      reason: 'HistoryRewritten',
      message: `The history of branch ${branch} was rewritten: ${now} does not follow ${before}, which was its head before`,
    };
  if (tag === replaces.tag)
    return { type, reason: 'TagMoved', message: `The tag ${tag} was moved: it is commit ${now}, and was ${before}` };
  return {
    type,
    reason: 'TagRemoved',
    message: `The tag ${replaces.tag ?? ''} of commit ${before} is gone: the newest one is ${tag} of commit ${now} now`,
  };
}

/** That no tag can be chosen, in words. `matching`: of the pattern, without a version that may be chosen. */
export function withoutTag(url: string, pattern: string, matching: number): string {
  if (matching === 0) return `Repository ${url} has no tag that matches ${pattern}: push one, or change tag_pattern`;
  return `Repository ${url} has ${matching} ${matching === 1 ? 'tag that matches' : 'tags that match'} ${pattern}, and none with a version such as 1.2.3 at its end: push one, or change tag_pattern. A pre-release counts only where the pattern has its -, as v*-rc.* has`;
}

/** What a sync waits for, in words. */
export function toBeForced(keys: readonly string[]): string {
  const message = `These steps lose data, or overwrite what others have set: ${inWords(keys)}. Ask for a sync, and name them in force`;
  return message.slice(0, maxMessageChars);
}

/** Most keys that are named in a message. */
const maxTold = 10;

function inWords(keys: readonly string[]): string {
  const more = keys.length > maxTold ? ` and ${keys.length - maxTold} more` : '';
  return `${keys.slice(0, maxTold).join(', ')}${more}`;
}

/** What became of a commit, for its record. */
export function runOf(
  { commit, message: commit_message, tag }: Read,
  outcome: SyncRun['outcome'],
  {
    at,
    source,
    plan,
    message,
  }: { at: Date; source?: string | undefined; plan?: CommitPlan; message?: string | undefined },
): SyncRun {
  const steps = changing(plan?.steps ?? []);
  return {
    commit,
    ...defined({
      commit_message: commit_message.slice(0, 200) || undefined,
      message: message?.slice(0, maxMessageChars),
      source,
      tag,
    }),
    at: at.toISOString(),
    outcome,
    steps: steps.slice(0, maxRunSteps).map(({ action, key, renamed_from, fields, loses_data }) => ({
      action,
      key,
      ...defined({ renamed_from: renamed_from ?? undefined }),
      fields: fields.slice(0, maxStepFields).map(({ field }) => field),
      loses_data: loses_data !== null,
    })),
    changes: steps.length,
  };
}

/**
 * The runs with a new one, unless it says what the newest says: a commit that still fails is no news. One that says it of
 * another plan takes the place of the newest, so that the plan that is shown is the present one. Pure.
 */
export function withRun(before: DeepReadonly<SyncRun[]> | undefined, run: SyncRun): SyncRun[] {
  const former = (before ?? []).map(copyOf);
  const [newest, ...rest] = former;
  const says = ({ commit, outcome, message }: SyncRun): string => `${commit} ${outcome} ${message ?? ''}`;
  const isElsewhere = newest?.source !== undefined && newest.source !== run.source;
  if (newest === undefined || isElsewhere || says(newest) !== says(run) || run.outcome === 'applied')
    return [run, ...former].slice(0, maxSyncRuns);
  const isOfPlan = newest.changes === run.changes && jsonEqual(newest.steps, run.steps);
  return isOfPlan ? former : [run, ...rest];
}

function copyOf({ steps, ...run }: DeepReadonly<SyncRun>): SyncRun {
  return { ...run, steps: steps.map(({ fields, ...step }) => ({ ...step, fields: [...fields] })) };
}

/** What is known so far, as the beginning of what is known now. */
export function known(before: Before): Observed {
  if (before === undefined) return { phase: 'pending', differs: [], needs_force: [], runs: [] };
  const { phase, commit_wanted, commit_applied, head, message, lack, differs, needs_force, runs } = before;
  const { handled_request, applied_request, planned } = before;
  return {
    phase,
    ...defined({ commit_wanted, commit_applied, head: head && { ...head }, message, handled_request, applied_request }),
    ...defined({ planned: planned && { ...planned }, lack }),
    differs: [...differs],
    needs_force: [...needs_force],
    runs: runs.map(copyOf),
  };
}

/** As `known`, with nothing that was in the way, and nothing that was planned. */
export function cleared(before: Before): Observed {
  const { message: _message, planned: _planned, lack: _lack, ...rest } = known(before);
  return { ...rest, differs: [], needs_force: [] };
}

/**
 * As `known`, of a commit that could not be planned for now. What was planned of another one, or with other settings, says
 * nothing of it: only a person who saw the plan may force it.
 */
export function unplanned({ meta, observed }: Sync, commit: string | undefined): Observed {
  const before = known(observed);
  const wanted = { ...before, ...defined({ commit_wanted: commit }) };
  const { planned } = before;
  const isPlanned = planned?.commit === wanted.commit_wanted && planned?.generation === meta.generation;
  return isPlanned ? wanted : { ...wanted, differs: [], needs_force: [] };
}

export function conditionsOf(
  { is_paused: isPaused, pinned_commit: pinned }: Pick<Sync['desired'], 'is_paused' | 'pinned_commit'>,
  { phase, lack, message: why = '' }: Observed,
): ConditionInput[] {
  const type = 'Ready';
  const said = (words: string): string => withPin(words, pinned);
  const message = said(why);
  if (isPaused)
    return [
      { type, status: 'false', reason: 'Paused', message: said('It is paused: its repository is not looked at') },
    ];
  switch (phase) {
    case 'in_sync':
      if (pinned !== undefined) return [{ type, status: 'true', reason: 'Pinned', message: pinnedTo(pinned) }];
      return [{ type, status: 'true', reason: 'InSync', message: 'All is as the commit declares it' }];
    case 'pending':
      return [{ type, status: 'false', reason: 'NotReadYet', message: said(why || 'Its repository was not read yet') }];
    case 'drifted':
      return [{ type, status: 'false', reason: 'Drifted', message }];
    case 'waiting':
      return [{ type, status: 'false', reason: 'Waiting', message }];
    case 'failed':
      return [{ type, status: 'false', reason: lack === 'tag' ? 'NoMatchingTag' : 'Failed', message }];
  }
}
