import { z } from 'zod';
import { maxKeyChars } from '../../store/kinds/declarations.ts';
import { sync, SyncDrift, syncInterval, SyncOutcome } from '../../store/kinds/sync.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { syncVerbs } from '../../rules/sync.ts';
import { GitRef, RelativePath, RepositoryUrl } from './fields.ts';
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
    branch: z.string(),
    path: z.string(),
    git_credential_id: nullableText,
    interval_seconds: z.int(),
    prune: z.boolean(),
    drift: SyncDrift,
    is_paused: z.boolean(),
    requested_by: z.string().meta({ description: 'The user whose rights it has in the project' }),
    status: z.enum(syncVerbs.states).meta({
      description:
        'drifted: somebody has changed what the commit declares; waiting: a step must be forced, or something must be gone before; failed: the commit changes nothing',
    }),
    commit_wanted: nullableText.meta({ description: 'The head of the branch' }),
    commit_applied: nullableText,
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
      at: z.string(),
      outcome: SyncOutcome,
      message: nullableText,
      steps: z
        .array(z.object({ action: z.string(), key: z.string(), fields: z.array(z.string()) }))
        .meta({ description: 'The first steps of its plan that change something' }),
      changes: z.int().meta({ description: 'All steps that change something' }),
    }),
  )
  .meta({ id: 'SyncRuns' });
export type SyncRuns = z.infer<typeof SyncRuns>;

const settings = {
  name: sync.desired.shape.name,
  repository_url: RepositoryUrl,
  branch: GitRef,
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
};

export const SyncCreate = z.strictObject({
  ...settings,
  project_id: Reference,
  environment_id: Reference.nullish().meta({
    description: 'Where objects are that name no environment; by default in the present default one of the project',
  }),
  git_credential_id: Reference.nullish(),
  server_id: settings.server_id.nullish().meta({ description: 'By default that of the project' }),
  path: settings.path.nullish(),
  interval_seconds: settings.interval_seconds.nullish(),
  prune: settings.prune.nullish(),
  drift: settings.drift.nullish(),
  is_paused: settings.is_paused.nullish(),
  labels: Labels.optional(),
});

export const SyncUpdate = z
  .strictObject({
    ...settings,
    environment_id: Reference.nullable(),
    git_credential_id: Reference.nullable(),
    take_over: z.boolean().meta({ description: 'true: it acts with the rights of the caller from now on' }),
    labels: Labels,
  })
  .partial();

export const SyncNow = z.strictObject({
  force: z.array(z.string().max(maxKeyChars)).max(100).optional().meta({
    description:
      'Keys of steps of commit_wanted that may lose data, or overwrite what others have set, as needs_force lists them',
  }),
});

type It = ReadonlyResource<'sync'>;

function statusOf(it: It): Sync['status'] {
  if (isDeleting(it)) return 'deleting';
  return it.desired.is_paused ? 'paused' : (it.observed?.phase ?? 'pending');
}

export function runsOf({ observed }: It): SyncRuns {
  return (observed?.runs ?? []).map(({ commit_message, message, steps, ...run }) => ({
    ...run,
    ...orNull({ commit_message, message }),
    steps: steps.map(({ fields, ...step }) => ({ ...step, fields: [...fields] })),
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
      branch: desired.branch,
      path: desired.path,
      interval_seconds: desired.interval_seconds,
      prune: desired.prune,
      drift: desired.drift,
      is_paused: desired.is_paused,
      requested_by: desired.requested_by,
      status: statusOf(it),
      differs: [...(observed?.differs ?? [])],
      needs_force: [...(observed?.needs_force ?? [])],
      ...orNull({
        environment_id: desired.usual_environment_id,
        git_credential_id: desired.git_credential_id,
        commit_wanted: observed?.commit_wanted,
        commit_applied: observed?.commit_applied,
        message: observed?.message,
      }),
    };
  },
  list: {
    texts: ({ desired }) => [desired.name, desired.repository_url, desired.branch],
    status: { values: syncVerbs.states, of: statusOf },
  },
  verbs: syncVerbs,
  isSettled: (it) => isReconciled(it) || it.observed?.observedGeneration === it.meta.generation,
  watch: { shows: {} },
});
