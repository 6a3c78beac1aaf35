import { repositoryOf as repositoryIn } from '../../store/kinds/application.ts';
import { defined } from '../../store/defined.ts';
import type { TenantView } from '../../store/mirror.ts';
import { composedLack, isAwaitingApproval, isUnapproved } from '../../store/preview.ts';
import { isSameRepository } from '../../store/repository-address.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { Preview, PreviewApprove, PreviewCreate, previews, PreviewUpdate } from '../resources/preview.ts';
import { readOnlyFields } from '../resources/object-fields.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { requireCloneable, requireEnvironmentRoom } from '../workloads/cloning.ts';
import { referred, referredEnvironment } from '../workloads/references.ts';
import { deleteEndpoint, eventsEndpoint, getEndpoint, listEndpoint } from './resource-endpoints.ts';

export const listPreviews = listEndpoint(previews, { path: '/previews', summary: 'Previews that one may see' });

export const getPreview = getEndpoint(previews, { path: '/previews/:id', summary: 'A preview and its addresses' });

export const createPreview = defineEndpoint({
  method: 'POST',
  path: '/previews',
  summary: 'Copy an environment for a branch, secrets included and data empty, and deploy it, for a time',
  projectFrom: 'body.project_id',
  heavy: true,
  body: PreviewCreate,
  response: Preview,
  status: 201,
  settle: previews.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    if (typeof body.from_backup === 'string')
      throw badField(
        'from_backup',
        'unsupported',
        'There are no backups of data yet: leave from_backup out, data is empty',
      );
    const project = referred(view, 'project', body.project_id, 'project_id');
    const source = referredEnvironment(view, body.environment_id ?? project.desired.default_environment_id, project);
    requireEnvironmentRoom(project, view);
    requireFreeName(view, project, body.name);
    const url = repositoryOf(view, source, body.repository_url ?? undefined);
    const isFork = typeof body.fork_url === 'string' && !isSameRepository(body.fork_url, url);
    if (isFork !== (typeof body.commit === 'string'))
      throw isFork
        ? badField('commit', 'missing', 'What a fork has may change at any time: name the commit that is to be built')
        : badField('commit', 'unsupported', 'A branch of the repository is followed: leave commit out');
    requirePreviewRoom(view, project.meta.id, isFork);
    refuseComposed(view, source);
    const unit = ctx.repo.begin();
    unit.require(project);
    unit.require(source);
    requireCloneable(view, project, source);
    const it = unit.create(
      'preview',
      ctx.random.id(),
      {
        project_id: project.meta.id,
        name: body.name,
        source_environment_id: source.meta.id,
        repository_url: url,
        branch: body.branch,
        ...defined({
          request_number: body.request_number ?? undefined,
          fork_url: isFork ? (body.fork_url ?? undefined) : undefined,
          commit: body.commit ?? undefined,
          requested_by: ctx.principal.user.meta.id,
        }),
        expires_at: new Date(ctx.clock.now().getTime() + body.ttl_seconds * 1000).toISOString(),
      },
      defined({ labels: body.labels }),
    );
    return ctx.commit(unit, () => previews.answerOf(it, view));
  },
});

/** @throws ApiError CONFLICT if the project has as many previews as it may have, or as many that wait for a first approval. */
function requirePreviewRoom(view: TenantView, project: string, isToWait: boolean): void {
  const all = view.by('preview', 'project', project);
  const count = all.filter((it) => isUnapproved(it) === isToWait).length;
  if (isToWait)
    requireRoom(count, countLimits.unapprovedPreviewsPerProject, {
      where: 'The project',
      what: 'previews of forks that wait for an approval',
      remedy: 'approve or delete one',
    });
  else
    requireRoom(count, countLimits.previewsPerProject, {
      where: 'The project',
      what: 'previews',
      remedy: 'delete one that is not needed',
    });
}

/** @throws ApiError CONFLICT with the names of applications that a preview cannot deploy */
function refuseComposed(view: TenantView, { meta }: ReadonlyResource<'environment'>): void {
  const lack = composedLack(view, meta.id);
  if (lack !== undefined)
    throw conflicting(`${lack}. Name an environment without them, or put the files into the repository (compose_path)`);
}

/** Its environment has its name. @throws ApiError CONFLICT */
function requireFreeName(view: TenantView, { meta }: ReadonlyResource<'project'>, name: string): void {
  const isTaken = view.by('environment', 'project', meta.id).some(({ desired }) => desired.name === name);
  if (!isTaken) return;
  const message = `An environment of the project is called ${name}, and that of the preview would be, too: choose another name`;
  throw conflicting(message, [{ field: 'name', reason: 'taken', message }]);
}

/** The repository whose branch is shown. @throws ApiError BAD_REQUEST */
function repositoryOf(view: TenantView, source: ReadonlyResource<'environment'>, named: string | undefined): string {
  const urls = view
    .by('application', 'environment', source.meta.id)
    .filter(isStaying)
    .flatMap(({ desired }) => repositoryIn(desired.source)?.repository_url ?? []);
  const url = named ?? urls[0];
  if (url === undefined || !urls.some((it) => isSameRepository(it, url)))
    throw badField('repository_url', 'not_found', 'No application of the environment is built of this repository');
  if (named === undefined && !urls.every((it) => isSameRepository(it, url)))
    throw badField('repository_url', 'missing', 'The environment has several repositories: name that of the branch');
  return url;
}

export const approvePreview = defineEndpoint({
  method: 'POST',
  path: '/previews/:id/approve',
  summary: 'Let a commit of a fork be built and run with the secrets of the environment',
  on: ['preview', 'id'],
  body: PreviewApprove,
  response: Preview,
  settle: previews.settle,
  handle: async (ctx, { it, body: { commit } }) => {
    if (!isAwaitingApproval(it)) throw conflicting('Nothing of the preview waits for an approval');
    if (it.desired.commit !== commit) {
      const message = `Another commit is asked for by now, ${it.desired.commit ?? 'which is not known'}: look at that one`;
      throw conflicting(message, [{ field: 'commit', reason: 'changed', message }]);
    }
    if (isUnapproved(it)) requirePreviewRoom(ctx.view, it.desired.project_id, false);
    const unit = ctx.repo.begin();
    const next = unit.change(it, (draft) => {
      draft.approvals = (draft.approvals ?? (draft.approved_commit === undefined ? 0 : 1)) + 1;
      draft.approved_commit = commit;
      draft.approved_by = ctx.principal.user.meta.id;
    });
    return ctx.commit(unit, () => previews.answerOf(next, ctx.view));
  },
});

export const updatePreview = defineEndpoint({
  method: 'PUT',
  path: '/previews/:id',
  summary: 'Change when a preview ends, or its labels',
  on: ['preview', 'id'],
  body: PreviewUpdate,
  readOnly: readOnlyFields(Preview, PreviewUpdate),
  response: Preview,
  settle: previews.settle,
  handle: async (ctx, { it, body: { ttl_seconds: life, labels } }) => {
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      if (life !== undefined) draft.expires_at = new Date(ctx.clock.now().getTime() + life * 1000).toISOString();
    });
    const next = labels === undefined ? changed : unit.label(it, labels);
    return ctx.commit(unit, () => previews.answerOf(next, ctx.view));
  },
});

export const deletePreview = deleteEndpoint(previews, {
  path: '/previews/:id',
  summary: 'Delete a preview with its environment and all that is in it',
});

export const listPreviewEvents = eventsEndpoint(previews, {
  path: '/previews/:id/events',
  summary: 'What happened to a preview, newest first',
});
