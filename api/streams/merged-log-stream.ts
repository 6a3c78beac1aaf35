import PQueue from 'p-queue';
import { z } from 'zod';
import type { LogFollow } from '../../agent-protocol/logs.ts';
import { keys } from '../../store/keys.ts';
import type { ObjectChange } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { asOfNow } from '../auth/authenticate.ts';
import { projectRole } from '../rights/authorize.ts';
import { Reference } from '../resources/object-fields.ts';
import { lineConditions, listOf, LogsQuery } from '../workloads/log-query.ts';
import type { Channel } from './channel.ts';
import type { LogSource } from './log-frames.ts';
import { LogMerge } from './log-merge.ts';
import type { MergedSource } from './log-merge.ts';
import { LogTail } from './log-tail.ts';
import { mergedCursorOf, parseMergedCursor, startCursor } from './merged-cursor.ts';
import type { MergedPosition } from './merged-cursor.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { untilClosed } from './until-closed.ts';

const limits = {
  /** Sources of one stream; further ones wait until one of them leaves. */
  sources: 32,
  /** Sources whose stored lines are read at once. */
  reads: 4,
  pendingLines: 250,
  pendingBytes: 1024 * 1024,
  pageLines: 1000,
  /** A source whose agent is away begins so long before the stream: the clock of its server may be behind. */
  marginMs: 60_000,
} as const;

/** What is sent unless the reader names streams: not the lines of builds. */
const outputStreams = ['stdout', 'stderr', 'system'];

/** Kinds whose objects have lines. */
const kinds = ['application', 'database', 'function'] as const;
type Logging = ReadonlyResource<(typeof kinds)[number]>;

function isLogging(it: ReadonlyResource | undefined): it is Logging {
  return kinds.some((kind) => isKind(it, kind));
}

const MergedQuery = LogsQuery.pick({ level: true, search: true, stream: true }).extend({
  projectId: Reference.optional(),
  ids: z
    .string()
    .max(limits.sources * 37)
    .transform((text) => text.split(','))
    .pipe(z.array(Reference).max(limits.sources))
    .optional()
    .meta({ override: { type: 'string', description: `Up to ${limits.sources} ids, with commas between` } }),
  kinds: listOf(kinds).optional(),
  tail: z.coerce.number().int().min(0).max(500).default(50).meta({ description: 'Stored lines of each resource' }),
  cursor: z.string().max(2000).optional(),
});
type MergedQuery = z.infer<typeof MergedQuery>;

export const mergedLogs = defineStream({
  path: '/ws/logs',
  summary:
    'Output of all applications, databases and functions that one may read, or of some: their last lines, then live ones, in the order of their times',
  query: MergedQuery,
  check(_ctx, { query }) {
    if (query.cursor !== undefined) parseMergedCursor(query.cursor);
  },
  async run(ctx, { query, channel }) {
    channel.send({ type: 'ready', cursor: query.cursor ?? startCursor });
    const sources = new Sources(ctx, query, channel);
    using subscriptions = new DisposableStack();
    subscriptions.defer(ctx.mirror.subscribe((change) => sources.changed(change)));
    subscriptions.defer(ctx.mirror.subscribeKeys(({ key }) => sources.agentChanged(key)));
    sources.open();
    await Promise.race([sources.run(), sources.failed]);
    await untilClosed(channel.signal);
    return 'closed';
  },
});

interface Followed {
  it: Logging;
  source: LogSource;
  merged: MergedSource;
  stop: AbortController;
  /** Where lines begin on resumption while there is no position. */
  since: number;
  isAway: boolean;
}

/** Why a source is followed: from the opening of the stream, as a new object, or as the reader may read it now. */
type Cause = 'opened' | 'created' | 'changed';

