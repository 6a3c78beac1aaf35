import { wait } from '../../time/clock.ts';
import { auditWrite, installationLog } from '../../store/audit/record.ts';
import { committed } from '../../store/commit-failure.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { keys, parseKey } from '../../store/keys.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { limits as storeLimits } from '../../store/store.ts';
import type { Guard, KeyRange } from '../../store/store.ts';
import { deletingTenants, deletionRequestedAt } from '../../store/tenants.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { removalPatience } from '../backup-destination/removal.ts';
import { aborted } from '../runtime/aborted.ts';
import { limits } from '../runtime/limits.ts';
import type { Term } from '../runtime/leader.ts';
import type { Background, BackgroundDeps } from '../runtime/manager.ts';
import { Since } from '../runtime/since.ts';
import { plan } from './plan.ts';

/**
 * Deletes tenants: first every object, through its finalizers, so that servers remove what runs there; then the keys
 * that are left; at last the record of the tenant, which frees its name.
 *
 * It keeps no state that matters: each pass looks at the store's content, so a crash may end it at any write. Nothing
 * can be added to a tenant meanwhile: the API guards its writes by the tenant's record from before the deletion, and
 * controllers and the gateway guard theirs by the object that they write for.
 */
export const tenantDeletion: Background = {
  name: 'tenant-deletion',
  async run(term, deps) {
    const { mirror, clock } = deps;
    const since = new Since(clock);
    let changed = Promise.withResolvers<void>();
    using subscriptions = new DisposableStack();
    subscriptions.defer(
      mirror.subscribeKeys(({ key }) => {
        if (parseKey(key)?.area === 'tenant') changed.resolve();
      }),
    );
    while (!term.signal.aborted) {
      changed = Promise.withResolvers();
      const deleting = deletingTenants(mirror);
      for (const name of deleting) await advance(name, since.ms(name, 'deleting', true), term, deps);
      for (const name of since.keys()) if (!deleting.includes(name)) since.forget(name);
      const pause = deleting.length === 0 ? aborted(term.signal) : wait(clock, limits.tenants.everyMs, term.signal);
      await Promise.race([changed.promise, pause.catch(() => undefined)]);
    }
  },
};

/** Folders that a line of the log names. */
const mostFoldersLogged = 100;

/** One pass over one tenant, which has been deleting for `lastedMs`; the next pass repeats what failed. */
async function advance(tenant: string, lastedMs: number, term: Term, deps: BackgroundDeps): Promise<void> {
  const { mirror, clock, log } = deps;
  try {
    const { agentPatienceMs, bucketPatienceMs } = limits.tenants;
    // leaders change within a day: it is counted from the request, and each leader tries for some time
    const requestedMs = clock.now().getTime() - Date.parse(deletionRequestedAt(mirror, tenant) ?? '');
    const overdue = {
      agents: lastedMs >= agentPatienceMs,
      buckets: requestedMs >= bucketPatienceMs && lastedMs >= removalPatience.triedMs,
    };
    const { request, givenUp, left } = plan(mirror.tenant(tenant), overdue);
    for (const { destination, folders } of givenUp) {
      const { name, bucket, path_prefix } = destination.desired;
      log.warn(
        {
          tenant,
          destination: name,
          bucket,
          path_prefix,
          folders: folders.slice(0, mostFoldersLogged),
          count: folders.length,
        },
        'A bucket did not let the backups of a deleted tenant be removed in time: what it has in these folders stays there until it is removed by hand',
      );
    }
    const audited = new Set<ReadonlyResource>(givenUp.map(({ destination }) => destination));
    for (const it of request) await requestDelete(it, term, deps, { isAudited: audited.has(it) });
    if (left === 0) await removeRest(tenant, term, deps);
  } catch (error) {
    if (term.signal.aborted) return;
    if (isConflict(error) || isUnavailable(error)) log.debug({ tenant, err: error }, 'Tenant is deleted later');
    else log.error({ tenant, err: error }, 'Cannot go on deleting a tenant: the next pass tries again');
  }
}

/** @param isAudited it is in the operator's audit log, as that of the tenant goes with it */
async function requestDelete(
  it: ReadonlyResource,
  term: Term,
  { repository, clock }: BackgroundDeps,
  { isAudited }: { isAudited: boolean },
): Promise<void> {
  term.signal.throwIfAborted();
  const unit = repository(it.meta.tenant).begin();
  unit.guard(term.fence);
  unit.requestDelete(it);
  if (isAudited) {
    const { kind, id, desiredRevision } = it.meta;
    const route = 'controller tenant-deletion';
    const record = { v: 1, at: clock.now().toISOString(), route, result: 'ok', tenant: installationLog } as const;
    const name = 'name' in it.desired ? it.desired.name : id;
    const objects = [{ kind, id, name, action: 'delete' as const }];
    unit.write(auditWrite({ ...record, role: 'operator', objects }, uuidv5(id, `${route} ${desiredRevision}`)));
  }
  const result = await unit.commit();
  // If another writer changed the object meanwhile, the next pass deletes it.
  if (!result.committed && result.failed.some(({ guard }) => guard.key === term.fence.key)) committed(result);
}

/** Removes keys that belong to no object, such as stored answers, and then the record of the tenant. */
async function removeRest(tenant: string, term: Term, { store, mirror, log }: BackgroundDeps): Promise<void> {
  const record = mirror.key(keys.tenant(tenant));
  if (record === undefined) return;
  const guards: Guard[] = [term.fence, { key: keys.tenant(tenant), is: 'at', revision: record.revision }];
  if (!(await clear(keys.ofTenant(tenant)))) return;
  const result = await store.txn({ if: guards, then: [{ delete: keys.tenant(tenant) }] });
  if (result.committed) log.info({ tenant }, 'Tenant is deleted');

  /** Deletes all keys of the range. @returns whether it is empty now. */
  async function clear(range: KeyRange): Promise<boolean> {
    for (;;) {
      term.signal.throwIfAborted();
      const { entries } = await store.list(range, { limit: storeLimits.operations - guards.length });
      if (entries.length === 0) return true;
      const { committed: isDone } = await store.txn({ if: guards, then: entries.map(({ key }) => ({ delete: key })) });
      if (!isDone) return false;
    }
  }
}
