import { z } from 'zod';
import { faultOfValue } from '../../store/kinds/variables.ts';
import { maxKeyChars } from '../../store/kinds/declarations.ts';
import { maxSyncForce, maxSyncVariables, sync, SyncDrift, syncInterval, SyncOutcome } from '../../store/kinds/sync.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { withPin } from '../../store/pinned-sync.ts';
import { sourceOf, tagOf } from '../../store/sync-source.ts';
import { syncVerbs } from '../../rules/sync.ts';
import { GitRef, RelativePath, RepositoryUrl, TagPattern } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

const nullableText = z.string().nullable();

export const Sync = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: nullableText.meta({
      description: 'Where objects are that name no environment; null: in the default one of the project',
    }),
    server_id: z.string().meta({ description: 'The server whose agent reads the repository' }),
    name: z.string(),
    repository_url: z.string(),
    branch: nullableText.meta({ description: 'null: it follows the tags of tag_pattern' }),
    tag_pattern: nullableText.meta({ description: 'The newest tag of it is applied; null: the head of branch' }),
    path: z.string(),
    git_credential_id: nullableText,
    interval_seconds: z.int(),
    prune: z.boolean(),
    drift: SyncDrift,
    is_paused: z.boolean(),
    variables: z.record(z.string(), z.string()).meta({ description: 'What stands in the files for ${vars.NAME}' }),
    secret_names: z.array(z.string()).meta({ description: 'Names of its secrets, whose values are not shown' }),
    pinned_commit: nullableText.meta({
      description:
        'The commit that it was rolled back to: it is applied in place of the head of the branch until it is released',
    }),
    requested_by: z.string().meta({ description: 'The user whose rights it has in the project' }),
    status: z.enum(syncVerbs.states).meta({
      description:
        'drifted: somebody has changed what the commit declares; waiting: a step must be forced, or something must be gone before; failed: the commit changes nothing',
    }),
    commit_wanted: nullableText.meta({
      description: 'The head of the branch, what the newest tag leads to, or the commit that it is pinned to',
    }),
    tag_wanted: nullableText.meta({ description: 'The tag of commit_wanted; null: it follows a branch' }),
    commit_applied: nullableText,
    tag_applied: nullableText.meta({ description: 'The tag of commit_applied' }),
    message: nullableText.meta({ description: 'What it waits for, or why it failed' }),
    differs: z.array(z.string()).meta({ description: 'Keys of objects that are not as the commit declares them' }),
    needs_force: z.array(z.string()).meta({ description: 'Keys of steps that POST /syncs/:id/sync has to force' }),
  })
  .meta({ id: 'Sync', description: 'Keeps what a project has as the files of a repository declare it' });
export type Sync = z.infer<typeof Sync>;

export const SyncRuns = z
  .array(
    z.object({
      commit: z.string(),
      commit_message: nullableText,
      tag: nullableText.meta({ description: 'The tag by which it was found; null: it was the head of a branch' }),
      at: z.string(),
      outcome: SyncOutcome,
      message: nullableText,
      steps: z
        .array(
          z.object({
            action: z.string(),
            key: z.string(),
            renamed_from: nullableText.meta({ description: 'Its name before; null: it kept its name' }),
            fields: z.array(z.string()),
            loses_data: z.boolean().nullable().meta({ description: 'null: an earlier release has recorded the step' }),
          }),
        )
        .meta({ description: 'The first steps of its plan that change something' }),
      changes: z.int().meta({ description: 'All steps that change something' }),
      is_of_present_source: z.boolean().meta({
        description: 'It is of the present repository, branch or pattern, and path: the sync can go back to no other',
      }),
    }),
  )
  .meta({ id: 'SyncRuns' });
export type SyncRuns = z.infer<typeof SyncRuns>;

const VariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'Must be a name of up to 64 letters, digits and _, no digit first');

