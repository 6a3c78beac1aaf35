import { defined } from '../../store/defined.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { CloneLack } from '../../store/clone-lack.ts';
import { isUnfinishedClone } from '../../store/copying.ts';
import { deployLack } from '../../store/deploy-lack.ts';
import type { DeployLack } from '../../store/deploy-lack.ts';
import { hasDeploymentEnded, repositoryOf } from '../../store/kinds/application.ts';
import { isAwaitingApproval, isInlineCompose } from '../../store/preview.ts';
import { isSameRepository } from '../../store/repository-address.ts';
import type { SourceCredential } from '../../store/source-credentials.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { urlsOf } from '../../store/routed-hosts.ts';
import { branchCondition, branchGone } from '../polling/look.ts';
import { uuidv5 } from '../../store/uuid.ts';

/** Namespace of the ids of the environments and deployments of previews (UUIDv5). */
const namespace = '5f0c7d0e-3f68-4b1a-9a2f-4f8d2a6f8c11';

export type Preview = ReadonlyResource<'preview'>;
type App = ReadonlyResource<'application'>;

/** Everything that the state of a preview follows from. */
export interface World {
  preview: Preview;
  project: ReadonlyResource<'project'> | undefined;
  /** What it is a copy of. */
  source: ReadonlyResource<'environment'> | undefined;
  /** Its own environment. */
  environment: ReadonlyResource<'environment'> | undefined;
  /** Another environment of the project that has its name. */
  namesake: ReadonlyResource<'environment'> | undefined;
  /** What is in its environment. */
  apps: readonly App[];
  /** Functions in its environment: they are copied, and a person deploys them. */
  functions: readonly ReadonlyResource<'function'>[];
  deployment: (id: string) => ReadonlyResource<'deployment'> | undefined;
  server: (id: string) => ReadonlyResource<'server'> | undefined;
  /** What the source of an application is fetched with. */
  credentials: (app: App) => readonly SourceCredential[];
  /** Builds have used up what the project may take in a day. */
  areBuildsUsedUp: () => boolean;
  /** What is in the way of its environment, which is to be made. */
  lack: () => CloneLack | undefined;
}

/** What is to be done now; one at a time. */
export type Step =
  | { do: 'wait' }
  /** Its environment, what that would be a copy of, or its branch is gone. */
  | { do: 'end'; message: string }
  | { do: 'create' }
  /** These applications have the branch and were not deployed yet. */
  | { do: 'deploy'; apps: readonly App[] };

/** The next step. Pure. Before a person has approved a fork there is no environment, and so no copy of a secret. */
export function stepOf(world: World): Step {
  const { preview, project, source, environment, namesake, apps } = world;
  const isMade = preview.observed?.environment_id !== undefined;
  if (environment === undefined && isMade)
    return { do: 'end', message: `Preview ${preview.desired.name} is removed, as its environment was deleted` };
  if (environment === undefined) {
    if (!isStaying(source))
      return {
        do: 'end',
        message: `Preview ${preview.desired.name} is removed, as the environment that it copies was deleted`,
      };
    if (isAwaitingApproval(preview) || !isStaying(project) || namesake !== undefined) return { do: 'wait' };
    return world.lack() === undefined ? { do: 'create' } : { do: 'wait' };
  }
  if (!isStaying(environment) || isUnfinishedClone(environment)) return { do: 'wait' };
  if (apps.some((app) => isBranchGone(app, preview)))
    return {
      do: 'end',
      message: `Preview ${preview.desired.name} is removed, as its branch ${preview.desired.branch} was deleted`,
    };
  // an approval is of one commit: what a fork has by now waits for another one
  if (isAwaitingApproval(preview)) return { do: 'wait' };
  const undeployed = apps.filter((app) => isStaying(app) && isToDeploy(app, world));
  return undeployed.length === 0 || world.areBuildsUsedUp() ? { do: 'wait' } : { do: 'deploy', apps: undeployed };
}

