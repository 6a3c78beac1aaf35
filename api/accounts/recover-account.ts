import { touchedBy } from '../../store/audit/mention.ts';
import { auditWrite } from '../../store/audit/record.ts';
import type { Clock } from '../../time/clock.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { isStaying } from '../../store/resource.ts';
import { openRepository } from '../../store/repo.ts';
import type { Store } from '../../store/store.ts';
import { commit } from '../../store/unit.ts';
import { notFound } from '../ground/api-error.ts';
import { createRequestRepository } from '../endpoint/request-repository.ts';
import { afterWriting } from '../http/to-api-error.ts';
import type { Random } from '../ground/random.ts';
import type { Passwords } from '../auth/passwords.ts';
import { revokeKeys } from './revoke-keys.ts';
import { endLateSessions, endOtherSessions } from './sessions.ts';

interface Dependencies {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  random: Random;
  passwords: Passwords;
  fresh: () => Promise<void>;
}

/** The account, and the route under which the audit log records the change. */
interface Recovered {
  tenant: string;
  email: string;
  route: string;
  /** Whether the service keys of the account stay valid. */
  keys: 'kept' | 'revoked';
}

/**
 * Sets a new password, which the user must change before anything else, ends the sessions and revokes the service keys.
 * It is for a user who lost every credential, and for an account that a stranger has got into. Returns the password.
 * @throws ApiError NOT_FOUND
 */
export async function resetPassword(deps: Dependencies, tenant: string, email: string): Promise<string> {
  const password = deps.random.bytes(15).toString('base64url');
  const password_hash = await deps.passwords.hash(password);
  const account = { tenant, email, route: 'POST /cluster/v1/users/reset-password', keys: 'revoked' } as const;
  await change(deps, account, (draft) => Object.assign(draft, { password_hash, must_reset_password: true }));
  return password;
}

/** Removes the second factor of an account and ends its sessions; returns `false` if it had none. */
export async function resetTwoFactor(deps: Dependencies, tenant: string, email: string): Promise<boolean> {
  let wasEnabled = false;
  const account = { tenant, email, route: 'POST /cluster/v1/users/reset-two-factor', keys: 'kept' } as const;
  await change(deps, account, (draft) => {
    wasEnabled = draft.two_factor_enabled;
    draft.two_factor_enabled = false;
    delete draft.two_factor;
  });
  return wasEnabled;
}

/** What is ended in one transaction: each takes a guard and three deletions. */
const endedPerTransaction = 10;

/**
 * Ends every session and every service key of a tenant. It is for a store that was restored: what was ended since its
 * backup is valid again in it. Returns how many there were.
 * @throws ApiError NOT_FOUND; conflict, where one of them ended meanwhile: the rest is ended by another call
 */
export async function endAllAccess(deps: Dependencies, tenant: string): Promise<{ sessions: number; keys: number }> {
  const route = 'POST /cluster/v1/users/end-sessions';
  const { view, repo, fresh, commit } = await contextOf(deps, tenant, route);
  const ended = { sessions: 0, keys: 0 };
  // sessions first, as they make keys; then what was made meanwhile
  for (let pass = 0; pass < 2; pass++) {
    await fresh();
    const sessions = view.list('session').filter(isStaying);
    const serviceKeys = view.list('service_key').filter(isStaying);
    const all = [...sessions, ...serviceKeys];
    for (let n = 0; n < all.length; n += endedPerTransaction) {
      const unit = repo.begin();
      for (const it of all.slice(n, n + endedPerTransaction)) unit.requestDelete(it);
      await commit(unit, () => undefined);
    }
    ended.sessions += sessions.length;
    ended.keys += serviceKeys.length;
  }
  return ended;
}

/** @throws ApiError NOT_FOUND; conflict */
async function change(
  deps: Dependencies,
  { tenant, email, route, keys: serviceKeys }: Recovered,
  edit: (draft: DesiredOf<'user'>) => void,
): Promise<void> {
  const ctx = await contextOf(deps, tenant, route);
  const { view, repo } = ctx;
  const id = await repo.idByName('user', 'all', email.trim());
  const user = id === undefined ? undefined : view.get('user', id);
  if (user === undefined) throw notFound('User');
  // revoke before the change, so that no key survives it, and again after it, for keys that were made meanwhile
  if (serviceKeys === 'revoked') await revokeKeys(ctx, user.meta.id);
  const unit = repo.begin();
  unit.change(user, edit);
  await endOtherSessions(ctx, unit, user.meta.id, undefined);
  await ctx.commit(unit, () => undefined);
  await afterWriting(async () => {
    await endLateSessions(ctx, user.meta.id, undefined);
    if (serviceKeys === 'revoked') await revokeKeys(ctx, user.meta.id);
  });
}

/**
 * What the parts of a change by the operator need; each of its transactions is recorded.
 * @throws ApiError NOT_FOUND
 */
async function contextOf({ store, mirror, clock, random, fresh }: Dependencies, tenant: string, route: string) {
  await fresh();
  if (mirror.key(keys.tenant(tenant)) === undefined) throw notFound('Tenant');
  const { repo, committable } = createRequestRepository(openRepository(store, tenant, clock));
  const record = (unit: Unit): void => {
    const { objects, isEmpty } = unit.changes();
    if (isEmpty) return;
    const touched = touchedBy(objects);
    const at = clock.now().toISOString();
    unit.write(auditWrite({ v: 1, at, route, result: 'ok', tenant, role: 'operator', objects: touched }, random.id()));
  };
  return {
    view: mirror.tenant(tenant),
    repo,
    fresh,
    commit: async <T>(unit: Unit, answer: () => T): Promise<T> => {
      record(unit);
      await commit(committable(unit));
      return answer();
    },
  };
}