/** In variables of applications, `${` would begin a reference. */
const VariableValue = z.string().superRefine((value, context) => {
  const fault =
    faultOfValue(value) ?? (value.includes('${') ? 'must not have ${, which refers to something' : undefined);
  if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
});

function atMost<T extends Record<string, unknown>>(it: T): boolean {
  return Object.keys(it).length <= maxSyncVariables;
}
const tooMany = `Must have at most ${maxSyncVariables} variables`;

const Variables = z
  .record(VariableName, VariableValue)
  .refine(atMost, tooMany)
  .meta({ description: 'What stands in the files for ${vars.NAME}, in place of those of before' });
const Secrets = z
  .record(VariableName, VariableValue.nullable())
  .refine(atMost, tooMany)
  .meta({ description: 'As variables, and never shown; null removes one, and those that are not named stay' });

const settings = {
  name: sync.desired.shape.name,
  repository_url: RepositoryUrl,
  branch: GitRef.meta({ description: 'The branch that is followed, unless tag_pattern is given' }),
  tag_pattern: TagPattern.meta({
    description:
      'In place of branch: the tag with the newest semantic version of those of this name is followed, in which * stands for any characters and ? for one, as in v1.*. Pre-releases count only where it has their - itself',
  }),
  path: RelativePath.meta({
    description: 'A file, or a folder whose YAML and JSON files are read; by default all of the repository',
  }),
  server_id: Reference.meta({ description: 'The server whose agent reads the repository' }),
  interval_seconds: z
    .int()
    .min(syncInterval.min)
    .max(syncInterval.max)
    .meta({ description: `Between two looks at the branch; by default ${syncInterval.usual}` }),
  prune: z.boolean().meta({ description: 'Delete what it made and is not declared any more; by default true' }),
  drift: SyncDrift.meta({ description: 'What becomes of changes by hand; by default warn: they are told' }),
  is_paused: z.boolean(),
  variables: Variables,
  secrets: Secrets,
};

export const SyncCreate = z.strictObject({
  ...settings,
  project_id: Reference,
  environment_id: Reference.nullish().meta({
    description: 'Where objects are that name no environment; by default in the present default one of the project',
  }),
  branch: settings.branch.nullish(),
  tag_pattern: settings.tag_pattern.nullish(),
  git_credential_id: Reference.nullish(),
  server_id: settings.server_id.nullish().meta({ description: 'By default that of the project' }),
  path: settings.path.nullish(),
  interval_seconds: settings.interval_seconds.nullish(),
  prune: settings.prune.nullish(),
  drift: settings.drift.nullish(),
  is_paused: settings.is_paused.nullish(),
  variables: settings.variables.nullish(),
  secrets: settings.secrets.nullish(),
  labels: Labels.optional(),
});

export const SyncUpdate = z
  .strictObject({
    ...settings,
    branch: settings.branch.nullable(),
    tag_pattern: settings.tag_pattern.nullable(),
    environment_id: Reference.nullable(),
    git_credential_id: Reference.nullable(),
    pinned_commit: z.string().nullable().meta({ description: 'null: the head of the branch is applied again' }),
    take_over: z.boolean().meta({ description: 'true: it acts with the rights of the caller from now on' }),
    labels: Labels,
  })
  .partial();

const CommitStart = z.string().regex(/^[0-9a-f]{7,64}$/, 'Must be the id of a commit, or its first 7 digits at least');

export const SyncNow = z.strictObject({
  force: z.array(z.string().max(maxKeyChars)).max(maxSyncForce).optional().meta({
    description:
      'Keys of steps of commit_wanted that may lose data, or overwrite what others have set, as needs_force lists them',
  }),
  commit: CommitStart.optional().meta({ description: 'Refused unless it is commit_wanted: what the caller has seen' }),
  generation: z
    .int()
    .optional()
    .meta({ description: 'Refused unless it is that of the sync, as the caller has seen it' }),
});

export const SyncRollback = z.strictObject({
  commit: CommitStart.optional().meta({
    description: 'One that it has applied and still records; by default the one before commit_applied',
  }),
});

