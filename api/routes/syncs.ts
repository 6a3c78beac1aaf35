import { defined } from '../../store/defined.ts';
import { syncInterval } from '../../store/kinds/sync.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { keyOf } from '../auth/principal.ts';
import { createServiceKey, hashServiceKey } from '../auth/service-key.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { conflicting } from '../ground/api-error.ts';
import { assign, readOnlyFields } from '../resources/object-fields.ts';
import { runsOf, Sync, SyncCreate, SyncNow, SyncRuns, syncs, SyncUpdate } from '../resources/sync.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { referred, referredEnvironment, serverFor, usableServer } from '../workloads/references.ts';
import { requireGitAccess } from '../workloads/source-access.ts';
import { deleteEndpoint, eventsEndpoint, getEndpoint, listEndpoint } from './resource-endpoints.ts';

export const listSyncs = listEndpoint(syncs, { path: '/syncs', summary: 'Syncs that one may see' });

export const getSync = getEndpoint(syncs, {
  path: '/syncs/:id',
  summary: 'A sync: the commit that is wanted, the one that is applied, and what differs or is waited for',
});

export const createSync = defineEndpoint({
  method: 'POST',
  path: '/syncs',
  summary: 'Keep what a project has as the files of a repository declare it, with the rights that one has there',
  projectFrom: 'body.project_id',
  body: SyncCreate,
  response: Sync,
  status: 201,
  settle: syncs.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const project = referred(view, 'project', body.project_id, 'project_id');
    const server = serverFor(view, project, body.server_id);
    const environment = usualEnvironment(view, body.environment_id ?? null, project);
    requireRoom(view.by('sync', 'project', project.meta.id).length, countLimits.syncsPerProject, {
      where: 'The project',
      what: 'syncs',
      remedy: 'delete one that is not needed',
    });
    const unit = ctx.repo.begin();
    unit.require(project);
    unit.require(server);
    unit.require(environment);
    const id = ctx.random.id();
    const source = defined({
      repository_url: body.repository_url,
      branch: body.branch,
      git_credential_id: body.git_credential_id ?? undefined,
    });
    requireGitAccess(view, unit, { projectId: project.meta.id, next: source });
    const it = unit.create(
      'sync',
      id,
      {
        ...source,
        project_id: project.meta.id,
        name: body.name,
        path: body.path ?? '.',
        reader_id: server.meta.id,
        usual_environment_id: environment.meta.id,
        interval_seconds: body.interval_seconds ?? syncInterval.usual,
        prune: body.prune ?? true,
        drift: body.drift ?? 'warn',
        is_paused: body.is_paused ?? false,
        key_id: addKey(ctx, unit, { sync: id, project: project.meta.id, name: body.name }),
        requested_by: ctx.principal.user.meta.id,
      },
      defined({ labels: body.labels }),
    );
    return ctx.commit(unit, () => syncs.answerOf(it, view));
  },
});

/** The environment that is named, or the default one of now: another default later moves nothing. @throws ApiError */
function usualEnvironment(
  view: TenantView,
  id: string | null,
  project: ReadonlyResource<'project'>,
): ReadonlyResource<'environment'> {
  return referredEnvironment(view, id ?? project.desired.default_environment_id, project);
}

/** Fields that decide what is done with whose rights: who changes one of them is whom the sync acts for. */
const decisive = [
  'repository_url',
  'branch',
  'path',
  'git_credential_id',
  'server_id',
  'environment_id',
  'prune',
  'drift',
] as const;

