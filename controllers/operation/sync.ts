import { repositoryOf } from '../../store/kinds/application.ts';
import { answerOf } from '../../agent-protocol/answer.ts';
import { GitHead } from '../../agent-protocol/messages.ts';
import { areBuildsUsedUp } from '../../store/build-minutes.ts';
import { createDeployment } from '../../store/new-deployment.ts';
import { forkPreviewOf } from '../../store/preview.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { credentialsOf } from '../../store/source-credentials.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { commitOf, decide } from './decide.ts';
import { refuseForeign } from './refuse-foreign.ts';
import { OperationFailure, type Operation, type Run, type RunTools } from './run.ts';
import { isWatched } from './watch-paths.ts';

/** Namespace of the ids of deployments that follow from a comparison (UUIDv5). */
const namespace = 'b1f6b1c4-4f7e-4c39-8a0b-3d0a5b0f9e21';

interface Comparison {
  up_to_date: boolean;
  current_commit: string | null;
  latest_commit: string;
  branch: string;
  changed_files: readonly string[];
  changed_files_known: boolean;
  matched: boolean;
}

/**
 * Compares the head of the branch with the commit that serves: whether it differs, in which files, and whether one of
 * them is watched. If the files are not all known, they count as watched. Deploys exactly that commit if it is asked to
 * and nothing stands in the way. The id of the deployment follows from the operation, so that a repetition after a
 * crash finds it.
 */
export const sync: Run = async (it, tools) => {
  const { ctx } = tools;
  const app =
    it.desired.application_id === undefined ? undefined : ctx.view.get('application', it.desired.application_id);
  if (!isStaying(app)) throw new OperationFailure('not_found', 'Its application was deleted');
  const id = uuidv5(namespace, it.meta.id);
  const made = ctx.view.get('deployment', id);
  if (made !== undefined) return { ...resume(app, made), ...deployed(made) };
  // no agent of it comes back, so that none is waited for
  if (!isStaying(ctx.view.get('server', app.desired.server_id)))
    throw new OperationFailure('not_found', 'The server of the application was deleted: create it anew on another one');
  const compared = await compare(app, tools);
  const server = ctx.view.get('server', app.desired.server_id);
  const found = decide(
    {
      app,
      deployments: ctx.view.by('deployment', 'application', app.meta.id),
      server,
      credentials: credentialsOf(ctx.view, app.desired, app.desired.source),
      fork: forkPreviewOf(ctx.view, app.desired.environment_id, app.desired.source),
      latest: compared.latest_commit,
      matched: compared.matched,
      upToDate: compared.up_to_date,
      areBuildsUsedUp: areBuildsUsedUp(
        ctx.view,
        app.desired.project_id,
        ctx.clock.now().getTime(),
        tools.buildDeadlineMs,
      ),
    },
    it.desired.trigger !== undefined,
  );
  if (found.decision !== 'would_deploy' || it.desired.deploy !== true || server === undefined)
    return { ...compared, ...found, deployment_id: null };
  return { ...compared, ...deployed(await deploy(it, app, server, id, compared.latest_commit, tools)) };
};

async function compare(app: ReadonlyResource<'application'>, tools: RunTools): Promise<Comparison> {
  const { agents, ctx, signal, timeoutMs } = tools;
  const source = repositoryOf(app.desired.source);
  if (source === undefined)
    throw new OperationFailure('invalid_source', 'Only a source in a git repository can be compared');
  refuseForeign(app, source.git_credential_id, tools);
  const current = currentOf(app, tools);
  const answer = await agents.call(
    ctx.tenant,
    app.desired.server_id,
    {
      method: 'git.head',
      repository_url: source.repository_url,
      branch: source.branch,
      ...(source.git_credential_id !== undefined && { git_credential_id: source.git_credential_id }),
      ...(current !== null && { since: current }),
    },
    { timeoutMs, signal },
  );
  const { commit: latest, changed_files, truncated = false } = answerOf(GitHead, answer);
  const up_to_date = current === latest;
  const files = up_to_date ? [] : (changed_files ?? []);
  const known = up_to_date || (changed_files !== undefined && !truncated);
  return {
    up_to_date,
    current_commit: current,
    latest_commit: latest,
    branch: source.branch,
    changed_files: files,
    changed_files_known: known,
    matched: !up_to_date && (!known || isWatched(app.desired.watch_paths ?? '', files).watched),
  };
}

/** The commit that serves; its deployment knows it before the controller of the application has reacted. */
function currentOf(app: ReadonlyResource<'application'>, { ctx }: Pick<RunTools, 'ctx'>): string | null {
  const serving = servingDeployment(ctx.view, app.meta.id);
  return (serving === undefined ? app.observed?.current_commit : commitOf(serving)) ?? null;
}

async function deploy(
  it: Operation,
  app: ReadonlyResource<'application'>,
  server: ReadonlyResource<'server'>,
  id: string,
  commit: string,
  { ctx }: RunTools,
): Promise<Pick<ReadonlyResource<'deployment'>, 'meta' | 'desired'>> {
  const made: Pick<ReadonlyResource<'deployment'>, 'meta' | 'desired'>[] = [];
  await ctx.transact(
    (unit) => {
      unit.require(server);
      const { meta, desired } = createDeployment(unit, app, id, {
        trigger: it.desired.trigger ?? 'webhook',
        triggeredBy: it.desired.requested_by,
        commit,
        queued_at: ctx.clock.now().toISOString(),
      });
      made.push({ meta, desired });
    },
    { audited: 'controller autodeploy' },
  );
  const [deployment] = made;
  if (deployment === undefined) throw new Error('The transaction made no deployment');
  return deployment;
}

/** What is known of a comparison whose deployment was made before a crash. */
function resume(app: ReadonlyResource<'application'>, { desired }: ReadonlyResource<'deployment'>): Comparison {
  return {
    up_to_date: false,
    current_commit: app.observed?.current_commit ?? null,
    latest_commit: desired.commit ?? '',
    branch: repositoryOf(desired.source)?.branch ?? '',
    changed_files: [],
    changed_files_known: false,
    matched: true,
  };
}

function deployed({ meta, desired }: Pick<ReadonlyResource<'deployment'>, 'meta' | 'desired'>) {
  const { number, commit = '' } = desired;
  const reason = `Deployment ${number} brings commit ${commit.slice(0, 12)}`;
  return { decision: 'deployed', reason, deployment_id: meta.id } as const;
}
