import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Timestamp } from './fields.ts';
import { ProvisioningStep } from './provisioning-step.ts';

const OperationPhase = z.enum(['pending', 'running', 'succeeded', 'failed', 'expired']);

export const OperationType = z.enum(['sync', 'heal', 'validate', 'provision', 'dockerfile', 'compose']);
export type OperationType = z.infer<typeof OperationType>;

const keepMs: Readonly<Record<OperationType, number>> = {
  sync: retention.operationsKeepMs,
  heal: retention.healingsKeepMs,
  validate: retention.validationsKeepMs,
  provision: retention.provisioningsKeepMs,
  dockerfile: retention.operationsKeepMs,
  compose: retention.operationsKeepMs,
};

/**
 * What came of a comparison of a branch with what serves. `would_deploy`: nothing else stands in the way, but only the
 * answer was asked for. `stopped`: a push does not start what was stopped. `already_tried`: the newest deployment of the
 * branch was of this commit and does not serve. `refused`: the server is not to be used.
 */
export const SyncDecision = z.enum([
  'up_to_date',
  'not_matched',
  'autodeploy_off',
  'stopped',
  'already_tried',
  'refused',
  'would_deploy',
  'deploying',
  'deployed',
]);
export type SyncDecision = z.infer<typeof SyncDecision>;

/** How far the provisioning of a server has come. */
const Provisioning = z.object({
  steps: z.array(ProvisioningStep).max(16),
  /** The most steps that were done at once: another one forgives the failures before it. */
  done: z.int(),
  failures: z.int(),
  /** Jobs on the machine that failed: it tells the next one from them. */
  failed_jobs: z.int(),
  /** After a failure nothing is tried before. */
  not_before: Timestamp.optional(),
  /** SHA-256 (hex) of the join token that was sent to the machine; it is good until the operation ends. */
  join_token_hash: z.string().optional(),
});
export type Provisioning = z.infer<typeof Provisioning>;

/**
 * Something to do once, with a deadline and a result: comparing a git branch, healing a server, looking at a machine. A
 * server has one operation that provisions it, which begins anew when something else is asked.
 */
export const operation = defineKind({
  kind: 'operation',
  version: 1,
  /** A leader that does not know it compares all the same. */
  ignorable: ['polled', 'polled.generation', 'polled.head'],
  desired: z.object({
    type: OperationType,
    project_id: Id.optional(),
    application_id: Id.optional(),
    server_id: Id.optional(),
    /** Whose compose file is read. */
    deployment_id: Id.optional(),
    /** Of a healing: the checks whose findings are healed; absent: all. */
    checks: z.array(z.string()).max(16).optional(),
    /** Of a provisioning: what it is of, see `askedOf`. */
    asked: z.string().optional(),
    /** Of a comparison: it deploys what is to be deployed. */
    deploy: z.boolean().optional(),
    /** Of a comparison: what asked for it; absent: a request of the API. */
    trigger: z.enum(['webhook']).optional(),
    /** Of a comparison: the delivery of a webhook that it is for. */
    delivery_id: Id.optional(),
    /** Of a comparison: a look at the branch led to it. `head` is what was seen there; absent: it could not be read. */
    polled: z.object({ generation: z.int(), head: z.string().max(64).optional() }).optional(),
    requested_by: Id.optional(),
    requested_at: z.string(),
    deadline_seconds: z.int().default(60),
  }),
  observed: z.object({
    phase: OperationPhase,
    result: z.record(z.string(), z.unknown()).optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    finished_at: z.string().optional(),
    /** What was asked when this was observed. */
    asked: z.string().optional(),
    provisioning: Provisioning.optional(),
  }),
  indexes: { application: (d) => d.application_id, server: (d) => d.server_id, project: (d) => d.project_id },
  owners: (d) => (d.application_id === undefined ? [] : [{ kind: 'application', id: d.application_id, blocks: true }]),
  keep: {
    newest: {
      count: retention.operationsPerApplication,
      under: 'application',
      hasEnded: ({ observed }) => observed?.finished_at !== undefined,
    },
    until: ({ desired, observed }) =>
      observed?.finished_at === undefined ? undefined : Date.parse(observed.finished_at) + keepMs[desired.type],
  },
});

export const Severity = z.enum(['info', 'warning', 'error']);

function isUnreadWarning({ desired }: { desired: { read: boolean; severity: z.infer<typeof Severity> } }): boolean {
  return !desired.read && desired.severity !== 'info';
}

/** One in-app notification of one user. */
export const notification = defineKind({
  kind: 'notification',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({
    user_id: Id,
    type: z.string(),
    severity: Severity,
    title: z.string(),
    message: z.string(),
    resource: z.object({ kind: z.string(), id: Id, name: z.string(), project_id: Id.optional() }).optional(),
    read: z.boolean().default(false),
  }),
  observed: z.object({}),
  owners: (d) => [{ kind: 'user', id: d.user_id, blocks: true }],
  keep: {
    newest: {
      count: retention.notificationsPerUser,
      under: 'user',
      // news of what went well pushes no warning out unread: of these as many are kept beside them
      unless: (_user, newestFirst) => {
        const warnings = new Set(newestFirst.filter(isUnreadWarning).slice(0, retention.notificationsPerUser));
        return (it) => warnings.has(it);
      },
    },
    until: ({ meta }) => Date.parse(meta.createdAt) + retention.notificationsKeepMs,
  },
  indexes: { user: (d) => d.user_id },
});
