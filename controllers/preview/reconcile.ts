import { repositoryOf } from '../../store/kinds/application.ts';
import { areBuildsUsedUp } from '../../store/build-minutes.ts';
import { cloneLack } from '../../store/clone-lack.ts';
import { copiedKinds } from '../../store/copying.ts';
import { createDeployment } from '../../store/new-deployment.ts';
import type { TenantView } from '../../store/mirror.ts';
import { credentialsOf, isForRepository } from '../../store/source-credentials.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { branchCondition } from '../polling/look.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { deploymentId, environmentId, isOfBranch, stateOf, stepOf } from './states.ts';
import type { Preview, State, Step, World } from './states.ts';

/** What there is no room for now, such as a build, is asked for again after that time. */
const lackPauseMs = 600_000;

export interface PreviewSettings {
  /** What a build under way counts as. */
  buildDeadlineMs: number;
}

/**
 * Makes the environment of a preview as a clone, has its applications built of the branch, deploys them once, and removes
 * the environment at the end. Later pushes are deployed by autodeploy, as those of every branch; those of a fork are not.
 */
export function previewController({ buildDeadlineMs }: PreviewSettings): Controller<'preview'> {
  return {
    name: 'preview',
    kind: 'preview',
    reads: ['project', 'environment', ...copiedKinds, 'deployment', 'server', 'settings', 'git_credential', 'registry'],
    children: ['preview', 'environment', 'application', 'deployment'],
    notifies: ['preview_awaits_approval', 'preview_ended', 'preview_failed', 'preview_removed'],
    wakes: [
      onChild('environment', ({ meta }, view) => [
        ...previewsOf(view.list('preview'), meta.id),
        ...view.by('preview', 'source', meta.id).map((it) => it.meta.id),
      ]),
      onChange(
        'application',
        ({ meta, desired, observed }) => [
          meta.deletionRequestedAt,
          desired,
          observed?.conditions.find(({ type }) => type === branchCondition)?.reason,
        ],
        ({ desired }, view) => previewsOf(view.list('preview'), desired.environment_id),
      ),
      onChange(
        'function',
        ({ desired }) => [desired.name, desired.version_id],
        ({ desired }, view) => previewsOf(view.list('preview'), desired.environment_id),
      ),
      onChange(
        'deployment',
        ({ observed }) => observed?.phase,
        ({ desired }, view) => previewsOf(view.list('preview'), desired.environment_id),
      ),
      onChange(
        'server',
        ({ meta, desired }) => [meta.deletionRequestedAt, desired.ingress, desired.allowed_projects],
        everyPreview,
      ),
      onChange('git_credential', ({ desired }) => desired.allowed_projects, everyPreview),
      onChange('registry', ({ desired }) => desired.allowed_projects, everyPreview),
    ],
    async reconcile(it, ctx) {
      const world = readWorld(it, ctx, buildDeadlineMs);
      const step = stepOf(world);
      await perform(world, step, ctx);
      const state = stateOf(world);
      await announce(world, state, ctx);
      return { observed: state.observed, conditions: [state.ready], next: nextOf(world, step, state) };
    },
    async finalize(it, ctx) {
      const world = readWorld(it, ctx, buildDeadlineMs);
      const { environment } = world;
      await announceEnd(world, ctx);
      if (environment !== undefined) await ctx.retire('environment', environment.meta.id);
      const { observed, ready } = stateOf(world);
      const next: Next =
        environment === undefined
          ? { settled: true }
          : { waitingFor: [{ kind: 'environment', id: environment.meta.id }], because: 'its environment to be gone' };
      return { observed, conditions: [ready], next, released: environment === undefined };
    },
  };
}

function everyPreview(_: ReadonlyResource, view: TenantView): string[] {
  return view.list('preview').map(({ meta }) => meta.id);
}

function previewsOf(all: readonly Preview[], environment: string): string[] {
  return all.filter(({ meta }) => environmentId(meta.id) === environment).map(({ meta }) => meta.id);
}

function readWorld(it: Preview, { view, clock }: Context, buildDeadlineMs: number): World {
  const { project_id: project, source_environment_id: source, name } = it.desired;
  const id = environmentId(it.meta.id);
  const of = { project: view.get('project', project), source: view.get('environment', source) };
  return {
    preview: it,
    ...of,
    environment: view.get('environment', id),
    namesake: view
      .by('environment', 'project', project)
      .find(({ meta, desired }) => meta.id !== id && desired.name === name),
    apps: view.by('application', 'environment', id),
    functions: view.by('function', 'environment', id),
    deployment: (of) => view.get('deployment', of),
    server: (of) => view.get('server', of),
    credentials: ({ desired }) => credentialsOf(view, desired, desired.source),
    lack: () =>
      of.project === undefined || of.source === undefined ? undefined : cloneLack(view, of.project, of.source),
    areBuildsUsedUp: () => areBuildsUsedUp(view, project, clock.now().getTime(), buildDeadlineMs),
  };
}

