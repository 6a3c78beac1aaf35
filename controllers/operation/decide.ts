import type { SyncDecision } from '../../store/kinds/operation.ts';
import { hasDeploymentEnded, isBuilt, repositoryOf } from '../../store/kinds/application.ts';
import { grants } from '../../store/grants.ts';
import type { SourceCredential } from '../../store/source-credentials.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Application = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;

/** What is known of an application and of the head of its branch. */
export interface Compared {
  app: Application;
  /** All that it has. */
  deployments: readonly Deployment[];
  server: ReadonlyResource<'server'> | undefined;
  /** What its source is fetched with. */
  credentials: readonly SourceCredential[];
  /** The commit at the head of the branch. */
  latest: string;
  /** It differs from what serves, in a watched file. */
  matched: boolean;
  upToDate: boolean;
  /** The preview whose fork it is built of. */
  fork?: ReadonlyResource<'preview'> | undefined;
  /** Builds have used up what the project may take in a day. */
  areBuildsUsedUp: boolean;
}

export interface Decided {
  decision: Exclude<SyncDecision, 'deployed'>;
  /** Why, for users. */
  reason: string;
}

/**
 * Whether the head of the branch is to be deployed. `would_deploy`: it is. Pure. A newer head takes the place of a
 * deployment under way. Without the request of a user (`isAutomatic`) no stopped application is started, and no commit
 * is repeated whose deployment failed or was rolled back.
 */
export function decide(it: Compared, isAutomatic: boolean): Decided {
  return (
    nothingNew(it) ??
    hindrance(it, isAutomatic) ??
    unusable(it) ?? {
      decision: 'would_deploy',
      reason: `The head of the branch, ${it.latest.slice(0, 12)}, is to be deployed`,
    }
  );
}

function nothingNew({ app, deployments, latest, ...it }: Compared): Decided | undefined {
  const active = deployments.find(({ meta }) => meta.id === app.desired.deployment_id);
  const underWay = active !== undefined && isUnderWay(active) ? active : undefined;
  if (underWay !== undefined && commitOf(underWay) === latest)
    return { decision: 'deploying', reason: `Deployment ${underWay.desired.number} of this commit is under way` };
  // A comparison had a commit deployed, which the branch has left again: it must not come to serve.
  const isWithdrawn = underWay?.desired.commit !== undefined && underWay.desired.reuse === undefined;
  if (isWithdrawn) return undefined;
  if (it.upToDate)
    return { decision: 'up_to_date', reason: `What serves is of the head of the branch, ${latest.slice(0, 12)}` };
  if (!it.matched)
    return { decision: 'not_matched', reason: 'No file that differs from what serves is one of watch_paths' };
  return undefined;
}

function hindrance({ app, deployments, latest }: Compared, isAutomatic: boolean): Decided | undefined {
  const { autodeploy, run, replicas, deployment_id } = app.desired;
  if (!autodeploy) return { decision: 'autodeploy_off', reason: 'There is a newer commit, but autodeploy is off' };
  const isStopped = run === 'stopped' || replicas === 0;
  if (isStopped && (isAutomatic || deployment_id !== undefined))
    return { decision: 'stopped', reason: 'The application is stopped, and a push starts none: start or deploy it' };
  const tried = newestOfBranch(app, deployments);
  if (!isAutomatic || tried === undefined || commitOf(tried) !== latest) return undefined;
  return {
    decision: 'already_tried',
    reason: `Deployment ${tried.desired.number} was of this commit, and another one serves: deploy it by hand, or push another commit`,
  };
}

function unusable({ app, server, credentials, fork, latest, areBuildsUsedUp }: Compared): Decided | undefined {
  if (fork !== undefined && fork.desired.approved_commit !== latest)
    return {
      decision: 'refused',
      reason: `Commit ${latest.slice(0, 12)} is of a fork, and no person has approved it: look at it, then approve it in preview ${fork.desired.name}`,
    };
  if (!isStaying(server))
    return { decision: 'refused', reason: 'The server of the application was deleted: create it anew on another one' };
  if (areBuildsUsedUp)
    return {
      decision: 'refused',
      reason:
        'Builds have used up what the project may take in 24 hours: wait, or ask a superadmin to raise build_minutes_per_day in the settings',
    };
  const used = [{ word: 'server', it: server }, ...credentials];
  const foreign = used.find(({ it }) => !grants(it, app.desired.project_id));
  if (foreign === undefined) return undefined;
  return {
    decision: 'refused',
    reason: `The ${foreign.word} is not for this project: ask an admin to add the project to allowed_projects of the ${foreign.word}`,
  };
}

function isUnderWay({ desired, observed }: Deployment): boolean {
  return !hasDeploymentEnded(observed?.phase) && !desired.cancel_requested;
}

/** The commit that a deployment is of; `undefined`: not known, or of no repository. */
export function commitOf({ desired, observed }: Deployment): string | undefined {
  return observed?.commit ?? desired.commit ?? desired.reuse?.commit;
}

/**
 * The newest deployment that was built of the branch: none that reuses an image, such as a rollback, and none that builds
 * again what served, as its image was lost.
 */
function newestOfBranch({ desired: { source } }: Application, deployments: readonly Deployment[]) {
  const now = repositoryOf(source);
  if (now === undefined) return undefined;
  return deployments
    .filter(({ desired }) => isBuilt(desired) && !(desired.trigger === 'config' && desired.commit !== undefined))
    .filter(({ desired }) => {
      const of = repositoryOf(desired.source);
      return of?.repository_url === now.repository_url && of.branch === now.branch;
    })
    .toSorted((a, b) => b.desired.number - a.desired.number)[0];
}
