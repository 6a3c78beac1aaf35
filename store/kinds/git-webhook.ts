import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Name, Sealed, Timestamp } from './fields.ts';
import { SyncDecision } from './operation.ts';
import { previewLife } from './preview.ts';

/** Who calls a webhook. `gitea` is Forgejo, too; `generic` is any program that can sign. */
export const WebhookProvider = z.enum(['github', 'gitlab', 'gitea', 'bitbucket', 'generic']);
export type WebhookProvider = z.infer<typeof WebhookProvider>;

/** An address that a git host calls after a push to one repository. */
export const gitWebhook = defineKind({
  kind: 'git_webhook',
  version: 1,
  desired: z.object({
    project_id: Id,
    name: Name,
    provider: WebhookProvider,
    repository_url: z.string().max(512),
    /** What signs each call. */
    secret: Sealed,
    /** Present: requests get previews, which are copies of this environment for so long. */
    previews: z
      .object({ environment_id: Id, ttl_seconds: z.int().min(previewLife.min).max(previewLife.max) })
      .optional(),
  }),
  observed: z.object({
    /** Calls without the right signature: nothing else of them is kept. */
    refused: z.int().default(0),
    last_refused_at: Timestamp.optional(),
    refused_because: z.string().optional(),
  }),
  unique: (d) => [{ scope: d.project_id, name: d.name }],
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  indexes: { project: (d) => d.project_id },
  keep: { untilDeleted: 'A user deletes it, or it goes with its project' },
});

/** The most applications that one delivery is decided for. */
export const maxApplicationsPerDelivery = 100;

export const DeliveryPhase = z.enum(['pending', 'decided']);

/** What came of a delivery: `evaluated` names each application; the others are of none. */
export const DeliveryDecision = z.enum(['ping', 'ignored', 'no_application', 'evaluated']);
export type DeliveryDecision = z.infer<typeof DeliveryDecision>;

/** What came of a delivery for one application: `superseded` by a later delivery for the same branch. */
const DeliveredDecision = z.enum([...SyncDecision.options, 'pending', 'superseded', 'failed']);

export const Delivered = z.object({
  id: Id,
  name: z.string(),
  decision: DeliveredDecision,
  reason: z.string(),
  commit: z.string().optional(),
  deployment_id: Id.optional(),
  /** Comparisons that failed. */
  failures: z.int().default(0),
  /** After a failure nothing is tried before. */
  not_before: Timestamp.optional(),
});
export type Delivered = z.infer<typeof Delivered>;

/** A change of one reference of the repository. */
export const PushedRef = z.object({
  ref: z.string().max(512),
  /** Absent: the call does not say, or the reference was deleted. */
  commit: z.string().max(64).optional(),
  deleted: z.literal(true).optional(),
  before: z.string().max(64).optional(),
});
export type PushedRef = z.infer<typeof PushedRef>;

export const maxPushedRefs = 20;

/** A pull request or merge request that was opened, changed or closed. */
export const AnnouncedRequest = z.object({
  action: z.enum(['open', 'close']),
  number: z.int().min(1),
  branch: z.string().max(255),
  /** The head of the branch, if the call says all of its id. */
  commit: z.string().max(64).optional(),
  /** Of the repository that has the branch; absent: that was deleted. */
  source_url: z.string().max(512).optional(),
  /** When the git host changed it last, by the clock of the git host; absent: the call does not say. */
  updated_at: Timestamp.optional(),
});
export type AnnouncedRequest = z.infer<typeof AnnouncedRequest>;

/** One call of a webhook with the right signature: what its decision needs, and nothing else of its body. */
export const webhookDelivery = defineKind({
  kind: 'webhook_delivery',
  version: 1,
  desired: z.object({
    webhook_id: Id,
    project_id: Id,
    /** Its id at the git host; a second one with the same id is a duplicate. */
    delivery_key: z.string().max(200),
    event: z.string().max(100),
    /** What the event is, as far as this release knows it. */
    what: z.enum(['push', 'ping', 'other', 'unreadable']),
    /** Addresses of the repository, as the git host gave them. */
    repositories: z.array(z.string().max(512)).max(20),
    pushes: z.array(PushedRef).max(maxPushedRefs),
    /** Present: it is about this request, and no push. */
    request: AnnouncedRequest.optional(),
    /** Present: nothing follows from it. */
    ended: z.object({ decision: z.enum(['ping', 'ignored']), reason: z.string() }).optional(),
    received_at: Timestamp,
    /** Present: a user had the delivery with this id decided again. */
    replay_of: Id.optional(),
    requested_by: Id.optional(),
  }),
  observed: z.object({
    phase: DeliveryPhase,
    decision: DeliveryDecision.optional(),
    reason: z.string().optional(),
    applications: z.array(Delivered).max(maxApplicationsPerDelivery).default([]),
    decided_at: Timestamp.optional(),
  }),
  owners: (d) => [{ kind: 'git_webhook', id: d.webhook_id, blocks: true }],
  indexes: { git_webhook: (d) => d.webhook_id, project: (d) => d.project_id },
  keep: {
    newest: {
      count: retention.deliveriesPerWebhook,
      under: 'git_webhook',
      hasEnded: ({ observed }) => observed?.phase === 'decided',
    },
    until: ({ meta }) => Date.parse(meta.createdAt) + retention.deliveriesKeepMs,
  },
});
