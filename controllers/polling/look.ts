import { autodeployInterval, hasDeploymentEnded, repositoryOf } from '../../store/kinds/application.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { commitOf } from '../operation/decide.ts';

type App = ReadonlyResource<'application'>;
type Operation = ReadonlyResource<'operation'>;

/** Namespace of the ids of comparisons that follow from a look (UUIDv5). */
const namespace = '0c6e51c7-52d5-4f0b-9d4c-6a4f0f3a7b58';

/** How long a comparison may take that follows from a look. */
const deadlineSeconds = 30;

/** What is in the way of a head for a while, such as used up builds, is judged again after that time. */
const refusedForMs = 3_600_000;

/** The condition of an application that says whether its branch can be read. */
export const branchCondition = 'BranchFollowed';
/** Its reason where the repository can be read and has no such branch. */
export const branchGone = 'BranchNotFound';

/** Codes of failed calls that say nothing of the repository. */
export const codesOfAgents: ReadonlySet<string> = new Set([
  'away',
  'too_many',
  'too_large',
  'unsupported',
  'malformed',
  'failed',
]);

/** What a look found: the head of the branch, or the code of the failure by which it cannot be read. */
export type Found = { head: string } | { unreadable: string };

/** Milliseconds between two looks at the branch of an application; `undefined`: it is not looked at. */
export function intervalOf({ meta, desired }: App): number | undefined {
  const { autodeploy, autodeploy_interval: seconds = autodeployInterval.usual, source, run, replicas } = desired;
  const isFollowing = autodeploy && repositoryOf(source) !== undefined && seconds > 0;
  // it is to run: what is stopped is started by a person, and what was never deployed has nothing to follow
  const isToRun = run === 'running' && replicas > 0 && desired.deployment_id !== undefined;
  return isFollowing && isToRun && isStaying({ meta }) ? seconds * 1000 : undefined;
}

/** Comparisons that looks led to, the newest first. */
export function polledOf(view: TenantView, appId: string): Operation[] {
  return view
    .by('operation', 'application', appId)
    .filter(({ desired }) => desired.polled !== undefined)
    .toSorted((a, b) => (b.meta.createdRevision ?? 0) - (a.meta.createdRevision ?? 0));
}

/**
 * The comparison that a look leads to; `undefined`: nothing is new. Its id follows from what was compared before, so that
 * a repetition after a crash finds it. Pure.
 */
export function comparisonOf(
  app: App,
  found: Found,
  view: TenantView,
  now: Date,
): { id: string; desired: DesiredOf<'operation'> } | undefined {
  const [newest] = polledOf(view, app.meta.id);
  if (newest !== undefined && newest.observed?.finished_at === undefined) return undefined;
  const head = 'head' in found ? found.head : undefined;
  const isKnown = 'head' in found ? isOld(app, found.head, newest, view, now) : isToldOf(app, found.unreadable, newest);
  if (isKnown) return undefined;
  const { generation } = app.meta;
  return {
    id: uuidv5(namespace, `${app.meta.id} ${generation} ${head ?? ''} ${newest?.meta.id ?? ''}`),
    desired: {
      type: 'sync',
      project_id: app.desired.project_id,
      application_id: app.meta.id,
      server_id: app.desired.server_id,
      deploy: true,
      trigger: 'webhook',
      polled: { generation, ...(head !== undefined && { head }) },
      requested_at: now.toISOString(),
      deadline_seconds: deadlineSeconds,
    },
  };
}

/** Whether users see already that the branch cannot be read. */
function isTold(app: App): boolean {
  return app.observed?.conditions.some((it) => it.type === branchCondition && it.status === 'false') === true;
}

/** Whether what users see is why it cannot be read now, as it is wanted now. */
function isToldOf(app: App, code: string, newest: Operation | undefined): boolean {
  const { desired, observed } = newest ?? {};
  return isTold(app) && desired?.polled?.generation === app.meta.generation && observed?.error?.code === code;
}

function isOld(app: App, head: string, newest: Operation | undefined, view: TenantView, now: Date): boolean {
  if (isTold(app)) return false;
  const target = view.get('deployment', app.desired.deployment_id ?? '');
  if (target !== undefined && !hasDeploymentEnded(target.observed?.phase)) {
    const commit = commitOf(target);
    // what a person asked for is built of the head that its build finds
    return commit === undefined || commit === head;
  }
  const serving = servingDeployment(view, app.meta.id);
  if (serving !== undefined && commitOf(serving) === head) return true;
  const { desired, observed } = newest ?? {};
  if (desired?.polled?.head !== head || desired.polled.generation !== app.meta.generation) return false;
  if (observed?.phase !== 'succeeded') return false;
  const isRefused = observed.result?.['decision'] === 'refused';
  return !isRefused || now.getTime() - Date.parse(observed.finished_at ?? '') < refusedForMs;
}
