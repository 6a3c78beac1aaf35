import { isSameRepository } from '../../store/repository-address.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { matchesTag } from '../../agent-protocol/tag-pattern.ts';
import { branchesOf, orderOf, tagsOf } from '../webhook-delivery/states.ts';
import type { Delivery } from '../webhook-delivery/states.ts';
import type { Sync } from './states.ts';

type Webhook = ReadonlyResource<'git_webhook'>;

/** The syncs whose branch a delivery announces, or a tag of their pattern. */
export function announcedBy(delivery: Delivery, view: Pick<TenantView, 'by' | 'get'>): Sync[] {
  const webhook = view.get('git_webhook', delivery.desired.webhook_id);
  if (webhook === undefined) return [];
  return view.by('sync', 'project', delivery.desired.project_id).filter((it) => isAnnounced(it, delivery, webhook));
}

/** Orders the deliveries that announced what a sync follows: that of the newest; 0: there is none. */
export function newestAnnounced(sync: Sync, view: Pick<TenantView, 'by' | 'get'>): number {
  const orders = view
    .by('webhook_delivery', 'project', sync.desired.project_id)
    .filter((it) => {
      const webhook = view.get('git_webhook', it.desired.webhook_id);
      return webhook !== undefined && isAnnounced(sync, it, webhook);
    })
    .map(orderOf);
  return Math.max(0, ...orders);
}

function isAnnounced({ desired }: Sync, delivery: Delivery, webhook: Webhook): boolean {
  const { ended, request } = delivery.desired;
  if (desired.is_paused || desired.pinned_commit !== undefined || ended !== undefined || request !== undefined)
    return false;
  const { branch, tag_pattern: pattern = '' } = desired;
  const isOfIt =
    branch === undefined ? tagsOf(delivery).some((tag) => matchesTag(pattern, tag)) : branchesOf(delivery).has(branch);
  if (!isOfIt) return false;
  return isSameRepository(desired.repository_url, webhook.desired.repository_url);
}
