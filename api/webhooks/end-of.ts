import { matchesTag } from '../../agent-protocol/tag-pattern.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isSameRepository } from '../../store/repository-address.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Announced } from './payload.ts';

type Ended = DesiredOf<'webhook_delivery'>['ended'];

/**
 * Why nothing follows from what was announced. Branches and requests are acted upon, tags only where a sync of the project
 * follows them.
 */
export function endOf(
  it: DeepReadonly<Announced>,
  { desired }: ReadonlyResource<'git_webhook'>,
  view: Pick<TenantView, 'by'>,
): Ended {
  const ignored = (reason: string): Ended => ({ decision: 'ignored', reason });
  switch (it.what) {
    case 'ping':
      return { decision: 'ping', reason: 'The git host tried the webhook' };
    case 'other':
      if (it.request === undefined) return ignored('Only pushes and requests are acted upon');
      // what was made before, or by hand, ends with its request
      if (desired.previews === undefined && it.request.action === 'open')
        return ignored('Only pushes are acted upon: the webhook makes no previews');
      break;
    case 'unreadable':
      return ignored('The body is no push in the form of this provider: choose the provider that calls');
    case 'push':
  }
  const isRequest = it.request !== undefined;
  if (!it.repositories.some((url) => isSameRepository(url, desired.repository_url)))
    return ignored(`The ${isRequest ? 'request' : 'push'} is to another repository than that of the webhook`);
  if (isRequest) return undefined;
  if (it.pushes.some(({ ref }) => ref.startsWith('refs/heads/'))) return undefined;
  const patterns = view.by('sync', 'project', desired.project_id).flatMap((sync) => sync.desired.tag_pattern ?? []);
  const isFollowed = ({ ref, deleted }: { readonly ref: string; readonly deleted?: boolean | undefined }): boolean =>
    deleted !== true &&
    ref.startsWith(ofTags) &&
    patterns.some((pattern) => matchesTag(pattern, ref.slice(ofTags.length)));
  return it.pushes.some(isFollowed) ? undefined : ignored('No branch was pushed, and no tag that a sync follows');
}

const ofTags = 'refs/tags/';
