import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Name, Timestamp } from './fields.ts';

/** Seconds for which a preview lives. */
export const previewLife = { min: 3600, usual: 7 * 86_400, max: 30 * 86_400 } as const;

/** Most previews of one project, without those of forks of which no commit was approved yet. */
export const maxPreviews = 20;

/** Most previews of forks of one project of which no commit was approved yet: strangers make them. */
export const maxUnapproved = 10;

/** `failed`: what of it cannot be brought up is in its conditions. */
export const PreviewPhase = z.enum(['awaiting_approval', 'creating', 'deploying', 'ready', 'failed', 'deleting']);
export type PreviewPhase = z.infer<typeof PreviewPhase>;

/** A copy of an environment whose applications are built of another branch, for a time. */
export const preview = defineKind({
  kind: 'preview',
  version: 1,
  desired: z.object({
    project_id: Id,
    /** Also of its environment. */
    name: Name,
    /** The environment that it is a copy of. */
    source_environment_id: Id,
    /** Of the applications that are built of the branch. */
    repository_url: z.string().max(512),
    branch: z.string().max(255),
    /** Of the pull request or merge request, at the git host. */
    request_number: z.int().min(1).optional(),
    /** When the request was changed last, by the clock of the git host: events from before come too late. */
    request_updated_at: Timestamp.optional(),
    /** Present: the branch is of this repository, whose writers have no right in the project. */
    fork_url: z.string().max(512).optional(),
    /** Of a fork: the commit that is asked for. */
    commit: z.string().max(64).optional(),
    /** Of a fork: the commit that a person has approved. Nothing of another one is built. */
    approved_commit: z.string().max(64).optional(),
    approved_by: Id.optional(),
    /** Of a fork: how many approvals there were, the same commit again among them. Absent: one at most. */
    approvals: z.int().optional(),
    requested_by: Id.optional(),
    expires_at: Timestamp,
  }),
  observed: z.object({
    phase: PreviewPhase,
    /** Present once it was made: without it the preview is over. */
    environment_id: Id.optional(),
    /** Of a fork: the commit that its applications were deployed with last. */
    deployed_commit: z.string().optional(),
    /** Of a fork: by which of its approvals. Absent: by the first. */
    deployed_approval: z.int().optional(),
    urls: z.array(z.string()).max(1000).default([]),
  }),
  unique: (d) => [{ scope: d.project_id, name: d.name }],
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  indexes: { project: (d) => d.project_id, source: (d) => d.source_environment_id },
  finalizers: ['preview'],
  keep: { until: ({ desired }) => Date.parse(desired.expires_at) },
});