type It = ReadonlyResource<'sync'>;

/**
 * The commits that were applied of what it reads now and are still recorded, the one first that was applied first last: one that was applied again,
 * as by a rollback, keeps its place.
 */
export function appliedCommits(it: It): string[] {
  const oldestFirst = appliedRuns(it)
    .map(({ commit }) => commit)
    .toReversed();
  return [...new Set(oldestFirst)].toReversed();
}

function appliedRuns(it: It) {
  return (it.observed?.runs ?? []).filter(
    (run) => run.outcome !== 'failed' && run.outcome !== 'waiting' && isOfPresentSource(it, run),
  );
}

/** Whether it has the files that the sync reads now. One of an earlier release is taken to. */
function isOfPresentSource({ desired }: It, { source }: { readonly source?: string | undefined }): boolean {
  return source === undefined || source === sourceOf(desired);
}

/** The commit that is there, also one that is applied in part. */
export function presentCommit(it: It): string | undefined {
  const [newest] = appliedRuns(it);
  return newest?.outcome === 'partly' ? newest.commit : (it.observed?.commit_applied ?? newest?.commit);
}

/** That it is pinned is in `pinned_commit`, and here where it is in the way of what is wrong. */
function messageOf({ desired, observed }: It): string | undefined {
  const { message, phase = 'pending' } = observed ?? {};
  const isToSay = message !== undefined || (phase !== 'in_sync' && desired.pinned_commit !== undefined);
  return isToSay ? withPin(message ?? '', desired.pinned_commit) : undefined;
}

function statusOf(it: It): Sync['status'] {
  if (isDeleting(it)) return 'deleting';
  return it.desired.is_paused ? 'paused' : (it.observed?.phase ?? 'pending');
}

export function runsOf(it: It): SyncRuns {
  return (it.observed?.runs ?? []).map(({ commit_message, message, tag, steps, source, ...run }) => ({
    ...run,
    is_of_present_source: isOfPresentSource(it, { source }),
    ...orNull({ commit_message, message, tag }),
    steps: steps.map(({ fields, loses_data, renamed_from, ...step }) => ({
      ...step,
      fields: [...fields],
      ...orNull({ loses_data, renamed_from }),
    })),
  }));
}

export const syncs = defineResource({
  kind: 'sync',
  word: 'Sync',
  project: ({ desired }) => desired.project_id,
  answer: Sync,
  show: (it): Sync => {
    const { desired, observed } = it;
    return {
      ...objectFieldsOf(it),
      project_id: desired.project_id,
      server_id: desired.reader_id,
      name: desired.name,
      repository_url: desired.repository_url,
      path: desired.path,
      interval_seconds: desired.interval_seconds,
      prune: desired.prune,
      drift: desired.drift,
      is_paused: desired.is_paused,
      variables: { ...desired.variables },
      secret_names: Object.keys(desired.secrets ?? {}).toSorted(),
      requested_by: desired.requested_by,
      status: statusOf(it),
      differs: [...(observed?.differs ?? [])],
      needs_force: [...(observed?.needs_force ?? [])],
      ...orNull({
        branch: desired.branch,
        tag_pattern: desired.tag_pattern,
        environment_id: desired.usual_environment_id,
        git_credential_id: desired.git_credential_id,
        pinned_commit: desired.pinned_commit,
        commit_wanted: observed?.commit_wanted,
        tag_wanted: tagOf(it, observed?.commit_wanted),
        commit_applied: observed?.commit_applied,
        tag_applied: tagOf(it, observed?.commit_applied),
        message: messageOf(it),
      }),
    };
  },
  list: {
    texts: ({ desired }) => [desired.name, desired.repository_url, desired.branch ?? desired.tag_pattern ?? ''],
    status: { values: syncVerbs.states, of: statusOf },
  },
  verbs: syncVerbs,
  isSettled: (it) => isReconciled(it) || it.observed?.observedGeneration === it.meta.generation,
  watch: { shows: {} },
});