async function perform(world: World, step: Step, ctx: Context): Promise<void> {
  const { preview, project, source } = world;
  switch (step.do) {
    case 'wait':
      return;
    case 'end':
      if (isStaying(project)) {
        ctx.event(project, {
          type: 'warning',
          reason: 'PreviewRemoved',
          about: preview.meta.id,
          message: step.message,
        });
        const notification = { type: 'preview_removed', severity: 'warning', title: 'Preview removed' } as const;
        await ctx.notify(project, `${preview.meta.id}/removed`, { ...notification, message: step.message });
      }
      await ctx.retire('preview', preview.meta.id);
      return;
    case 'create':
      await ctx.transact(
        (unit) => {
          if (project === undefined || source === undefined) throw new Error('A step that needs both was planned');
          unit.require(preview);
          unit.require(project);
          unit.require(source);
          unit.create(
            'environment',
            environmentId(preview.meta.id),
            {
              project_id: preview.desired.project_id,
              name: preview.desired.name,
              type: 'preview',
              git_branch: preview.desired.branch.slice(0, 200),
              clone_of: { environment_id: source.meta.id, server_map: {}, complete: false },
            },
            { owners: [{ kind: 'preview', id: preview.meta.id, blocks: true }] },
          );
        },
        { audited: 'controller preview' },
      );
      return;
    case 'deploy':
      for (const app of step.apps) await deploy(world, app, ctx);
  }
}

/** Points an application at the branch and deploys it, once for each commit of a fork that was approved. */
async function deploy(
  { preview, server, credentials }: World,
  app: ReadonlyResource<'application'>,
  ctx: Context,
): Promise<void> {
  const { branch, fork_url: fork, approved_commit: commit, requested_by, approved_by } = preview.desired;
  const isOf = isOfBranch(app, preview);
  const on = server(app.desired.server_id);
  const by = fork === undefined ? requested_by : (approved_by ?? requested_by);
  await ctx.transact(
    (unit) => {
      unit.require(preview);
      if (on !== undefined) unit.require(on);
      for (const { it } of credentials(app)) unit.require(it);
      const pointed = unit.change(app, (draft) => {
        draft.unpublished = true;
        const of = repositoryOf(draft.source);
        if (!isOf || of === undefined) return;
        of.branch = branch;
        if (fork !== undefined) {
          of.repository_url = fork;
          const credential = ctx.view.get('git_credential', of.git_credential_id ?? '');
          // a fork may be read by another protocol or at another host, where the credential is not sent
          if (credential !== undefined && !isForRepository(credential, fork)) delete of.git_credential_id;
        }
        // what a fork has later is built only after another approval
        draft.autodeploy = fork === undefined;
      });
      createDeployment(unit, pointed, deploymentId(preview, app), {
        trigger: by === undefined ? 'webhook' : 'manual',
        triggeredBy: by,
        ...(isOf && fork !== undefined && { commit }),
        queued_at: ctx.clock.now().toISOString(),
      });
    },
    { audited: 'controller preview' },
  );
}

/** Tells the users of the project what needs one of them. */
async function announce({ preview }: World, { observed, ready }: State, ctx: Context): Promise<void> {
  const { phase } = observed;
  if (preview.observed?.phase === phase) return;
  const { name, commit = '' } = preview.desired;
  const isTrouble = phase === 'failed' || phase === 'awaiting_approval';
  ctx.event(preview, { type: isTrouble ? 'warning' : 'normal', reason: ready.reason, message: ready.message });
  if (phase === 'awaiting_approval')
    await ctx.notify(preview, `${preview.meta.id}/approval/${commit}`, {
      type: 'preview_awaits_approval',
      severity: 'info',
      title: `Preview ${name} waits for an approval`,
      message: ready.message,
    });
  if (phase === 'failed')
    await ctx.notify(preview, `${preview.meta.id}/failed/${preview.meta.observedRevision ?? 0}`, {
      type: 'preview_failed',
      severity: 'warning',
      title: `Preview ${name} cannot be brought up whole`,
      message: ready.message,
    });
}

/** Tells the users of the project that the time of the preview was over, once. */
async function announceEnd({ preview, project }: World, ctx: Context): Promise<void> {
  const { meta, desired, observed } = preview;
  const isOver = Date.parse(meta.deletionRequestedAt ?? '') >= Date.parse(desired.expires_at);
  if (!isOver || observed?.phase === 'deleting' || !isStaying(project)) return;
  const message = `Preview ${desired.name} of branch ${desired.branch} is removed with all that is in it, as its time was over`;
  const notification = { type: 'preview_ended', severity: 'info', title: `Preview ${desired.name} ended` } as const;
  await ctx.notify(project, `${meta.id}/ended`, { ...notification, message });
}

function nextOf(
  { environment, namesake, preview }: World,
  step: Step,
  { ready, unfinished }: State,
): Verdict<'preview'>['next'] {
  if (step.do !== 'wait') return { again: 0, because: 'the rest of it to be made' };
  switch (ready.reason) {
    case 'Creating':
      return environment === undefined
        ? { settled: true }
        : { waitingFor: [{ kind: 'environment', id: environment.meta.id }], because: 'its environment to be copied' };
    case 'NameTaken':
      return {
        waitingFor: namesake === undefined ? [] : [{ kind: 'environment', id: namesake.meta.id }],
        because: `environment ${preview.desired.name} to be renamed or deleted`,
      };
    case 'NoRoom':
    case 'ServerNotUsable':
      if (environment !== undefined) return { settled: true };
      return { again: lackPauseMs, because: 'the project and its servers to have room for a copy' };
    case 'BuildsUsedUp':
      return { again: lackPauseMs, because: 'builds of the project to be possible again' };
    case 'Deploying':
      return {
        waitingFor: unfinished.flatMap(({ desired: { deployment_id: id } }) =>
          id === undefined ? [] : [{ kind: 'deployment' as const, id }],
        ),
        because: 'its applications to be deployed',
      };
    default:
      return { settled: true };
  }
}
