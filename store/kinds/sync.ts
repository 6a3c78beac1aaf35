import { z } from 'zod';
import { maxKeyChars } from './declarations.ts';
import { defineKind } from './define.ts';
import { Id, Name, Sealed, Timestamp } from './fields.ts';

/** Most syncs of one project. */
export const maxSyncs = 50;

/** Seconds between two looks at the branch of a sync. */
export const syncInterval = { min: 30, usual: 180, max: 86_400 } as const;

/** Most commits that a sync keeps what became of, most steps of each plan, and most fields of a step. */
export const maxSyncRuns = 20;
export const maxRunSteps = 20;
export const maxStepFields = 5;

/** Most steps that a person forces: as many as a commit has objects. */
export const maxSyncForce = 200;

/** Most variables of a sync, and as many secrets. */
export const maxSyncVariables = 50;

/** Longest text of why a sync failed, or what it waits for. */
export const maxMessageChars = 2000;

/** Longest name of a tag. */
const maxTagChars = 255;

/** Most keys of objects that are listed as differing, or as waiting to be forced. */
export const maxSyncKeys = 50;

/**
 * `in_sync`: what is there is as the commit declares it. `drifted`: somebody has changed it since. `waiting`: a person has to
 * force a step, or something has to be gone before. `failed`: the commit cannot be read or applied, and changes nothing.
 */
export const SyncPhase = z.enum(['pending', 'in_sync', 'drifted', 'waiting', 'failed']);
export type SyncPhase = z.infer<typeof SyncPhase>;

/** What becomes of what somebody has changed by hand: told, or changed back. */
export const SyncDrift = z.enum(['warn', 'correct']);

/** `partly`: something has to be gone before the rest is done. `waiting`: a step has to be forced, so that nothing is done. */
export const SyncOutcome = z.enum(['applied', 'unchanged', 'partly', 'waiting', 'failed']);

/** What became of a commit. */
export const SyncRun = z.object({
  commit: z.string().max(64),
  commit_message: z.string().max(200).optional(),
  /** The tag by which it was found; absent: it was the head of a branch. */
  tag: z.string().max(maxTagChars).optional(),
  at: Timestamp,
  /** What was read, as `sourceOf` names it; absent: an earlier release has recorded it. */
  source: z.string().max(64).optional(),
  outcome: SyncOutcome,
  /** Why it failed, or what it waits for. */
  message: z.string().max(maxMessageChars).optional(),
  /** The first steps of its plan that change something. */
  steps: z
    .array(
      z.object({
        action: z.string(),
        key: z.string(),
        /** Its name before; absent: it kept its name. */
        renamed_from: z.string().optional(),
        fields: z.array(z.string()).max(maxStepFields),
        /** Whether it loses data; absent: an earlier release has recorded it. */
        loses_data: z.boolean().optional(),
      }),
    )
    .max(maxRunSteps),
  /** All steps that change something. */
  changes: z.int(),
});
export type SyncRun = z.infer<typeof SyncRun>;

/** Keeps what a project has as the files of a repository declare it. */
export const sync = defineKind({
  kind: 'sync',
  version: 1,
  desired: z.object({
    project_id: Id,
    name: Name,
    repository_url: z.string().max(512),
    /** Absent: it follows `tag_pattern`. */
    branch: z.string().max(255).optional(),
    /** The newest tag of this pattern is followed, in place of a branch. */
    tag_pattern: z.string().max(200).optional(),
    /** A file, or a folder whose YAML and JSON files are read. */
    path: z.string().max(255),
    git_credential_id: Id.optional(),
    /** The server whose agent reads the repository. */
    reader_id: Id,
    /** Where objects are that name no environment; absent: in the default one of the project. */
    usual_environment_id: Id.optional(),
    interval_seconds: z.int().min(syncInterval.min).max(syncInterval.max),
    /** What it made and is not declared any more is deleted. */
    prune: z.boolean(),
    drift: SyncDrift,
    is_paused: z.boolean(),
    /** What stands in the files for `${vars.NAME}`. */
    variables: z.record(z.string(), z.string()).optional(),
    /** As `variables`, each sealed for `secrets.<name>`. */
    secrets: z.record(z.string(), Sealed).optional(),
    /** The commit that is applied in place of the head of the branch, until it is released. */
    pinned_commit: z.string().max(64).optional(),
    /** The service key that it acts with. Nobody knows its text. */
    key_id: Id,
    /** Whom it acts for. */
    requested_by: Id,
    /** A person asked for the head to be applied. The steps are forced of that commit alone, whose plan the person has seen. */
    request: z
      .object({
        at: Timestamp,
        force: z.array(z.string().max(maxKeyChars)).max(maxSyncForce),
        commit: z.string().max(64).optional(),
      })
      .optional(),
  }),
  observed: z.object({
    phase: SyncPhase,
    /** The head of the branch, what the newest tag leads to, or the commit that it is pinned to. */
    commit_wanted: z.string().max(64).optional(),
    commit_applied: z.string().max(64).optional(),
    /** The last head of a branch that was seen, or the last newest tag of a pattern. */
    head: z
      .object({
        repository_url: z.string(),
        branch: z.string().optional(),
        tag_pattern: z.string().optional(),
        tag: z.string().max(maxTagChars).optional(),
        commit: z.string().max(64),
      })
      .optional(),
    /** What it waits for, or why it failed. */
    message: z.string().max(maxMessageChars).optional(),
    /** What it lacks, where that is why it failed: a tag of its pattern. */
    lack: z.enum(['tag']).optional(),
    /** Keys of objects that are not as the commit declares them. */
    differs: z.array(z.string()).max(maxSyncKeys).default([]),
    /** The commit that was planned last, and the generation of the settings with which: a force is of that plan. */
    planned: z.object({ commit: z.string().max(64), generation: z.int() }).optional(),
    /** Keys of steps that a person has to force. */
    needs_force: z.array(z.string()).max(maxSyncKeys).default([]),
    /** The last request that was carried out. */
    handled_request: Timestamp.optional(),
    /** The last request with which a commit was applied. */
    applied_request: Timestamp.optional(),
    /** The newest first. */
    runs: z.array(SyncRun).max(maxSyncRuns).default([]),
  }),
  unique: (d) => [{ scope: d.project_id, name: d.name }],
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  populates: { git_credential: 'git_credential' },
  indexes: {
    project: (d) => d.project_id,
    reader: (d) => d.reader_id,
    git_credential: (d) => d.git_credential_id,
  },
  finalizers: ['sync'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its project' },
});
