import type { ApplyCommit, CommitPlan, Refused } from '../../store/declared/commit.ts';
import { defined } from '../../store/defined.ts';
import { maxSyncKeys } from '../../store/kinds/sync.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { withPin } from '../../store/pinned-sync.ts';
import { followedBy, sourceOf, tagOf } from '../../store/sync-source.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { onChange } from '../runtime/wakes.ts';
import { announcedBy, newestAnnounced } from './announced.ts';
import { isDue, pauseOf, retryOf } from './looks.ts';
import type { Look, Unread } from './looks.ts';
import { filesOf, headOf, requireReader, Unreadable } from './repository.ts';
import type { Head } from './repository.ts';
import {
  changedByHand,
  cleared,
  conditionsOf,
  decide,
  differing,
  known,
  replacement,
  runOf,
  toBeForced,
  unplanned,
  withRun,
} from './states.ts';
import type { Observed, Sync } from './states.ts';
import { Texts } from './texts.ts';
import type { KeptCommit } from './texts.ts';

/** In milliseconds. */
const pace = {
  /** What was changed is compared again at most so often between two looks. */
  compareMs: 1000,
  /** An agent that is away or busy, or a full budget, is tried again after that time, unless the next look comes before. */
  awayMs: 30_000,
  /** What something has to be gone for is tried again after that time, and then after twice the time each. */
  partlyMs: 5000,
  /** The files of a commit that cannot be read are asked for again after that time. */
  unreadMs: 600_000,
} as const;

/** Names the declarations of a sync at the objects that it has applied. */
function managerOf(id: string): string {
  return `sync/${id}`;
}

/** Syncs that have applied an object. */
function syncsOf({
  desired,
}: {
  readonly desired: { readonly declarations?: readonly { readonly manager: string }[] | undefined };
}): string[] {
  return (desired.declarations ?? []).flatMap(({ manager }) => {
    const [of, id = ''] = manager.split('/');
    return of === 'sync' ? [id] : [];
  });
}

/** Kinds of what a commit declares. */
const declaredKinds = ['environment', 'volume', 'database', 'application', 'function', 'template_instance'] as const;

function wakeOf<K extends (typeof declaredKinds)[number]>(kind: K) {
  return onChange(
    kind,
    ({ meta }: ReadonlyResource<K>) => [meta.generation, meta.deletionRequestedAt],
    (it) => syncsOf(it as Parameters<typeof syncsOf>[0]), // all of them have declarations
  );
}

/**
 * Looks at what a sync follows, reads what its head declares, plans it as a whole, applies it where it is to be, and says
 * what differs. Planning and applying is that of `POST /apply`.
 */
