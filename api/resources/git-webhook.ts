import { z } from 'zod';
import {
  AnnouncedRequest,
  Delivered,
  DeliveryDecision,
  DeliveryPhase,
  gitWebhook,
  PushedRef,
  WebhookProvider,
} from '../../store/kinds/git-webhook.ts';
import { previewLife } from '../../store/kinds/preview.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { repositoryAddress } from '../../store/repository-address.ts';
import { gitWebhookVerbs } from '../../rules/git-webhook.ts';
import { webhookDeliveryVerbs } from '../../rules/webhook-delivery.ts';
import { isSigningToken, keyOfToken } from '../auth/signing-token.ts';
import { RepositoryUrl } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

const GitWebhook = z
  .object({
    ...objectFields,
    project_id: z.string(),
    name: z.string(),
    provider: WebhookProvider,
    repository_url: z.string(),
    path: z.string().meta({ description: 'The address that the git host calls, below that of the control plane' }),
    previews: z
      .object({ environment_id: z.string(), ttl_seconds: z.int() })
      .nullable()
      .meta({ description: 'What previews of requests are copies of; null: there are none' }),
    refused: z.int().meta({ description: 'Calls without the right signature, at least' }),
    last_refused_at: z.string().nullable(),
    refused_because: z.string().nullable(),
    status: z.enum(gitWebhookVerbs.states),
  })
  .meta({ id: 'GitWebhook' });

/** A webhook with its secret, which no other answer has. */
export const NewGitWebhook = GitWebhook.extend({
  url: z.string().meta({ description: 'The address to enter at the git host' }),
  secret: z.string().meta({ description: 'The secret to enter at the git host; it is in this answer only' }),
}).meta({ id: 'NewGitWebhook' });

const Repository = RepositoryUrl.refine(
  (url) => repositoryAddress(url) !== undefined,
  'Must be the address of a repository, such as https://git.example/team/shop.git or git@git.example:team/shop.git',
);

const Secret = z
  .string()
  .min(16)
  .max(200)
  .regex(/^[\x21-\x7e]+$/, 'Must have printable ASCII characters only, and no space')
  .refine(
    (secret) => !isSigningToken(secret) || keyOfToken(secret) !== undefined,
    'Must have base64 of at least 16 bytes after whsec_, as a signing token has',
  )
  .meta({ description: 'At least 16 characters; absent: one is made. It is never shown again' });

const Previews = z
  .strictObject({
    environment_id: Reference,
    ttl_seconds: z.int().min(previewLife.min).max(previewLife.max).default(previewLife.usual),
  })
  .nullish()
  .meta({
    description:
      'Each pull request or merge request gets a preview, which is a copy of this environment, until it is closed; one of a fork only once a person approves it. null: none',
  });

export const GitWebhookCreate = z.strictObject({
  project_id: Reference,
  name: gitWebhook.desired.shape.name,
  provider: WebhookProvider,
  repository_url: Repository,
  secret: Secret.optional(),
  previews: Previews,
  labels: Labels.optional(),
});

export const GitWebhookUpdate = z.strictObject({
  name: GitWebhookCreate.shape.name.optional(),
  provider: WebhookProvider.optional(),
  repository_url: Repository.optional(),
  secret: Secret.optional(),
  previews: Previews,
  labels: Labels.optional(),
});

export const gitWebhooks = defineResource({
  kind: 'git_webhook',
  word: 'Git webhook',
  project: ({ desired }) => desired.project_id,
  answer: GitWebhook,
  show: (it) => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id,
    name: it.desired.name,
    provider: it.desired.provider,
    repository_url: it.desired.repository_url,
    path: `/${it.meta.tenant}/api/v1/webhooks/git/${it.meta.id}`,
    previews: it.desired.previews === undefined ? null : { ...it.desired.previews },
    refused: it.observed?.refused ?? 0,
    ...orNull({ last_refused_at: it.observed?.last_refused_at, refused_because: it.observed?.refused_because }),
    status: 'active' as const,
  }),
  list: { texts: ({ desired }) => [desired.name, desired.repository_url] },
  verbs: gitWebhookVerbs,
  watch: { shows: {} },
});

const DeliveredApplication = Delivered.omit({ failures: true, not_before: true })
  .extend({ commit: z.string().nullable(), deployment_id: z.string().nullable() })
  .meta({ id: 'DeliveredApplication' });

export const WebhookDelivery = z
  .object({
    ...objectFields,
    webhook_id: z.string(),
    project_id: z.string(),
    delivery_key: z.string().meta({ description: 'Its id at the git host' }),
    event: z.string(),
    verified: z.literal(true),
    ref: z.string().nullable().meta({ description: 'What was pushed first' }),
    commit: z.string().nullable(),
    pushes: z.array(PushedRef),
    request: AnnouncedRequest.nullable().meta({ description: 'The pull request or merge request that it is about' }),
    received_at: z.string(),
    replay_of: z.string().nullable(),
    requested_by: z.string().nullable(),
    status: DeliveryPhase,
    decision: DeliveryDecision.nullable(),
    reason: z.string().nullable(),
    applications: z.array(DeliveredApplication),
    decided_at: z.string().nullable(),
  })
  .meta({ id: 'WebhookDelivery' });

export const webhookDeliveries = defineResource({
  kind: 'webhook_delivery',
  word: 'Delivery',
  project: ({ desired }) => desired.project_id,
  answer: WebhookDelivery,
  show: ({ desired, observed, ...it }) => ({
    ...objectFieldsOf({ desired, ...(observed !== undefined && { observed }), ...it }),
    webhook_id: desired.webhook_id,
    project_id: desired.project_id,
    delivery_key: desired.delivery_key,
    event: desired.event,
    verified: true as const,
    pushes: desired.pushes.map((one) => plainCopy<PushedRef>(one)),
    received_at: desired.received_at,
    status: observed?.phase ?? ('pending' as const),
    ...orNull({
      ref: desired.pushes[0]?.ref,
      commit: desired.pushes[0]?.commit,
      request: desired.request && plainCopy<AnnouncedRequest>(desired.request),
      replay_of: desired.replay_of,
      requested_by: desired.requested_by,
      decision: observed?.decision,
      reason: observed?.reason,
      decided_at: observed?.decided_at,
    }),
    applications: (observed?.applications ?? []).map(({ id, name, decision, reason, commit, deployment_id }) => ({
      id,
      name,
      decision,
      reason,
      ...orNull({ commit, deployment_id }),
    })),
  }),
  list: {
    texts: ({ desired }) => [desired.event, desired.delivery_key, ...desired.pushes.flatMap((it) => it.ref)],
    status: { values: DeliveryPhase.options, of: ({ observed }) => observed?.phase ?? 'pending' },
  },
  verbs: webhookDeliveryVerbs,
  isSettled: ({ observed }) => observed?.phase === 'decided',
  watch: { never: 'The deployments that it makes are watched; its list shows the newest hundred of a webhook' },
});
