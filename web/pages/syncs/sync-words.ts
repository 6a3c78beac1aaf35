import type { components } from '../../api-types.d.ts';
import type { ObjectOf } from '../../model.ts';
import type { Look } from '../../parts/status-words.ts';
import type { Values } from '../../parts/schema-form.tsx';
import { actionLooks } from '../plan/plan-words.ts';

export type Sync = ObjectOf<'sync'>;
export type SyncRun = components['schemas']['SyncRuns'][number];
export type RunStep = SyncRun['steps'][number];

/** What a sync follows, in words. */
export function followedBy({ branch, tag_pattern: pattern }: Pick<Sync, 'branch' | 'tag_pattern'>): string {
  return branch ?? `tags ${pattern ?? ''}`;
}

/** A form after a change of it: a branch that is entered empties the tags, and tags empty the branch. */
export function withOneFollowed(before: Values, next: Values): Values {
  const isEntered = (name: string): boolean => Boolean(next[name]) && next[name] !== before[name];
  if (isEntered('tag_pattern')) return { ...next, branch: null };
  if (isEntered('branch')) return { ...next, tag_pattern: null };
  return next;
}

/** How an outcome of a commit is shown. */
export const outcomeLooks: Readonly<Record<SyncRun['outcome'], Look>> = {
  applied: { word: 'Applied', shape: 'good' },
  unchanged: { word: 'Nothing to change', shape: 'idle' },
  partly: { word: 'Partly applied', shape: 'warn' },
  waiting: { word: 'Waits for a person', shape: 'warn' },
  failed: { word: 'Failed', shape: 'bad' },
};

/** What a step does; one of a newer server is shown as it is named. */
export function actionLookOf(action: string): { word: string; tone?: 'good' | 'busy' | 'warn' | 'bad' } {
  const known: Readonly<Record<string, { word: string; tone?: 'good' | 'busy' | 'warn' | 'bad' }>> = actionLooks;
  return known[action] ?? { word: action };
}

/** What differs now, each key with its step where the plan of the wanted commit has named it. */
export function differences(
  { commit_wanted: wanted, status, differs, needs_force: needed }: Sync,
  runs: readonly SyncRun[],
): readonly { readonly key: string; readonly step: RunStep | undefined; readonly needsForce: boolean }[] {
  const [newest] = runs;
  // what somebody has changed since is not in the plan that was applied
  const isOfThis = status === 'waiting' && newest?.commit === wanted;
  const steps = new Map((isOfThis ? newest.steps : []).map((step) => [step.key, step]));
  return [...new Set([...needed, ...differs])].map((key) => ({
    key,
    step: steps.get(key),
    needsForce: needed.includes(key),
  }));
}

/** Of each commit that was applied as a whole, of what is read now, and is not the present one, its newest run. */
export function formerCommits(
  { commit_applied: applied, commit_wanted: wanted }: Pick<Sync, 'commit_applied' | 'commit_wanted'>,
  runs: readonly SyncRun[],
): readonly SyncRun[] {
  const present = applied ?? wanted;
  const whole = runs.filter(
    ({ commit, outcome, is_of_present_source: isOfIt }) =>
      isOfIt && commit !== present && ['applied', 'unchanged'].includes(outcome),
  );
  return whole.filter(({ commit }, at) => whole.findIndex((one) => one.commit === commit) === at);
}

/** Kinds of objects that have data, as keys begin with them. */
const withData: Readonly<Record<string, string>> = { 'volumes.': 'volume', 'databases.': 'database' };

/** Whether forcing a step may lose data, as its plan says; of a step that is not known it is taken to. */
export function losesData(key: string, step: RunStep | undefined): boolean {
  if (step === undefined) return true;
  if (step.loses_data !== null) return step.loses_data;
  const hasData = Object.keys(withData).some((prefix) => key.startsWith(prefix));
  if (hasData) return step.action === 'delete' || step.action === 'replace';
  // an instance has volumes and databases of its own
  return key.startsWith('template_instances.') && step.action !== 'create';
}

/** What is lost when a step is forced, in words. */
export function lossOf(key: string, step: RunStep | undefined): string {
  if (step === undefined) return `What is there as ${key}, and differs from the commit`;
  const { action, fields } = step;
  const kind = Object.entries(withData).find(([prefix]) => key.startsWith(prefix))?.[1];
  if (kind !== undefined && action === 'delete') return `${key}: the ${kind} with its data`;
  if (kind !== undefined && action === 'replace') return `${key}: the data of the present ${kind}, which is replaced`;
  if (action === 'delete') return `${key}, which the commit does not declare`;
  if (fields.length === 0) return `What others have set of ${key}`;
  return `What others have set of ${key}: ${fields.join(', ')}`;
}

const providers = ['github', 'gitlab', 'gitea', 'bitbucket'] as const;

/** The provider of a webhook for a repository, as far as the name of its host says it. */
export function providerOf(repository: string): (typeof providers)[number] | 'generic' {
  const host = /^(?:[a-z+]+:\/\/)?(?:[^@/]*@)?([^:/]+)/i.exec(repository)?.[1]?.toLowerCase() ?? '';
  return providers.find((one) => host.split('.').includes(one)) ?? 'generic';
}