export function syncController({ agents, apply }: { agents: AgentCalls; apply: ApplyCommit }): Controller<'sync'> {
  const looks = new Map<string, Look>();
  const texts = new Texts();
  return {
    name: 'sync',
    kind: 'sync',
    // looks wait for git hosts
    concurrency: 48,
    shareOf: ({ desired }) => desired.project_id,
    reads: ['server', 'git_credential', 'git_webhook', 'webhook_delivery', ...declaredKinds],
    children: declaredKinds,
    notifies: ['sync_failed', 'sync_waiting', 'sync_recovered'],
    wakes: [
      ...declaredKinds.map((kind) => wakeOf(kind)),
      onChange(
        'webhook_delivery',
        ({ meta }) => meta.id,
        (it, view) => announcedBy(it, view).map(({ meta }) => meta.id),
      ),
    ],
    begin() {
      looks.clear();
      texts.clear();
    },
    async reconcile(it, ctx) {
      const key = `${ctx.tenant}/${it.meta.id}`;
      if (it.desired.is_paused) {
        looks.delete(key);
        const observed = known(it.observed);
        return { observed, conditions: conditionsOf(it.desired, observed), next: { settled: true } };
      }
      const { generation } = it.meta;
      const now = ctx.clock.monotonic();
      const look = looks.get(key);
      const mostMs = it.desired.interval_seconds * 1000;
      const announced = newestAnnounced(it, ctx.view);
      if (look === undefined || isDue(look, { generation, announced, now })) {
        const before = look?.generation === generation ? look : undefined;
        // a look that is cut short by an error is made again
        looks.delete(key);
        const done = await lookAt(it, { agents, apply, texts, unread: before?.unread }, ctx);
        await announce(it, done.observed, ctx);
        const { head } = done;
        if (head?.replaces !== undefined) ctx.event(it, replacement(head.seen, head.replaces));
        const { observed, lookMs = mostMs, retryMs: firstMs, unread } = done;
        const at = ctx.clock.monotonic();
        const retry = firstMs === undefined ? undefined : retryOf(before?.retry, { firstMs, mostMs, now: at });
        const dueAt = at + Math.min(lookMs, mostMs);
        const next: Look = { generation, announced, dueAt, comparedAt: at, retry, unread };
        looks.set(key, next);
        return verdict(it, observed, pauseOf(next, at));
      }
      const { commit_wanted: wanted } = it.observed ?? {};
      const kept = wanted === undefined ? undefined : texts.get(placeOf(it), wanted);
      if (kept === undefined) return verdict(it, known(it.observed), look.dueAt - now);
      const waitMs = look.comparedAt + pace.compareMs - now;
      if (waitMs > 0) return verdict(it, known(it.observed), Math.min(look.dueAt - now, waitMs));
      look.comparedAt = now;
      const { observed, retryMs: firstMs } = await bring(it, { ...kept, tag: tagOf(it, kept.commit) }, apply, ctx);
      await announce(it, observed, ctx);
      const at = ctx.clock.monotonic();
      look.retry = firstMs === undefined ? undefined : retryOf(look.retry, { firstMs, mostMs, now: at });
      return verdict(it, observed, pauseOf(look, at));
    },
    async finalize(it, ctx) {
      const key = `${ctx.tenant}/${it.meta.id}`;
      looks.delete(key);
      return { ...verdict(it, known(it.observed), 0), released: await leave(it, ctx) };
    },
  };
}

/** Most objects that a run leaves to themselves. */
const leavesAtOnce = 20;

/** What it made stays, and is declared by it no more. Returns whether nothing of it is left. */
async function leave(it: Sync, ctx: Context): Promise<boolean> {
  const manager = managerOf(it.meta.id);
  let left = leavesAtOnce;
  for (const kind of declaredKinds)
    for (const { meta, desired } of ctx.view.by(kind, 'project', it.desired.project_id)) {
      const isOfIt = desired.declarations?.some((one) => one.manager === manager) === true;
      if (!isOfIt || meta.deletionRequestedAt !== undefined) continue;
      if (left === 0) return false;
      left -= 1;
      await ctx.amend(kind, meta.id, (draft) => {
        const others = draft.declarations?.filter((one) => one.manager !== manager) ?? [];
        if (others.length > 0) draft.declarations = others;
        else delete draft.declarations;
      });
    }
  return true;
}

/** What is known after a look or a comparison. In milliseconds. */
interface Done {
  observed: Observed;
  /** The next look comes after that time; absent: after the interval. */
  lookMs?: number;
  /** What waits is tried again after that time, and then later and later; absent: nothing waits. */
  retryMs?: number;
  unread?: Unread;
  /** What a look saw. */
  head?: Head | undefined;
}

function verdict(it: Sync, observed: Observed, againMs: number): Verdict<'sync'> {
  return {
    observed,
    conditions: conditionsOf({ ...it.desired, is_paused: false }, observed),
    next: { again: Math.max(1, againMs), because: 'the time of its next look to come' },
  };
}

async function lookAt(
  it: Sync,
  {
    agents,
    apply,
    texts,
    unread,
  }: { agents: AgentCalls; apply: ApplyCommit; texts: Texts; unread: Unread | undefined },
  ctx: Context,
): Promise<Done> {
  let commit: string | undefined;
  let head: Head | undefined;
  try {
    requireReader(it, ctx);
    commit = it.desired.pinned_commit;
    if (commit === undefined) {
      head = await headOf(it, agents, ctx);
      commit = head.seen.commit;
    }
    if (unread?.commit === commit && unread.until > ctx.clock.monotonic())
      return withHead(failedOf(it, { ...unread, tag: tagSeen(it, commit, head) }, ctx), head);
    const place = placeOf(it);
    const kept = texts.get(place, commit) ?? (await filesOf(it, commit, agents, ctx));
    texts.set(place, kept);
    return withHead(await bring(it, { ...kept, tag: tagSeen(it, commit, head) }, apply, ctx), head);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    const { message, isPassing, lack } = error;
    // that an agent is away says nothing of what was applied
    if (isPassing) {
      const { lack: _, ...known } = unplanned(it, commit);
      return withHead({ observed: { ...known, message }, lookMs: pace.awayMs }, head);
    }
    if (commit === undefined)
      return { observed: { ...cleared(it.observed), phase: 'failed', message, ...defined({ lack }) } };
    const failed = { commit, message, tag: tagSeen(it, commit, head), until: ctx.clock.monotonic() + pace.unreadMs };
    return withHead(failedOf(it, failed, ctx), head);
  }
}