/** The sources of one stream: what its reader may read and asked for, up to a limit, the oldest first. */
class Sources {
  readonly #ctx: StreamContext;
  readonly #query: MergedQuery;
  readonly #channel: Channel;
  readonly #merge: LogMerge;
  readonly #start: MergedPosition | undefined;
  readonly #openedAt: number;
  readonly #reads = new PQueue({ concurrency: limits.reads });
  readonly #followed = new Map<string, Followed>();
  readonly #failure = Promise.withResolvers<never>();
  /** Positions of the start of sources for which there is no room. */
  #carried = new Map<string, number>();
  #leftOut = 0;

  constructor(ctx: StreamContext, query: MergedQuery, channel: Channel) {
    this.#ctx = ctx;
    this.#query = query;
    this.#channel = channel;
    this.#merge = new LogMerge(channel, ctx.clock);
    this.#start = query.cursor === undefined ? undefined : parseMergedCursor(query.cursor);
    this.#openedAt = ctx.clock.now().getTime();
    this.#failure.promise.catch(() => undefined);
  }

  /** Rejects when a source fails with an error that is not of its agent. */
  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  /** Sends lines until the channel is closed. */
  run(): Promise<void> {
    return this.#merge.run(() => ({ type: 'cursor', cursor: this.#cursor() }));
  }

