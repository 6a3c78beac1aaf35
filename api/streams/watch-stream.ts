import { z } from 'zod';
import type { ObjectChange } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import { asOfNow } from '../auth/authenticate.ts';
import { isTenantWide, mayUse, projectRole } from '../rights/authorize.ts';
import { Reference } from '../resources/object-fields.ts';
import { watchedKinds } from '../resources/resources.ts';
import type { ResourceKind } from '../resources/resources.ts';
import type { FeedChange } from './change-feed.ts';
import { parseCursor } from './position.ts';
import type { PreparedFrame } from './prepared-frame.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { uncounted } from './gap.ts';
import { untilClosed } from './until-closed.ts';

/**
 * Most bytes of missed changes that are sent, so that as much again of live ones may wait for the reader. One that missed
 * more reads the lists again, a page at a time.
 */
const missedBytes = 512 * 1024;

const WatchQuery = z.object({
  kinds: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(watchedKinds)).max(watchedKinds.length))
    .optional(),
  projectId: Reference.optional(),
  cursor: z.string().max(40).optional(),
});
type WatchQuery = z.infer<typeof WatchQuery>;

export const watch = defineStream({
  path: '/ws/watch',
  summary: 'Changes of everything that one may read, in order',
  query: WatchQuery,
  check(_ctx, { query }) {
    if (query.cursor !== undefined) parseCursor(query.cursor);
  },
  async run(ctx, { query, channel }) {
    const { feed } = ctx;
    const isFor = selection(ctx, query);
    const frameFor = (change: FeedChange) => change.frame(!isTenantWide(asOfNow(ctx.principal, ctx.view)));
    const send = (change: FeedChange): void => {
      if (!isFor(change)) return;
      if (channel.isFull) channel.closeSlow();
      else channel.send(frameFor(change));
    };
    const start = query.cursor === undefined ? undefined : parseCursor(query.cursor);
    channel.send({ type: 'ready', cursor: feed.cursor() });
    if (start !== undefined) {
      const { changes, lost } = feed.since(ctx.tenant, start);
      const missed = framesOf(changes.filter(isFor).map((change) => () => frameFor(change)));
      const isCut = lost || missed === undefined || joinedAfter(start.revision, ctx, query);
      if (isCut) channel.send({ type: 'gap', dropped: uncounted });
      // missed changes are sent at once, so that the live changes follow them without a gap
      if (missed !== undefined) channel.sendAll(missed);
    }
    using subscriptions = new DisposableStack();
    subscriptions.defer(feed.subscribe({ tenant: ctx.tenant, changed: send }));
    subscriptions.defer(
      ctx.mirror.subscribe((change) => {
        if (movesReader(ctx, query, change)) channel.send({ type: 'gap', dropped: uncounted });
      }),
    );
    await untilClosed(channel.signal);
    return 'closed';
  },
});

/** Frames as they are made; `undefined` if they take more than may be sent at once. */
function framesOf(makers: readonly (() => PreparedFrame)[]): PreparedFrame[] | undefined {
  const frames: PreparedFrame[] = [];
  let bytes = 0;
  for (const make of makers) {
    const frame = make();
    bytes += frame.encoded.length;
    if (bytes > missedBytes) return undefined;
    frames.push(frame);
  }
  return frames;
}

/** Selects the changes that this reader may see and asked for; rights are checked at the time of the change. */
function selection({ principal, view }: StreamContext, query: WatchQuery): (change: FeedChange) => boolean {
  const kinds = query.kinds === undefined ? undefined : new Set<ResourceKind>(query.kinds);
  const { projectId } = query;
  return ({ kind, project, server }) => {
    if (kinds !== undefined && !kinds.has(kind)) return false;
    if (projectId !== undefined && project?.meta.id !== projectId) return false;
    const now = asOfNow(principal, view);
    if (isTenantWide(now)) return true;
    if (project !== undefined) return projectRole(now, project, view) !== undefined;
    return server !== undefined && mayUse(now, server, view);
  };
}

/**
 * Whether a project may have become visible since `start`: the feed returns only those of its objects that changed
 * later.
 */
function joinedAfter(start: Revision, { principal, view }: StreamContext, { projectId }: WatchQuery): boolean {
  return view
    .by('member', 'user', principal.user.meta.id)
    .some(
      ({ meta, desired }) => meta.desiredRevision > start && (projectId ?? desired.project_id) === desired.project_id,
    );
}

/**
 * Whether the reader joined or left a project, or has another role in it. Its objects did not change, but must be shown
 * or hidden, or masked otherwise; the reader finds them by reading the lists again.
 */
function movesReader({ principal, view, tenant }: StreamContext, query: WatchQuery, change: ObjectChange): boolean {
  if (change.part !== 'desired' || change.tenant !== tenant) return false;
  const { before, after } = change;
  const member = after ?? before;
  if (!isKind(member, 'member')) return false;
  if (isKind(before, 'member') && isKind(after, 'member') && before.desired.role === after.desired.role) return false;
  const { project_id, user_id } = member.desired;
  if (user_id !== principal.user.meta.id || (query.projectId ?? project_id) !== project_id) return false;
  return !isTenantWide(asOfNow(principal, view)) && view.get('project', project_id) !== undefined;
}