export const updateSync = defineEndpoint({
  method: 'PUT',
  path: '/syncs/:id',
  summary: 'Change a sync; who changes what is applied is whom it acts for from then on',
  on: ['sync', 'id'],
  body: SyncUpdate,
  readOnly: readOnlyFields(Sync, SyncUpdate),
  response: Sync,
  settle: syncs.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const { project_id: projectId } = it.desired;
    const project = referred(view, 'project', projectId, 'project_id');
    const unit = ctx.repo.begin();
    if (body.server_id !== undefined && body.server_id !== it.desired.reader_id)
      unit.require(usableServer(view, body.server_id, 'server_id', projectId));
    const environment =
      body.environment_id === undefined ? undefined : usualEnvironment(view, body.environment_id, project);
    if (environment !== undefined) unit.require(environment);
    const wanted = { ...body, ...defined({ environment_id: environment?.meta.id }) };
    const before = syncs.answerOf(it, view);
    const isOther = decisive.some((field) => wanted[field] !== undefined && wanted[field] !== before[field]);
    const key =
      isOther || body.take_over === true ? replaceKey(ctx, unit, it, body.name ?? it.desired.name) : undefined;
    const changed = unit.change(it, (draft) => {
      const { name, repository_url, branch, path, interval_seconds, prune, drift, is_paused } = body;
      Object.assign(draft, defined({ name, repository_url, branch, path, interval_seconds, prune, drift, is_paused }));
      draft.reader_id = body.server_id ?? draft.reader_id;
      assign(draft, 'git_credential_id', body.git_credential_id);
      assign(draft, 'usual_environment_id', environment?.meta.id);
      // what was to be forced before a pause is asked for anew after it
      if (body.is_paused === true && draft.request !== undefined) draft.request.force = [];
      if (key === undefined) return;
      draft.key_id = key;
      draft.requested_by = ctx.principal.user.meta.id;
      draft.request = { at: ctx.clock.now().toISOString(), force: [] };
    });
    requireGitAccess(view, unit, { projectId, next: changed.desired, before: it.desired });
    if (body.labels !== undefined) unit.label(it, body.labels);
    return ctx.commit(unit, () => syncs.answerOf(changed, view));
  },
});

export const deleteSync = deleteEndpoint(syncs, {
  path: '/syncs/:id',
  summary: 'Delete a sync; what it made stays',
});

export const runSync = defineEndpoint({
  method: 'POST',
  path: '/syncs/:id/sync',
  summary: 'Read the branch and apply its head now, with the steps that are to be forced',
  on: ['sync', 'id'],
  heavy: true,
  body: SyncNow,
  response: Sync,
  settle: syncs.settle,
  handle: async (ctx, { it, body: { force = [] } }) => {
    const commit = it.observed?.commit_wanted;
    if (force.length > 0 && commit === undefined)
      throw conflicting('Nothing can be forced, as no commit of the branch is known yet: ask for a sync without force');
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.request = { at: ctx.clock.now().toISOString(), force: [...force], ...defined({ commit }) };
    });
    return ctx.commit(unit, () => syncs.answerOf(changed, ctx.view));
  },
});

export const listSyncRuns = defineEndpoint({
  method: 'GET',
  path: '/syncs/:id/runs',
  summary: 'The last 20 commits of a sync with their plans and what became of them, newest first',
  on: ['sync', 'id'],
  response: SyncRuns,
  handle: async (_ctx, { it }) => runsOf(it),
});

export const listSyncEvents = eventsEndpoint(syncs, {
  path: '/syncs/:id/events',
  summary: 'What happened to a sync, newest first',
});

/**
 * Makes the service key that a sync acts with: it has the rights of the caller, in that project alone, and goes with the
 * sync. Its text is forgotten at once. @throws ApiError CONFLICT for a user with too many keys
 */
function addKey(
  ctx: RequestContext,
  unit: Unit,
  { sync, project, name }: { sync: string; project: string; name: string },
): string {
  const { principal, view, random } = ctx;
  requireRoom(view.by('service_key', 'user', principal.user.meta.id).length, countLimits.serviceKeysPerUser, {
    where: 'The user',
    what: 'service keys',
    remedy: 'revoke one that is not used: a sync has one, too',
  });
  const parent = keyOf(principal);
  unit.require(principal.user);
  if (parent !== undefined) unit.require(parent);
  const text = createServiceKey(random);
  const key = unit.create(
    'service_key',
    random.id(),
    {
      user_id: principal.user.meta.id,
      name: `Sync ${name}`.slice(0, 100),
      prefix: text.slice(0, 10),
      hash: hashServiceKey(text),
      scopes: ['write'],
      project_id: project,
      ...defined({ expires_at: parent?.desired.expires_at, parent_id: parent?.meta.id }),
    },
    { owners: [{ kind: 'sync', id: sync, blocks: true }] },
  );
  return key.meta.id;
}

/** As `addKey`, in place of the one that the sync has. */
function replaceKey(ctx: RequestContext, unit: Unit, it: ReadonlyResource<'sync'>, name: string): string {
  const before = ctx.view.get('service_key', it.desired.key_id);
  if (before !== undefined) unit.requestDelete(before);
  return addKey(ctx, unit, { sync: it.meta.id, project: it.desired.project_id, name });
}