/** Whether the branch of the preview, of which the application served already, was looked for and is not there. */
function isBranchGone({ desired, observed }: App, preview: Preview): boolean {
  if (observed?.current_deployment_id === undefined || preview.desired.fork_url !== undefined) return false;
  const isGone = observed.conditions.some((it) => it.type === branchCondition && it.reason === branchGone);
  const of = repositoryOf(desired.source);
  return (
    isGone &&
    of?.branch === preview.desired.branch &&
    isSameRepository(of.repository_url, preview.desired.repository_url)
  );
}

function isToDeploy(app: App, world: World): boolean {
  if (fault(app, world) !== undefined) return false;
  if (app.desired.deployment_id === undefined) return true;
  const { preview } = world;
  if (preview.desired.fork_url === undefined || isDeployed(preview) || !isOfBranch(app, preview)) return false;
  return world.deployment(deploymentId(preview, app)) === undefined;
}

/** Whether the applications of a fork were deployed by its last approval. */
function isDeployed({ desired, observed }: Preview): boolean {
  const { approved_commit: approved, approvals = 1 } = desired;
  return observed?.deployed_commit === approved && (observed?.deployed_approval ?? 1) === approvals;
}

/**
 * The id of the deployment that a preview makes of an application: for each approval another one, also of a commit that
 * was approved before, as another one may serve since.
 */
export function deploymentId({ meta, desired }: Preview, app: App): string {
  const { approved_commit: commit = '', approvals = 1 } = desired;
  return uuidv5(namespace, `${meta.id} ${app.meta.id} ${commit}${approvals > 1 ? ` ${approvals}` : ''}`);
}

/** The id of the environment of a preview. */
export function environmentId(preview: string): string {
  return uuidv5(namespace, `${preview} environment`);
}

/** Whether the application is built of the branch of the preview. */
export function isOfBranch({ desired: { source } }: App, { desired }: Preview): boolean {
  const of = repositoryOf(source);
  if (of === undefined) return false;
  const { repository_url: url, fork_url: fork } = desired;
  return isSameRepository(of.repository_url, url) || (fork !== undefined && isSameRepository(of.repository_url, fork));
}

/** Why an application cannot be deployed. */
interface Fault {
  reason: DeployLack['reason'] | 'ComposeNotPossible';
  message: string;
}

function fault(app: App, { server, credentials }: World): Fault | undefined {
  const { name, server_id, source } = app.desired;
  if (isInlineCompose(source))
    return {
      reason: 'ComposeNotPossible',
      message: `${name} has an inline compose file, which only a request deploys`,
    };
  return deployLack(app.desired, server(server_id), credentials(app));
}

export interface State {
  observed: ObservedOf<'preview'>;
  ready: ConditionInput;
  /** Applications that are not up yet. */
  unfinished: readonly App[];
}

/** What is shown of a preview. Pure. */
export function stateOf(world: World): State {
  const { preview, environment, apps } = world;
  const found = absence(world) ?? progress(world);
  const urls = apps.flatMap(({ desired }) => urlsOf(desired, world.server(desired.server_id)?.desired)).slice(0, 1000);
  const { phase, reason, message, unfinished = [] } = found;
  const observed = defined({
    phase,
    urls,
    environment_id: environment?.meta.id ?? preview.observed?.environment_id,
    ...deployed(world),
  });
  return {
    observed,
    ready: { type: 'Ready', status: phase === 'ready' ? 'true' : 'false', reason, message },
    unfinished,
  };
}

interface Found {
  phase: ObservedOf<'preview'>['phase'];
  reason: string;
  message: string;
  unfinished?: readonly App[];
}

