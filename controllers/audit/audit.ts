import { installationLog } from '../../store/audit/record.ts';
import { newestChained, parseChained, timeOf } from '../../store/audit/chain.ts';
import { retentionClock } from '../../agent-protocol/retention-clock.ts';
import { wait } from '../../time/clock.ts';
import { parseKey } from '../../store/keys.ts';
import type { Guard } from '../../store/store.ts';
import { openTenantGuard } from '../../store/tenants.ts';
import { aborted } from '../runtime/aborted.ts';
import type { Term } from '../runtime/leader.ts';
import { limits } from '../runtime/limits.ts';
import type { Background, BackgroundDeps } from '../runtime/manager.ts';
import { chainPending } from './chain.ts';
import { forgetOld } from './forget.ts';

export interface AuditRetention {
  keepMs: number;
  /** Most records of each tenant. */
  maxRecords: number;
}

/**
 * Chains the audit records of all tenants and forgets the oldest. Writers of records do not conflict, as each record
 * has its own key; this single writer adds the order and the hashes later. At rest it only reads.
 */
export function audit(retention: AuditRetention): Background {
  return {
    name: 'audit',
    async run(term, deps) {
      const { mirror, clock, log } = deps;
      const due = new Set<string>();
      let wake = Promise.withResolvers<void>();
      const add = (tenant: string): void => {
        due.add(tenant);
        wake.resolve();
      };
      using subscriptions = new DisposableStack();
      subscriptions.defer(
        mirror.subscribeKeys(({ key }) => {
          const meaning = parseKey(key);
          if (meaning?.area === 'audit') add(meaning.tenant);
        }),
      );

      const chain = async (): Promise<void> => {
        let pauseMs: number = limits.audit.gatherMs;
        for (;;) {
          await Promise.race([wake.promise, aborted(term.signal)]);
          await wait(clock, pauseMs, term.signal);
          pauseMs = limits.audit.gatherMs;
          const tenants = [...due];
          due.clear();
          wake = Promise.withResolvers<void>();
          for (const tenant of tenants) {
            if (await chainOne(tenant, term, deps)) continue;
            pauseMs = limits.audit.failureMs;
            add(tenant);
          }
        }
      };
      const tenants = (): string[] => [installationLog, ...mirror.tenants()];
      const sweep = async (): Promise<void> => {
        let time: (() => number) | undefined;
        for (;;) {
          time ??= await retentionTime(tenants(), term, deps);
          for (const tenant of tenants()) {
            add(tenant);
            if (time !== undefined) await forgetIn(tenant, time() - retention.keepMs, retention, term, deps);
          }
          await wait(clock, limits.audit.sweepMs, term.signal);
        }
      };
      await Promise.all([chain(), sweep()]);
      log.debug('Audit records are not chained any more');
    },
  };
}

/** The guards of a tenant's writes. `undefined` if it is deleted or being deleted: a write would fill it again. */
function guardsOf(tenant: string, term: Term, mirror: BackgroundDeps['mirror']): Guard[] | undefined {
  if (tenant === installationLog) return [term.fence];
  const open = openTenantGuard(mirror, tenant);
  return open && [term.fence, open];
}

/** Chains the records of one tenant. @returns false if that has to be tried again. */
async function chainOne(tenant: string, term: Term, { store, log, mirror }: BackgroundDeps): Promise<boolean> {
  const guards = guardsOf(tenant, term, mirror);
  if (guards === undefined) return true;
  try {
    const done = await chainPending(store, tenant, guards, term.signal);
    if (done?.mended === true)
      log.error(
        { tenant },
        'The head of the audit log did not match its records: verify the log by `setpoint audit verify`',
      );
    return done !== undefined;
  } catch (error) {
    if (term.signal.aborted) throw error;
    log.warn({ tenant, err: error }, 'Cannot chain all audit records: the next pass tries again');
    return false;
  }
}

/** The clock by which the age of records is measured; `undefined` while the newest record cannot be read. */
async function retentionTime(
  tenants: readonly string[],
  term: Term,
  { store, clock, log }: BackgroundDeps,
): Promise<(() => number) | undefined> {
  try {
    let newest: number | undefined;
    for (const tenant of tenants) {
      term.signal.throwIfAborted();
      const { entry } = await newestChained(store, tenant);
      const at = entry && timeOf(parseChained(entry.value));
      if (at !== undefined && !Number.isNaN(at)) newest = Math.max(newest ?? at, at);
    }
    return retentionClock(clock, newest);
  } catch (error) {
    if (term.signal.aborted) throw error;
    log.warn({ err: error }, 'Cannot find old audit records: the next pass tries again');
    return undefined;
  }
}

async function forgetIn(
  tenant: string,
  before: number,
  { maxRecords }: AuditRetention,
  term: Term,
  { store, log, mirror, metrics }: BackgroundDeps,
): Promise<void> {
  const guards = guardsOf(tenant, term, mirror);
  if (guards === undefined) return;
  try {
    const done = await forgetOld(store, tenant, { before, maxRecords }, guards, term.signal);
    if (done === undefined || done.early === 0) return;
    metrics.auditForgottenEarly.inc(done.early);
    log.warn(
      { tenant, records: done.early, maxRecords },
      'Audit records were removed before their time, as there are too many',
    );
  } catch (error) {
    if (term.signal.aborted) throw error;
    log.warn({ tenant, err: error }, 'Cannot remove all old audit records: the next pass tries again');
  }
}
