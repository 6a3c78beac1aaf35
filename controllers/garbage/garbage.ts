import { setImmediate as turn } from 'node:timers/promises';
import { wait } from '../../time/clock.ts';
import { committed } from '../../store/commit-failure.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { isKindName, kinds as declared, type KindName } from '../../store/kinds/kinds.ts';
import type { ObjectChange } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Term } from '../runtime/leader.ts';
import { limits } from '../runtime/limits.ts';
import type { Background, BackgroundDeps } from '../runtime/manager.ts';
import { KeyedQueue, type After } from '../runtime/queue.ts';
import { removeOrphans } from './orphans.ts';
import { dependsOnHolder, dependsOnUsers, isExpired, judge, surplus, suspects, type Verdict } from './verdict.ts';

const allKinds = Object.keys(declared) as KindName[]; // the keys of `kinds` are the names

/**
 * Requests the deletion of objects that should not be kept any more: those whose blocking owner is deleted, histories
 * beyond their bound, expired objects. The mirror finds them, the store decides: no deletion rests on the mirror alone.
 */
export const garbage: Background = {
  name: 'garbage',
  async run(term, deps) {
    const { mirror, clock, random, log, pool, metrics } = deps;
    await using queue = new KeyedQueue({
      name: 'garbage',
      concurrency: limits.garbage.concurrency,
      pool,
      clock,
      random,
      log,
      run: (key, signal) => collect(key, term, deps, signal),
    });
    using subscriptions = new DisposableStack();
    subscriptions.defer(metrics.observe(queue));
    subscriptions.defer(mirror.subscribe((change) => onChange(change, queue, deps)));
    await Promise.all([sweeps(queue, term, deps), orphanSweeps(term, deps)]);
  },
};

function onChange(change: ObjectChange, queue: KeyedQueue, { mirror, expiryTime, log }: BackgroundDeps): void {
  const { tenant } = change;
  const view = mirror.tenant(tenant);
  const now = expiryTime();
  try {
    for (const it of suspects(change, view, allKinds)) if (judge(it, view, now) !== undefined) add(queue, it);
  } catch (error) {
    log.error(
      { err: error, kind: change.kind, id: change.id },
      'Cannot check a changed object for garbage: the next sweep checks it',
    );
  }
}

function add(queue: KeyedQueue, { meta: { tenant, kind, id } }: ReadonlyResource): void {
  queue.add(`${tenant}/${kind}/${id}`, { priority: limits.queue.backgroundPriority });
}

/** Finds what no change announces: what has expired, and what changed while there was no leader. Ends by throwing. */
async function sweeps(queue: KeyedQueue, term: Term, deps: BackgroundDeps): Promise<void> {
  for (;;) {
    await sweep(queue, deps);
    await wait(deps.clock, limits.garbage.sweepMs, term.signal);
  }
}

async function sweep(queue: KeyedQueue, { mirror, expiryTime, log }: BackgroundDeps): Promise<void> {
  const now = expiryTime();
  for (const tenant of mirror.tenants()) {
    const view = mirror.tenant(tenant);
    for (const kind of allKinds) {
      let judged = 0;
      for (const it of view.list(kind)) {
        try {
          if (judge(it, view, now) !== undefined) add(queue, it);
        } catch (error) {
          log.error({ err: error, kind, id: it.meta.id }, 'Cannot judge an object, which is a bug: it is kept');
        }
        if (++judged % limits.garbage.pageSize === 0) await turn();
      }
    }
  }
}

async function orphanSweeps(term: Term, deps: BackgroundDeps): Promise<void> {
  const seen = new Map();
  for (;;) {
    try {
      await removeOrphans(seen, term, deps);
    } catch (error) {
      if (term.signal.aborted) throw error;
      deps.log.warn({ err: error }, 'Cannot look for all orphaned keys: the next sweep tries again');
    }
    await wait(deps.clock, limits.garbage.orphanSweepMs, term.signal);
  }
}

/** Judges once more, now by the store, and requests the deletion guarded by what was read there. */
async function collect(key: string, term: Term, deps: BackgroundDeps, signal: AbortSignal): Promise<After> {
  const [tenant, kind, id] = key.split('/');
  if (tenant === undefined || kind === undefined || id === undefined || !isKindName(kind)) return { after: 'nothing' };
  const view = deps.mirror.tenant(tenant);
  const it = view.get(kind, id);
  const verdict = it && judge(it, view, deps.expiryTime());
  if (it === undefined || verdict === undefined) return { after: 'nothing' };
  const repository = deps.repository(tenant);
  const unit = repository.begin();
  unit.guard(term.fence);
  try {
    if (!(await isConfirmed(verdict, it, { repository, unit, deps, signal }))) return { after: 'failure' };
    signal.throwIfAborted();
    unit.requestDelete(it);
    committed(await unit.commit());
  } catch (error) {
    if (isConflict(error) || isUnavailable(error)) return { after: 'failure' };
    throw error;
  }
  deps.metrics.collected.inc({ kind, cause: verdict.cause });
  deps.log.info({ kind, id, cause: verdict.cause }, 'Garbage is deleted');
  return { after: 'nothing' };
}

/** Whether the store agrees with the mirror; the unit then guards that it still does at the commit. */
async function isConfirmed(
  verdict: Verdict,
  it: ReadonlyResource,
  { repository, unit, deps, signal }: { repository: Repository; unit: Unit; deps: BackgroundDeps; signal: AbortSignal },
): Promise<boolean> {
  const { tenant } = it.meta;
  switch (verdict.cause) {
    case 'expired': {
      if (!dependsOnUsers(it.meta.kind)) return true;
      const { store, mirror, expiryTime } = deps;
      await unit.holdPopulation(it);
      await mirror.reached(await store.revision(), signal);
      return isExpired(it, mirror.tenant(tenant), expiryTime());
    }
    case 'owner': {
      const { kind, id } = verdict.owner;
      const owner = await repository.get(kind, id);
      if (owner === undefined) unit.guard({ key: keys.desired(tenant, kind, id), is: 'absent' });
      else unit.require(owner);
      return !isStaying(owner);
    }
    case 'surplus': {
      const { kind, id } = it.meta;
      if (!dependsOnHolder(kind)) return true;
      const holder = await repository.get(verdict.holder.kind, verdict.holder.id);
      if (holder === undefined) return false;
      unit.require(holder);
      const all = deps.mirror.tenant(tenant).by(kind, holder.meta.kind, holder.meta.id);
      return surplus(kind, holder, all).some(({ meta }) => meta.id === id);
    }
  }
}