/** Why there is nothing to see yet, or any more. */
function absence({ preview, environment, namesake, lack }: World): Found | undefined {
  if (!isStaying(preview))
    return { phase: 'deleting', reason: 'Deleting', message: 'Its environment is being removed' };
  if (isAwaitingApproval(preview)) {
    const commit = preview.desired.commit?.slice(0, 12) ?? 'which is not known';
    const message = `A fork asks for commit ${commit}: look at it, then approve it`;
    return { phase: 'awaiting_approval', reason: 'AwaitingApproval', message };
  }
  if (environment === undefined && namesake !== undefined) {
    const message = `An environment of the project is called ${preview.desired.name} already: rename or delete that`;
    return { phase: 'failed', reason: 'NameTaken', message };
  }
  const lacking = environment === undefined ? lack() : undefined;
  if (lacking !== undefined) return { phase: 'failed', ...lacking };
  const isCopied = environment !== undefined && !isUnfinishedClone(environment);
  return isCopied ? undefined : { phase: 'creating', reason: 'Creating', message: 'Its environment is being copied' };
}

function progress(world: World): Found {
  const { apps } = world;
  const faults = apps.flatMap((app) => fault(app, world) ?? []);
  const [first] = faults;
  if (first !== undefined) {
    const message = `Not all of it can be deployed: ${faults.map((one) => one.message).join(', ')}`;
    return { phase: 'failed', reason: first.reason, message };
  }
  if (apps.some((app) => isToDeploy(app, world)) && world.areBuildsUsedUp()) {
    const message = 'Builds have used up what the project may take in 24 hours: it goes on later';
    return { phase: 'failed', reason: 'BuildsUsedUp', message };
  }
  const unfinished = apps.filter((app) => !isUp(app, world) && !isFailed(app, world));
  if (unfinished.length > 0) {
    const message = `${apps.length - unfinished.length} of ${apps.length} application(s) are deployed`;
    return { phase: 'deploying', reason: 'Deploying', message, unfinished };
  }
  const failed = apps.filter((app) => isFailed(app, world)).map(({ desired }) => desired.name);
  if (failed.length === 0) return { phase: 'ready', reason: 'Ready', message: readyMessage(world) };
  const message = `These applications do not run, and their deployments show why: ${failed.join(', ')}`;
  return { phase: 'failed', reason: 'DeploymentFailed', message };
}

/** Most functions that a message names. */
const mostNamed = 5;

function readyMessage({ functions }: World): string {
  const all = 'Every application was deployed';
  const rest = functions.filter(({ desired }) => desired.version_id === undefined).map(({ desired }) => desired.name);
  if (rest.length === 0) return all;
  const more = rest.length > mostNamed ? ` and ${rest.length - mostNamed} more` : '';
  return `${all}. These functions were copied and are stopped until you deploy them: ${rest.slice(0, mostNamed).join(', ')}${more}`;
}

/** Of a fork: the commit that all its applications were deployed with, and by which approval. */
function deployed(world: World): Partial<Pick<ObservedOf<'preview'>, 'deployed_commit' | 'deployed_approval'>> {
  const { preview, environment, apps } = world;
  const areAll =
    environment !== undefined &&
    !isUnfinishedClone(environment) &&
    !isAwaitingApproval(preview) &&
    !apps.some((app) => isToDeploy(app, world) || (isOfBranch(app, preview) && fault(app, world) !== undefined));
  const { approved_commit, approvals } = preview.desired;
  if (areAll) return defined({ deployed_commit: approved_commit, deployed_approval: approvals });
  const { deployed_commit, deployed_approval } = preview.observed ?? {};
  return defined({ deployed_commit, deployed_approval });
}

function isUp(app: App, world: World): boolean {
  return targetPhase(app, world) === 'succeeded';
}

function isFailed(app: App, world: World): boolean {
  const phase = targetPhase(app, world);
  return phase !== 'succeeded' && phase !== undefined && hasDeploymentEnded(phase);
}

function targetPhase({ desired }: App, { deployment }: World) {
  return desired.deployment_id === undefined ? undefined : deployment(desired.deployment_id)?.observed?.phase;
}
