import { z } from 'zod';
import { badField } from '../ground/api-error.ts';
import { defineEndpoint, defineList } from '../endpoint/endpoint.ts';
import { visibleNotifications } from '../rights/visible-notifications.ts';
import { pageOfResource } from './resource-endpoints.ts';
import { Notification, notifications } from '../resources/notification.ts';
import { Reference } from '../resources/object-fields.ts';

/** Notifications marked in one transaction: each takes a guard and a write. */
const markedPerTransaction = 30;

export const listNotifications = defineList({
  path: '/notifications',
  summary: 'One’s notifications',
  query: notifications.query.extend({ unread: z.enum(['true', 'false']).optional() }),
  item: Notification,
  ownOnly: true,
  handle: async (ctx, { query }) => {
    const visible = visibleNotifications(ctx.principal, ctx.view);
    const unread = visible.filter((it) => !it.desired.read);
    const wanted =
      query.unread === undefined ? visible : visible.filter((it) => it.desired.read === (query.unread === 'false'));
    const { items, meta } = pageOfResource(ctx, notifications, wanted, query);
    return { items, meta: { ...meta, unread: unread.length } };
  },
});

const ReadBody = z.strictObject({ ids: z.array(Reference).max(500).nullish(), all: z.boolean().nullish() });

export const readNotifications = defineEndpoint({
  method: 'POST',
  path: '/notifications/read',
  summary: 'Mark notifications as read: those of ids, or all of them',
  body: ReadBody,
  response: z.object({ marked: z.int() }),
  handle: async (ctx, { body }) => {
    const ids = body.ids === undefined || body.ids === null ? undefined : new Set(body.ids);
    if (ids !== undefined && body.all === true)
      throw badField('all', 'conflicting', 'Send ids or all, not both: all covers every notification');
    if (ids === undefined && body.all === false)
      throw badField('ids', 'required', 'Send the ids of the notifications, or all: true');
    const unread = visibleNotifications(ctx.principal, ctx.view).filter(
      (it) => !it.desired.read && (ids === undefined || ids.has(it.meta.id)),
    );
    for (let at = 0; at < unread.length; at += markedPerTransaction) {
      const unit = ctx.repo.begin();
      for (const it of unread.slice(at, at + markedPerTransaction))
        unit.change(it, (draft) => void (draft.read = true));
      await ctx.commit(unit, () => undefined);
    }
    return { marked: unread.length };
  },
});