/** What is known after a look, with the head that it saw. */
function withHead(done: Done, head: Head | undefined): Done {
  if (head === undefined) return done;
  return { ...done, observed: { ...done.observed, head: head.seen }, head };
}

/** The tag by which a commit is known. */
function tagSeen(it: Sync, commit: string, head: Head | undefined): string | undefined {
  return head === undefined ? tagOf(it, commit) : head.seen.tag;
}

/** A commit whose files cannot be read has failed. */
function failedOf(it: Sync, { tag, ...unread }: Unread & { tag: string | undefined }, ctx: Context): Done {
  const { commit, message } = unread;
  const observed: Observed = { ...cleared(it.observed), commit_wanted: commit, phase: 'failed', message };
  const run = recordOf(it, { commit, message: '', tag }, 'failed', { at: ctx.clock.now(), message });
  return { observed: { ...handled(it, observed), runs: withRun(observed.runs, run) }, unread };
}

/** What became of a commit of what the sync reads, for its record. */
function recordOf(it: Sync, ...[read, outcome, of]: Parameters<typeof runOf>): ReturnType<typeof runOf> {
  return runOf(read, outcome, { ...of, source: sourceOf(it.desired) });
}

/** Names what is read: syncs of the same path of a branch or of tags share it, unless they are pinned or have variables. */
function placeOf({ meta: { tenant, id }, desired }: Sync): string {
  const { reader_id, repository_url, git_credential_id = '', path } = desired;
  const isOwn = (desired.pinned_commit ?? desired.variables ?? desired.secrets) !== undefined;
  const followed = followedBy(desired);
  return [tenant, reader_id, repository_url, followed, git_credential_id, path, isOwn ? id : ''].join(' ');
}

/** The request of a person counts as carried out. */
function handled({ desired: { request } }: Sync, observed: Observed): Observed {
  return request === undefined ? observed : { ...observed, handled_request: request.at };
}

/** As `handled`, by a commit that was applied: what was forced for it is used up. */
function carriedOut(it: Sync, observed: Observed): Observed {
  const { request } = it.desired;
  return request === undefined ? observed : { ...handled(it, observed), applied_request: request.at };
}

/** The files of a commit, with the tag by which it was found. */
interface Wanted extends KeptCommit {
  tag: string | undefined;
}

