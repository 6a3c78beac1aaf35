import { z } from 'zod';
import type { ReadonlyResource } from '../../store/resource.ts';
import { asOfNow } from '../auth/authenticate.ts';
import { visibleNotifications, isVisibleTo } from '../rights/visible-notifications.ts';
import { notifications as shape } from '../resources/notification.ts';
import { defineStream } from './stream.ts';
import { uncounted } from './gap.ts';
import { cursorOf, isOfHistory, parseCursor } from './position.ts';
import { untilClosed } from './until-closed.ts';

type It = ReadonlyResource<'notification'>;

export const notifications = defineStream({
  path: '/ws/notifications',
  summary: 'One’s notifications as they come',
  query: z.object({ cursor: z.string().max(40).optional() }),
  check(_ctx, { query }) {
    if (query.cursor !== undefined) parseCursor(query.cursor);
  },
  async run(ctx, { query, channel }) {
    const { store, mirror, view, tenant } = ctx;
    const userId = ctx.principal.user.meta.id;
    const send = (it: It): void => {
      const cursor = cursorOf(store.incarnation, it.meta.desiredRevision);
      if (channel.isFull) channel.closeSlow();
      else channel.send({ type: 'notification', ...shape.show(it, {}), cursor });
    };
    channel.send({ type: 'ready', cursor: cursorOf(store.incarnation, mirror.applied) });
    if (query.cursor !== undefined) {
      const start = parseCursor(query.cursor);
      const isKnown = isOfHistory(start, store.incarnation);
      if (!isKnown) channel.send({ type: 'gap', dropped: uncounted });
      const missed = visibleNotifications(asOfNow(ctx.principal, view), view).filter(
        (it) => isKnown && it.meta.desiredRevision > start.revision,
      );
      for (const it of missed.toSorted((a, b) => a.meta.desiredRevision - b.meta.desiredRevision)) send(it);
    }
    const unsubscribe = mirror.subscribe((change) => {
      if (change.kind !== 'notification' || change.tenant !== tenant || change.after === undefined) return;
      const it = change.after as It; // a change of a notification contains notifications
      if (it.desired.user_id === userId && isVisibleTo(asOfNow(ctx.principal, view), view)(it)) send(it);
    });
    await untilClosed(channel.signal);
    unsubscribe();
    return 'closed';
  },
});
