import { z } from 'zod';
import { preview, previewLife, PreviewPhase } from '../../store/kinds/preview.ts';
import { isAwaitingApproval } from '../../store/preview.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { previewVerbs } from '../../rules/preview.ts';
import { FreeText, GitRef, RepositoryUrl } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

export const Preview = z
  .object({
    ...objectFields,
    project_id: z.string(),
    name: z.string(),
    source_environment_id: z.string().meta({ description: 'The environment that it is a copy of' }),
    preview_environment_id: z.string().nullable().meta({ description: 'Its own environment; null: there is none yet' }),
    repository_url: z.string(),
    branch: z.string(),
    request_number: z.int().nullable(),
    fork_url: z.string().nullable(),
    commit: z.string().nullable().meta({ description: 'Of a fork: the commit that is asked for' }),
    approved_commit: z.string().nullable(),
    approved_by: z.string().nullable(),
    requested_by: z.string().nullable(),
    expires_at: z.string(),
    urls: z.array(z.string()).meta({ description: 'Addresses of its applications' }),
    status: PreviewPhase,
  })
  .meta({ id: 'Preview', description: 'A copy of an environment for a branch, for a time' });
export type Preview = z.infer<typeof Preview>;

const Commit = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, 'Must be the full id of a commit');

export const PreviewCreate = z.strictObject({
  project_id: Reference,
  environment_id: Reference.nullish().meta({ description: 'What is copied; by default the default environment' }),
  name: preview.desired.shape.name,
  branch: GitRef,
  repository_url: RepositoryUrl.nullish().meta({
    description:
      'Of the applications that are built of the branch; not needed if all git sources are of one repository',
  }),
  request_number: z.int().min(1).nullish(),
  fork_url: RepositoryUrl.nullish().meta({
    description: 'The branch is of this repository: nothing is made before a person approves the commit',
  }),
  commit: Commit.nullish().meta({ description: 'Of a fork: what is to be built' }),
  ttl_seconds: z
    .int()
    .min(previewLife.min)
    .max(previewLife.max)
    .default(previewLife.usual)
    .meta({ description: 'When it is over, its environment is removed with all that is in it' }),
  from_backup: FreeText.max(200).nullish().meta({ description: 'Must be absent: data begins empty' }),
  labels: Labels.optional(),
});

export const PreviewUpdate = z.strictObject({
  ttl_seconds: z
    .int()
    .min(previewLife.min)
    .max(previewLife.max)
    .optional()
    .meta({ description: 'It ends that long from now on, whatever its end was before' }),
  labels: Labels.optional(),
});

export const PreviewApprove = z.strictObject({
  commit: Commit.meta({ description: 'The commit that was looked at: it must be the one that is asked for' }),
});

function previewStatus(it: ReadonlyResource<'preview'>): PreviewPhase {
  if (isDeleting(it)) return 'deleting';
  if (isAwaitingApproval(it)) return 'awaiting_approval';
  const phase = it.observed?.phase ?? 'creating';
  return phase === 'awaiting_approval' ? 'creating' : phase;
}

export const previews = defineResource({
  kind: 'preview',
  word: 'Preview',
  project: ({ desired }) => desired.project_id,
  answer: Preview,
  show: (it): Preview => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id,
    name: it.desired.name,
    source_environment_id: it.desired.source_environment_id,
    repository_url: it.desired.repository_url,
    branch: it.desired.branch,
    expires_at: it.desired.expires_at,
    urls: [...(it.observed?.urls ?? [])],
    status: previewStatus(it),
    ...orNull({
      preview_environment_id: it.observed?.environment_id,
      request_number: it.desired.request_number,
      fork_url: it.desired.fork_url,
      commit: it.desired.commit,
      approved_commit: it.desired.approved_commit,
      approved_by: it.desired.approved_by,
      requested_by: it.desired.requested_by,
    }),
  }),
  list: {
    texts: ({ desired }) => [desired.name, desired.branch],
    status: { values: PreviewPhase.options, of: previewStatus },
  },
  verbs: previewVerbs,
  isSettled: (it) => !isDeleting(it) && isReconciled(it),
  watch: { shows: {} },
});