/** Plans a commit, and applies it where it is to be. A commit that cannot be planned changes nothing. */
async function bring(it: Sync, kept: Wanted, apply: ApplyCommit, ctx: Context): Promise<Done> {
  const { commit, files } = kept;
  const { project_id, usual_environment_id, key_id, prune, drift } = it.desired;
  const run = (isDryRun: boolean, force: readonly string[]) =>
    apply({
      tenant: ctx.tenant,
      project: project_id,
      environment: usual_environment_id,
      key: key_id,
      manager: managerOf(it.meta.id),
      files,
      sync: { id: it.meta.id, variables: it.desired.variables, secrets: it.desired.secrets },
      prune,
      force,
      corrects: drift === 'correct',
      isDryRun,
      fence: ctx.fence,
      signal: ctx.signal,
    });
  const fresh: Observed = { ...cleared(it.observed), commit_wanted: commit };
  const at = ctx.clock.now();
  const refused = ({ refused: message, isPassing }: Refused): Done => {
    // it says nothing of the commit, and what was asked for is still to be done
    if (isPassing) return { observed: { ...unplanned(it, commit), message }, retryMs: pace.awayMs };
    const runs = withRun(fresh.runs, recordOf(it, kept, 'failed', { at, message }));
    return { observed: handled(it, { ...fresh, phase: 'failed', message, runs }) };
  };
  const planned = await run(true, []);
  if ('refused' in planned) return refused(planned);
  const { plan } = planned;
  const base: Observed = { ...fresh, planned: { commit, generation: it.meta.generation } };
  const decision = decide(it, commit, plan);
  switch (decision.does) {
    case 'nothing':
      return { observed: inSync(it, kept, base, at) };
    case 'tell': {
      const differs = differing(plan);
      return { observed: { ...base, phase: 'drifted', differs, message: changedByHand(differs) } };
    }
    case 'wait': {
      const needs_force = decision.keys.slice(0, maxSyncKeys);
      const message = toBeForced(needs_force);
      const runs = withRun(base.runs, recordOf(it, kept, 'waiting', { at, plan, message }));
      const differs = differing(plan);
      return { observed: handled(it, { ...base, phase: 'waiting', differs, needs_force, message, runs }) };
    }
    case 'apply': {
      const applied = await run(false, decision.force);
      if ('refused' in applied) return refused(applied);
      return after(it, kept, base, { plan: applied.plan, at });
    }
  }
}

function inSync(it: Sync, kept: Wanted, base: Observed, at: Date): Observed {
  const [newest] = it.observed?.runs ?? [];
  const isElsewhere = newest?.source !== undefined && newest.source !== sourceOf(it.desired);
  const isKnown = it.observed?.commit_applied === kept.commit && !isElsewhere;
  const runs = isKnown ? base.runs : withRun(base.runs, recordOf(it, kept, 'unchanged', { at }));
  return carriedOut(it, { ...base, phase: 'in_sync', commit_applied: kept.commit, runs });
}

function after(it: Sync, kept: Wanted, base: Observed, { plan, at }: { plan: CommitPlan; at: Date }): Done {
  if (!plan.changes) return { observed: inSync(it, kept, base, at) };
  const waits = plan.steps.filter(({ waits_for }) => waits_for !== null);
  const [first] = waits;
  if (first === undefined) {
    const runs = withRun(base.runs, recordOf(it, kept, 'applied', { at, plan }));
    return { observed: carriedOut(it, { ...base, phase: 'in_sync', commit_applied: kept.commit, runs }) };
  }
  // it is applied again once that is gone
  const { commit_applied: _applied, ...rest } = base;
  const message = `${first.key} waits: ${first.waits_for ?? ''}`;
  const runs = withRun(base.runs, recordOf(it, kept, 'partly', { at, plan, message }));
  const differs = waits.map(({ key }) => key).slice(0, maxSyncKeys);
  const observed: Observed = { ...rest, phase: 'waiting', differs, message, runs };
  // what was forced of the commit stays forced until it is done
  const isOpen = waits.some(({ loses_data }) => loses_data !== null);
  return { observed: isOpen ? observed : carriedOut(it, observed), retryMs: pace.partlyMs };
}

async function announce(it: Sync, now: Observed, ctx: Context): Promise<void> {
  const before = it.observed?.phase;
  const { name } = it.desired;
  const key = `${it.meta.id}/${now.phase}/${now.commit_wanted ?? ''}/${it.meta.observedRevision ?? 0}`;
  const message = withPin(now.message ?? '', it.desired.pinned_commit);
  if (now.phase === 'failed' && before !== 'failed') {
    ctx.event(it, { type: 'warning', reason: 'SyncFailed', message });
    await ctx.notify(it, key, { type: 'sync_failed', severity: 'error', title: `Sync ${name} failed`, message });
  }
  if (now.needs_force.length > 0 && (it.observed?.needs_force ?? []).length === 0)
    await ctx.notify(it, key, {
      type: 'sync_waiting',
      severity: 'warning',
      title: `Sync ${name} waits for you`,
      message,
    });
  if (before === 'failed' && now.phase === 'in_sync')
    await ctx.notify(it, key, {
      type: 'sync_recovered',
      severity: 'info',
      title: `Sync ${name} works again`,
      message: `Commit ${now.commit_applied?.slice(0, 12) ?? ''} is applied`,
    });
}
