import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id } from './fields.ts';

const OperationPhase = z.enum(['pending', 'running', 'succeeded', 'failed', 'expired']);

export const OperationType = z.enum(['sync', 'heal', 'validate']);
export type OperationType = z.infer<typeof OperationType>;

const keepMs: Readonly<Record<OperationType, number>> = {
  sync: retention.operationsKeepMs,
  heal: retention.healingsKeepMs,
  validate: retention.validationsKeepMs,
};

/** Something to do once, with a deadline and a result: comparing a git branch, healing a server, looking at a machine. */
export const operation = defineKind({
  kind: 'operation',
  version: 1,
  desired: z.object({
    type: OperationType,
    project_id: Id.optional(),
    application_id: Id.optional(),
    server_id: Id.optional(),
    /** Of a healing: the checks whose findings are healed; absent: all. */
    checks: z.array(z.string()).max(16).optional(),
    requested_by: Id.optional(),
    requested_at: z.string(),
    deadline_seconds: z.int().default(60),
  }),
  observed: z.object({
    phase: OperationPhase,
    result: z.record(z.string(), z.unknown()).optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    finished_at: z.string().optional(),
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
    newest: { count: retention.notificationsPerUser, under: 'user' },
    until: ({ meta }) => Date.parse(meta.createdAt) + retention.notificationsKeepMs,
  },
  indexes: { user: (d) => d.user_id },
});
