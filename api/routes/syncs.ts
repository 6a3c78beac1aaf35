import { defined } from '../../store/defined.ts';
import type { z } from 'zod';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { maxSyncForce, maxSyncVariables, syncInterval } from '../../store/kinds/sync.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { sourceOf } from '../../store/sync-source.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { keyOf } from '../auth/principal.ts';
import { createServiceKey, hashServiceKey } from '../auth/service-key.ts';
import { placeOfSecret } from '../declared/sync-variables.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { assign, readOnlyFields } from '../resources/object-fields.ts';
import {
  appliedCommits,
  presentCommit,
  runsOf,
  Sync,
  SyncCreate,
  SyncNow,
  SyncRollback,
  SyncRuns,
  syncs,
  SyncUpdate,
} from '../resources/sync.ts';
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
      git_credential_id: body.git_credential_id ?? undefined,
    });
    requireGitAccess(view, unit, { projectId: project.meta.id, next: source });
    const it = unit.create(
      'sync',
      id,
      {
        ...source,
        ...followedFrom(body),
        project_id: project.meta.id,
        name: body.name,
        path: body.path ?? '.',
        reader_id: server.meta.id,
        usual_environment_id: environment.meta.id,
        interval_seconds: body.interval_seconds ?? syncInterval.usual,
        prune: body.prune ?? true,
        drift: body.drift ?? 'warn',
        is_paused: body.is_paused ?? false,
        ...valuesFrom(ctx, id, body, {}),
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

type Followed = Pick<DesiredOf<'sync'>, 'branch' | 'tag_pattern'>;

/** The branch or the pattern that is followed: one that is given takes the place of the other. @throws ApiError BAD_REQUEST for both or none */
function followedFrom(
  { branch, tag_pattern: pattern }: Pick<z.infer<typeof SyncUpdate>, 'branch' | 'tag_pattern'>,
  before: Followed = {},
): Followed {
  const [isBranch, isPattern] = [typeof branch === 'string', typeof pattern === 'string'];
  if (isBranch && isPattern)
    throw badField('tag_pattern', 'invalid', 'A sync follows a branch or tags: give branch or tag_pattern, not both');
  const after = {
    branch: isPattern ? undefined : branch === undefined ? before.branch : (branch ?? undefined),
    tag_pattern: isBranch ? undefined : pattern === undefined ? before.tag_pattern : (pattern ?? undefined),
  };
  if (after.branch === undefined && after.tag_pattern === undefined)
    throw badField('branch', 'required', 'A sync follows a branch or tags: give branch or tag_pattern');
  return defined(after);
}

type Values = Pick<DesiredOf<'sync'>, 'variables' | 'secrets'>;

/** The variables and the sealed secrets that a body leads to. @throws ApiError BAD_REQUEST for a name of both, or too many */
function valuesFrom(
  { sealer, tenant }: Pick<RequestContext, 'sealer' | 'tenant'>,
  id: string,
  body: Pick<z.infer<typeof SyncCreate>, 'variables' | 'secrets'>,
  before: DeepReadonly<Values>,
): Values {
  const variables = { ...(body.variables ?? before.variables) };
  const secrets = Object.fromEntries(Object.entries(before.secrets ?? {}).map(([name, it]) => [name, { ...it }]));
  for (const [name, text] of Object.entries(body.secrets ?? {})) {
    const old = secrets[name];
    if (text === null) delete secrets[name];
    else {
      const sealed = sealer.seal(text, placeOfSecret(tenant, id, name));
      // the same text keeps its ciphertext, so that nothing changes
      if (old === undefined || !sealer.isSame(tenant, old, sealed)) secrets[name] = sealed;
    }
  }
  const twice = Object.keys(variables).find((name) => Object.hasOwn(secrets, name));
  if (twice !== undefined)
    throw badField('variables', 'taken', `${twice} is a secret: it cannot be a variable as well`);
  if (Object.keys(secrets).length > maxSyncVariables)
    throw badField('secrets', 'limit', `A sync has at most ${maxSyncVariables} secrets: remove one (null)`);
  const ofSome = <T extends object>(it: T): T | undefined => (Object.keys(it).length === 0 ? undefined : it);
  return defined({ variables: ofSome(variables), secrets: ofSome(secrets) });
}

/** Fields that decide what is done with whose rights: who changes one of them is whom the sync acts for. */
const decisive = [
  'repository_url',
  'branch',
  'tag_pattern',
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
    if (typeof body.pinned_commit === 'string' && body.pinned_commit !== it.desired.pinned_commit)
      throw badField(
        'pinned_commit',
        'invalid',
        `Only null releases it: roll back by POST /syncs/${it.meta.id}/rollback`,
      );
    const unit = ctx.repo.begin();
    if (body.server_id !== undefined && body.server_id !== it.desired.reader_id)
      unit.require(usableServer(view, body.server_id, 'server_id', projectId));
    const environment =
      body.environment_id === undefined ? undefined : usualEnvironment(view, body.environment_id, project);
    if (environment !== undefined) unit.require(environment);
    const followed = followedFrom(body, it.desired);
    const wanted = {
      ...body,
      branch: followed.branch ?? null,
      tag_pattern: followed.tag_pattern ?? null,
      ...defined({ environment_id: environment?.meta.id }),
    };
    const before = syncs.answerOf(it, view);
    const values = valuesFrom(ctx, it.meta.id, body, it.desired);
    const { variables, secrets } = it.desired;
    const isOther =
      !jsonEqual(values, defined({ variables, secrets })) ||
      decisive.some((field) => wanted[field] !== undefined && wanted[field] !== before[field]);
    const key =
      isOther || body.take_over === true ? replaceKey(ctx, unit, it, body.name ?? it.desired.name) : undefined;
    const changed = unit.change(it, (draft) => {
      const { name, repository_url, path, interval_seconds, prune, drift, is_paused } = body;
      Object.assign(draft, defined({ name, repository_url, path, interval_seconds, prune, drift, is_paused }));
      delete draft.branch;
      delete draft.tag_pattern;
      Object.assign(draft, followed);
      draft.reader_id = body.server_id ?? draft.reader_id;
      assign(draft, 'git_credential_id', body.git_credential_id);
      assign(draft, 'usual_environment_id', environment?.meta.id);
      delete draft.variables;
      delete draft.secrets;
      Object.assign(draft, values);
      const isElsewhere = sourceOf(draft) !== sourceOf(it.desired);
      if (body.pinned_commit === null || isElsewhere) delete draft.pinned_commit;
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
  summary:
    'Read the repository and apply the head of the branch, or the newest tag, now, with the steps that are to be forced',
  on: ['sync', 'id'],
  heavy: true,
  body: SyncNow,
  response: Sync,
  settle: syncs.settle,
  handle: async (ctx, { it, body: { force = [], ...seen } }) => {
    requireSeen(it, seen);
    const commit = it.observed?.commit_wanted;
    if (force.length > 0) requirePlan(it);
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.request = { at: ctx.clock.now().toISOString(), force: forcedBy(it, force), ...defined({ commit }) };
    });
    return ctx.commit(unit, () => syncs.answerOf(changed, ctx.view));
  },
});

/** What is forced, with what was before of the same commit and is not done: not all that is needed is listed at once. */
function forcedBy({ desired: { request }, observed }: ReadonlyResource<'sync'>, force: readonly string[]): string[] {
  const isOpen =
    force.length > 0 &&
    request?.commit !== undefined &&
    request.commit === observed?.commit_wanted &&
    request.at !== observed.applied_request;
  return [...new Set([...force, ...(isOpen ? request.force : [])])].slice(0, maxSyncForce);
}

/** @throws ApiError CONFLICT if the sync is not as the caller has seen it */
function requireSeen(
  { meta, observed }: ReadonlyResource<'sync'>,
  { commit, generation }: Pick<z.infer<typeof SyncNow>, 'commit' | 'generation'>,
): void {
  const wanted = observed?.commit_wanted;
  if (commit !== undefined && wanted?.startsWith(commit) !== true)
    throw conflicting(
      `The commit that is wanted is not ${commit.slice(0, 12)} but ${wanted?.slice(0, 12) ?? 'not known yet'}: look at what it needs, and ask for that`,
    );
  if (generation !== undefined && generation !== meta.generation)
    throw conflicting(
      `The sync was changed or asked for meanwhile: its generation is ${meta.generation}, not ${generation}. Look at what it needs now, and ask for that`,
    );
}

/** @throws ApiError CONFLICT unless the wanted commit was planned with the present settings, so that it is known what is forced */
function requirePlan({ meta, observed }: ReadonlyResource<'sync'>): void {
  const { commit_wanted: wanted, planned } = observed ?? {};
  if (wanted === undefined)
    throw conflicting('Nothing can be forced, as no commit is known yet: ask for a sync without force');
  if (planned?.commit !== wanted || planned.generation !== meta.generation)
    throw conflicting(
      `Nothing can be forced yet, as commit ${wanted.slice(0, 12)} was not planned since the sync was changed or asked for: wait until needs_force lists what is to be forced`,
    );
}

export const rollbackSync = defineEndpoint({
  method: 'POST',
  path: '/syncs/:id/rollback',
  summary: 'Apply a commit that was applied before, and stay with it until the sync is released',
  on: ['sync', 'id'],
  heavy: true,
  body: SyncRollback,
  response: Sync,
  settle: syncs.settle,
  handle: async (ctx, { it, body }) => {
    const commit = commitBefore(it, body.commit);
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.pinned_commit = commit;
      draft.request = { at: ctx.clock.now().toISOString(), force: [] };
    });
    return ctx.commit(unit, () => syncs.answerOf(changed, ctx.view));
  },
});

/** The commit that is rolled back to. @throws ApiError CONFLICT for one that is not recorded as applied */
function commitBefore(it: ReadonlyResource<'sync'>, named: string | undefined): string {
  const applied = appliedCommits(it);
  const known = applied.length === 0 ? 'none' : applied.map((one) => one.slice(0, 12)).join(', ');
  if (named === undefined) {
    const present = presentCommit(it);
    // after one that is not recorded comes the newest
    const before = applied[present === undefined ? 0 : applied.indexOf(present) + 1];
    if (before === undefined) throw conflicting('There is nothing to roll back to: no commit was applied before');
    return before;
  }
  const found = applied.filter((one) => one.startsWith(named));
  const [commit] = found;
  if (commit === undefined)
    throw conflicting(
      `Cannot roll back to ${named}, as it is not among the commits of its repository, branch and path that the last runs applied: ${known}`,
    );
  if (found.length > 1) throw conflicting(`Several commits begin with ${named}: ${found.join(', ')}. Name one of them`);
  return commit;
}

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
