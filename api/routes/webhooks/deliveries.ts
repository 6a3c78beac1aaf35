import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { plainCopy } from '../../../store/plain-copy.ts';
import { notFound } from '../../ground/api-error.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { webhookDeliveries, WebhookDelivery } from '../../resources/git-webhook.ts';
import { requireInProject } from '../../rights/in-project.ts';
import { endOf } from '../../webhooks/end-of.ts';
import { getEndpoint, listOfEndpoint } from '../resource-endpoints.ts';

export const listWebhookDeliveries = listOfEndpoint('git_webhook', webhookDeliveries, {
  path: '/webhooks/git/:id/deliveries',
  summary: 'What a git host sent, newest first, with the decision and its reason',
});

export const getWebhookDelivery = getEndpoint(webhookDeliveries, {
  path: '/webhooks/deliveries/:id',
  summary: 'What a git host sent at once, with the decision for each application',
});

export const replayWebhookDelivery = defineEndpoint({
  method: 'POST',
  path: '/webhooks/deliveries/:id/replay',
  summary: 'Decide a delivery again, as another one: also a commit whose deployment failed is deployed',
  on: ['webhook_delivery', 'id'],
  response: WebhookDelivery,
  settle: webhookDeliveries.settle,
  handle: async (ctx, { it: before }) => {
    const webhook = ctx.view.get('git_webhook', before.desired.webhook_id);
    if (webhook === undefined) throw notFound('Git webhook');
    const unit = ctx.repo.begin();
    unit.require(webhook);
    const { ended: _, ...desired } = plainCopy<DesiredOf<'webhook_delivery'>>(before.desired);
    // the repository of the webhook may be another one by now
    const ended = endOf(desired, webhook, ctx.view);
    if (ended === undefined) requirePreviewRights(ctx, desired);
    const made = unit.create('webhook_delivery', ctx.random.id(), {
      ...desired,
      ...(ended !== undefined && { ended }),
      received_at: ctx.clock.now().toISOString(),
      replay_of: before.meta.id,
      requested_by: ctx.principal.user.meta.id,
    });
    return ctx.commit(unit, () => webhookDeliveries.answerOf(made, ctx.view));
  },
});

/**
 * Requires the rights to the previews that a delivery makes or ends. Its git host needed none: it signed for what happened there, and
 * the user decides whether that counts again.
 *
 * @throws ApiError as `requireInProject`
 */
function requirePreviewRights(
  { principal, view }: Pick<RequestContext, 'principal' | 'view'>,
  { request, pushes, project_id: project }: DesiredOf<'webhook_delivery'>,
): void {
  if (request?.action === 'open') requireInProject(principal, 'POST /previews', view, project);
  if (request?.action === 'close' || pushes.some(({ deleted }) => deleted === true))
    requireInProject(principal, 'DELETE /previews/:id', view, project);
}
