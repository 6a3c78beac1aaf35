import { expect, it } from 'vitest';
import { announcedBy, newestAnnounced } from '../../../controllers/sync/announced.ts';
import { withSyncs } from '../../../controllers/webhook-delivery/states.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { object } from '../../harness/objects.ts';

const url = 'https://git.example.test/shop.git';
const webhook = object('git_webhook', { repository_url: 'git@git.example.test:shop.git' });
const push = (ref: string, more: object = {}) =>
  object('webhook_delivery', { webhook_id: webhook.meta.id, what: 'push', pushes: [{ ref, ...more }] });
const sync = (fields: object = {}) => object('sync', { repository_url: url, branch: 'main', ...fields });

/** A view of these objects, which are all of one project. */
function viewOf(...all: readonly ReadonlyResource[]): Pick<TenantView, 'by' | 'get'> {
  const ofKind = (kind: string) => all.filter(({ meta }) => meta.kind === kind);
  const view = {
    get: (kind: string, id: string) => ofKind(kind).find(({ meta }) => meta.id === id),
    by: (kind: string) => ofKind(kind),
  };
  return view as Pick<TenantView, 'by' | 'get'>; // each kind has its objects alone
}

it.each<[what: string, ref: string, delivery: object, of: object, isAnnounced: boolean]>([
  ['its branch', 'refs/heads/main', {}, {}, true],
  ['another branch', 'refs/heads/next', {}, {}, false],
  ['a tag of its name', 'refs/tags/main', {}, {}, false],
  ['the end of its branch', 'refs/heads/main', { deleted: true }, {}, false],
  ['the branch of another repository', 'refs/heads/main', {}, { repository_url: `${url}x` }, false],
  ['a tag of its pattern', 'refs/tags/v1.2.0', {}, { branch: undefined, tag_pattern: 'v1.*' }, true],
  ['another tag', 'refs/tags/v2.0.0', {}, { branch: undefined, tag_pattern: 'v1.*' }, false],
  ['the end of a tag', 'refs/tags/v1.2.0', { deleted: true }, { branch: undefined, tag_pattern: 'v1.*' }, false],
  ['its branch while it is paused', 'refs/heads/main', {}, { is_paused: true }, false],
])('a push of %s announces it or not', (_what, ref, more, of, isAnnounced) => {
  const [it, delivery] = [sync(of), push(ref, more)];
  const view = viewOf(webhook, it, delivery);
  expect(announcedBy(delivery, view)).toEqual(isAnnounced ? [it] : []);
  expect(newestAnnounced(it, view) > 0).toBe(isAnnounced);
});

it('a webhook that was deleted announces nothing', () => {
  const [it, delivery] = [sync(), push('refs/heads/main')];
  expect(announcedBy(delivery, viewOf(it, delivery))).toEqual([]);
  expect(newestAnnounced(it, viewOf(it, delivery))).toBe(0);
});

it('a delivery names the syncs that look because of it', () => {
  const observed = { phase: 'decided' as const, applications: [] };
  const none = { ...observed, decision: 'no_application' as const, reason: 'No application has it' };
  expect(withSyncs(none, [])).toBe(none);
  expect(withSyncs(none, ['shop'])).toMatchObject({
    decision: 'evaluated',
    reason: 'Sync shop looks at the repository',
  });
  const evaluated = { ...observed, decision: 'evaluated' as const, reason: '1 of 1 application(s) were deployed' };
  expect(withSyncs(evaluated, ['a', 'b']).reason).toBe(
    '1 of 1 application(s) were deployed. Syncs a, b look at the repository',
  );
});
