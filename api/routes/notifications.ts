import { z } from 'zod';
import { commit } from '../../store/unit.ts';
import { defineEndpoint, defineList } from '../endpoint.ts';
import { PageQuery, pageOf } from '../paging.ts';
import { Notification, toNotification } from '../resources/notification.ts';
import { Reference } from '../resources/object-fields.ts';

/** Notifications that one transaction marks: each takes a guard and a write. */
const markedPerTransaction = 30;

export const listNotifications = defineList({
  path: '/notifications',
  summary: 'One’s notifications',
  query: PageQuery.extend({ unread: z.enum(['true', 'false']).optional() }),
  item: Notification,
  ownOnly: true,
  handle: async (ctx, { query }) => {
    const own = ctx.view
      .by('notification', 'user', ctx.principal.user.meta.id)
      .filter((it) => query.unread === undefined || it.desired.read === (query.unread === 'false'));
    const { items, meta } = pageOf(own, query, { texts: ({ desired }) => [desired.title, desired.message] }, ctx.view);
    return { items: items.map((it) => ctx.keep(it, '', () => toNotification(it))), meta };
  },
});

export const readNotifications = defineEndpoint({
  method: 'POST',
  path: '/notifications/read',
  summary: 'Mark notifications as read; all of them unless ids are sent',
  body: z.strictObject({ ids: z.array(Reference).max(500).nullish() }),
  response: z.object({ marked: z.int() }),
  handle: async (ctx, { body }) => {
    const ids = body.ids === undefined || body.ids === null ? undefined : new Set(body.ids);
    const unread = ctx.view
      .by('notification', 'user', ctx.principal.user.meta.id)
      .filter((it) => !it.desired.read && (ids === undefined || ids.has(it.meta.id)));
    for (let at = 0; at < unread.length; at += markedPerTransaction) {
      const unit = ctx.repo.begin();
      for (const it of unread.slice(at, at + markedPerTransaction))
        unit.change(it, (draft) => void (draft.read = true));
      await commit(unit);
    }
    return { marked: unread.length };
  },
});