  /** What the stream depends on was changed: the choice is made again where that may change it. */
  changed(change: ObjectChange): void {
    if (change.part !== 'desired' || change.tenant !== this.#ctx.tenant || this.#channel.signal.aborted) return;
    const it = change.after ?? change.before;
    if (isLogging(it)) {
      const followed = this.#followed.get(change.id);
      const now = this.#ctx.view.get(it.meta.kind, change.id);
      const isWanted = now !== undefined && this.#isWanted(now);
      if (followed === undefined ? isWanted : !isWanted || followed.source.name !== now.desired.name)
        this.choose(change.before === undefined ? change.id : undefined);
    } else if (change.kind === 'project' || isOf(it, this.#ctx.principal.user.meta.id)) this.choose(undefined);
  }

  /** Tells the reader that the agent of sources is away, or back. */
  agentChanged(key: string): void {
    const { tenant } = this.#ctx;
    for (const followed of this.#followed.values())
      if (key === keys.agent(tenant, followed.it.desired.server_id)) this.#tellPresence(followed);
  }

  /** Follows what is wanted from the beginning of the stream. */
  open(): void {
    this.#choose(() => 'opened');
  }

  /** Follows what is wanted now, in place of what is no longer. `created`: the id of an object that is new. */
  choose(created: string | undefined): void {
    this.#choose((id) => (id === created ? 'created' : 'changed'));
  }

  #choose(causeOf: (id: string) => Cause): void {
    const wanted = this.#wanted();
    const chosen = new Map(wanted.map((it) => [it.meta.id, it]));
    for (const [id, followed] of this.#followed) {
      const now = chosen.get(id);
      if (now === undefined) this.#leave(id, followed);
      else {
        followed.it = now;
        followed.source.name = now.desired.name;
      }
    }
    for (const it of wanted) {
      if (this.#followed.size >= limits.sources) break;
      if (!this.#followed.has(it.meta.id)) this.#join(it, causeOf(it.meta.id));
    }
    this.#carried = new Map(
      wanted.flatMap(({ meta: { id } }): [string, number][] => {
        const position = this.#followed.has(id) ? undefined : this.#start?.positions.get(id);
        return position === undefined ? [] : [[id, position]];
      }),
    );
    const leftOut = wanted.length - this.#followed.size;
    if (leftOut !== this.#leftOut)
      this.#channel.send({ type: 'limit', sources: this.#followed.size, left_out: leftOut });
    this.#leftOut = leftOut;
  }

  #wanted(): Logging[] {
    const { view } = this.#ctx;
    const { ids, projectId } = this.#query;
    const all = kinds.flatMap((kind): readonly Logging[] =>
      ids !== undefined
        ? [...new Set(ids)].flatMap((id) => view.get(kind, id) ?? [])
        : projectId === undefined
          ? view.list(kind)
          : view.by(kind, 'project', projectId),
    );
    return all.filter((it) => this.#isWanted(it)).toSorted(byAge);
  }

  /** The reader asked for it and may read it now. */
  #isWanted(it: Logging): boolean {
    const { view, principal } = this.#ctx;
    const { ids, projectId, kinds: wanted } = this.#query;
    if (ids?.includes(it.meta.id) === false || wanted?.includes(it.meta.kind) === false) return false;
    const { project_id } = it.desired;
    if (projectId !== undefined && projectId !== project_id) return false;
    const project = view.get('project', project_id);
    return project !== undefined && projectRole(asOfNow(principal, view), project, view) !== undefined;
  }

  #join(it: Logging, cause: Cause): void {
    const { clock } = this.#ctx;
    const { id, kind } = it.meta;
    const source: LogSource = { kind, id, name: it.desired.name };
    const merged = this.#merge.add(source);
    const start = cause === 'opened' ? this.#start : undefined;
    const begun = cause === 'opened' ? this.#openedAt : clock.now().getTime();
    // The margin is in the time of a cursor: another one with each resumption would repeat lines.
    const since = start?.since ?? begun - limits.marginMs;
    const position = start?.positions.get(id);
    if (position !== undefined) merged.beginAt(position);
    const followed = { it, source, merged, stop: new AbortController(), since, isAway: false };
    this.#followed.set(id, followed);
    this.#channel.send({ type: 'source', state: 'joined', source });
    this.#tellPresence(followed);
    const tail = new LogTail(this.#ctx, {
      server: it.desired.server_id,
      follow: this.#followOf(id, cause),
      sink: merged.sink,
      begins: (after) => merged.beginAt(after),
      orSince: new Date(since).toISOString(),
      share: { ...limits, turn: (read) => this.#reads.add(read) },
    });
    const signal = AbortSignal.any([this.#channel.signal, followed.stop.signal]);
    tail.run(signal).catch(this.#failure.reject);
  }

  #followOf(id: string, cause: Cause): LogFollow {
    const conditions = lineConditions(this.#query, this.#ctx.clock);
    const all = { streams: outputStreams, ...conditions, workload_id: id };
    if (cause === 'created') return { ...all, tail: 0, after_seq: 0 };
    if (cause === 'changed') return { ...all, tail: 0 };
    if (this.#start === undefined) return { ...all, tail: this.#query.tail };
    const position = this.#start.positions.get(id);
    const since = new Date(this.#start.since).toISOString();
    return position === undefined ? { ...all, tail: 0, after_seq: 0, since } : { ...all, tail: 0, after_seq: position };
  }

  #leave(id: string, followed: Followed): void {
    followed.stop.abort();
    followed.merged.leave();
    this.#followed.delete(id);
    this.#channel.send({ type: 'source', state: 'left', source: followed.source });
  }

  #tellPresence(followed: Followed): void {
    const isAway = this.#ctx.view.agent(followed.it.desired.server_id) === undefined;
    if (isAway === followed.isAway) return;
    followed.isAway = isAway;
    this.#channel.send({ type: 'source', state: isAway ? 'away' : 'back', source: followed.source });
  }

  #cursor(): string {
    const all = [...this.#followed];
    const without = all.filter(([, { merged }]) => merged.position === undefined).map(([, { since }]) => since);
    const positions = all.flatMap(([id, { merged }]): [string, number][] =>
      merged.position === undefined ? [] : [[id, merged.position]],
    );
    const since = Math.min(this.#ctx.clock.now().getTime() - limits.marginMs, ...without);
    const carried = [...this.#carried].slice(0, limits.sources - positions.length);
    return mergedCursorOf({ since: Math.max(0, since), positions: new Map([...carried, ...positions]) });
  }
}

/** Whether it is the user, or a role of the user in a project. */
function isOf(it: ReadonlyResource | undefined, user: string): boolean {
  if (isKind(it, 'user')) return it.meta.id === user;
  return isKind(it, 'member') && it.desired.user_id === user;
}

function byAge(a: Logging, b: Logging): number {
  const [one, other] = [a.meta.createdAt + a.meta.id, b.meta.createdAt + b.meta.id];
  return one < other ? -1 : one > other ? 1 : 0;
}
