import { z } from 'zod';
import type { TenantView } from '../../../store/mirror.ts';
import { isStaying } from '../../../store/resource.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { uuidv5 } from '../../../store/uuid.ts';
import { ApiError } from '../../ground/api-error.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { RawBody } from '../../http/raw-body.ts';
import { announced } from '../../webhooks/payload.ts';
import { endOf } from '../../webhooks/end-of.ts';
import { openSecret } from '../../webhooks/secret.ts';
import { verify } from '../../webhooks/signature.ts';

const maxBodyBytes = 1024 * 1024;
/** An unknown address costs what a wrong signature costs. */
const nobodysSecret = '0'.repeat(64);
/** Namespace of the ids of deliveries (UUIDv5). */
const namespace = 'd4c1a7b0-1f4e-4f0e-8d0f-2a7c5a1c9b63';

export const callGitWebhook = defineEndpoint({
  method: 'POST',
  path: '/webhooks/git/:id',
  summary: 'Called by a git host: what it announces is kept, and decided after the answer. Only its signature counts',
  raw: { maxBytes: maxBodyBytes },
  body: RawBody,
  response: z.object({
    delivery_id: z.string(),
    status: z.enum(['accepted', 'ignored', 'duplicate']),
    reason: z.string(),
  }),
  handle: async (ctx, { body: call }) => {
    const { view, clock } = ctx;
    const it = view.get('git_webhook', (ctx.params.get('id') ?? '').toLowerCase());
    const webhook = isStaying(it) ? it : undefined;
    const secret = webhook === undefined ? nobodysSecret : openSecret(ctx, webhook);
    const verified = verify(webhook?.desired.provider ?? 'github', secret, call, clock.now().getTime());
    if (webhook === undefined || 'fault' in verified) {
      if (webhook !== undefined && 'fault' in verified) ctx.webhookRefused(webhook, verified.fault);
      throw new ApiError('NOT_FOUND', 'No webhook has this address and made this signature: compare both with those');
    }
    const id = uuidv5(namespace, `${webhook.meta.id} ${verified.identity}`);
    const known = view.get('webhook_delivery', id) ?? ofKey(view, webhook.meta.id, verified.key);
    if (known !== undefined) {
      const reason = 'This delivery was received before';
      return { delivery_id: known.meta.id, status: 'duplicate' as const, reason };
    }
    const found = announced(webhook.desired.provider, call);
    const ended = endOf(found, webhook, view);
    const unit = ctx.repo.begin();
    unit.require(webhook);
    unit.create('webhook_delivery', id, {
      webhook_id: webhook.meta.id,
      project_id: webhook.desired.project_id,
      delivery_key: verified.key,
      ...found,
      ...(ended !== undefined && { ended }),
      received_at: clock.now().toISOString(),
    });
    return ctx.commit(unit, () => ({
      delivery_id: id,
      status: ended === undefined ? ('accepted' as const) : ('ignored' as const),
      reason: ended?.reason ?? 'The applications and syncs that follow it are compared with it',
    }));
  },
});

/** The delivery that has this id at the git host. */
function ofKey(view: TenantView, webhook: string, key: string): ReadonlyResource<'webhook_delivery'> | undefined {
  return view.by('webhook_delivery', 'git_webhook', webhook).find(({ desired }) => desired.delivery_key === key);
}
