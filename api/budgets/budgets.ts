import { committed } from '../../store/commit-failure.ts';
import type { Clock } from '../../time/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import type { CommittableUnit, UnitEffect } from '../../store/unit-of-work.ts';
import { isKind } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import type { Bounds } from '../../store/settings.ts';
import type { Amount } from '../../store/usage.ts';
import type { Principal } from '../auth/principal.ts';
import { isTenantAdmin } from '../rights/authorize.ts';
import { createBuildTime } from './build-time.ts';
import type { BuildTime } from './build-time.ts';
import { createByteRate } from './byte-rate.ts';
import type { Capacity } from './capacity.ts';
import { createClones } from './clones.ts';
import { costOf, isAlwaysAllowed } from './effect.ts';
import type { Cost, Share } from './effect.ts';
import { createReservations } from './reservations.ts';
import { boundsOf, scopeName, storedBy } from './scope.ts';
import type { Scope } from './scope.ts';
import { createShortage } from './shortage.ts';

/** Use of a scope, in the units of its bounds. */
export interface Used {
  stored_bytes: number;
  written_bytes_per_minute: number;
  objects: number;
  build_minutes_per_day: number;
}

/** The one place that judges whether a transaction of a request fits into the budgets. */
export interface Budgets extends Disposable {
  /**
   * Commits the unit if there is room for it. The judgement is made in the turn of the event loop in which the
   * transaction is sent. Returns its revision, or `undefined` if there was nothing to write and none was sent. @throws
   * ApiError CONFLICT if it would store too much, TOO_MANY_REQUESTS if requests write too fast; any error of
   * `CommittableUnit.commit`.
   */
  commit(
    asked: { view: TenantView; caller: Principal | undefined },
    unit: CommittableUnit,
  ): Promise<Revision | undefined>;
  usedBy(view: TenantView, scope: Scope): Used;
  boundsOf(view: TenantView, scope: Scope): Bounds;
}

interface Dependencies {
  mirror: Mirror;
  clock: Clock;
  capacity: { readonly now: Capacity };
  /** Time limit of a build. */
  buildDeadlineMs: number;
}

/**
 * Share of the bounds of a tenant and of the installation that is kept back: from users, for admins; from admins, for
 * logins and deletions.
 */
const keptBack = { users: 0.1, admins: 0.02 } as const;
/** Share of the store that must be free for a write of users or admins; compaction frees room within minutes. */
const freeShare = { users: 0.2, admins: 0.1 } as const;
/** A change of an existing object may exceed the bound by this much: a stop or a rename gets through. */
const slack = { bytes: 1024, share: 0.1 } as const;
/** How long a reservation is held after an unknown outcome; by then the mirror shows the write. */
const unknownMs = 30_000;

export function createBudgets({ mirror, clock, capacity, buildDeadlineMs }: Dependencies): Budgets {
  const { usage } = mirror;
  const rate = createByteRate(clock);
  const reservations = createReservations();
  const builds = createBuildTime(mirror, clock, buildDeadlineMs);
  const clones = createClones(mirror);
  const shortage = createShortage(usage, clock);

  const judgeShare = (view: TenantView, caller: Principal, { scope, adds }: Share): void => {
    const bounds = boundsOf(view, scope, capacity.now);
    const kept = keptOf(scope, caller);
    const used = storedBy(usage, view, scope);
    const promised = reservations.of(scopeName(view.tenant, scope));
    const copying = clones.of(view, scope);
    const bytes = used.bytes + promised.bytes + copying.bytes + adds.bytes;
    const most = bounds.stored_bytes * (1 - kept);
    const isSmall = adds.objects <= 0 && adds.bytes <= slack.bytes && bytes <= most * (1 + slack.share);
    if (bounds.stored_bytes > 0 && adds.bytes > 0 && bytes > most && !isSmall)
      throw shortage.ofBytes(view, caller, scope, { bytes, most });
    const objects = used.objects + promised.objects + copying.objects + adds.objects;
    const mostObjects = Math.floor(bounds.objects * (1 - kept));
    if (bounds.objects > 0 && adds.objects > 0 && objects > mostObjects)
      throw shortage.ofObjects(view, caller, scope, { objects: used.objects, most: mostObjects });
  };

  const writersOf = ({ shares }: Cost, caller: Principal | undefined): Scope[] => [
    ...shares.map(({ scope }) => scope).filter(({ of }) => of !== 'user'),
    ...(caller === undefined ? [] : [{ of: 'user' as const, id: caller.user.meta.id }]),
  ];

  const judgeRate = (view: TenantView, caller: Principal, scopes: readonly Scope[]): void => {
    const least = isTenantAdmin(caller) ? freeShare.admins : freeShare.users;
    if (capacity.now.freeShare < least) throw shortage.ofRoom();
    for (const scope of scopes) {
      const most = boundsOf(view, scope, capacity.now).written_bytes_per_minute;
      const waitMs = rate.waitMs(scopeName(view.tenant, scope), most, keptOf(scope, caller));
      if (waitMs > 0) throw shortage.ofRate(view, scope, most, waitMs);
    }
  };

  const judge = (view: TenantView, caller: Principal | undefined, effect: UnitEffect): Cost => {
    const cost = costOf(view, usage, effect, caller?.user.meta.id);
    const writers = writersOf(cost, caller);
    if (caller !== undefined && !isAlwaysAllowed(effect)) {
      judgeRate(view, caller, writers);
      for (const share of cost.shares) judgeShare(view, caller, share);
      judgeBuilds(builds, view, capacity.now, effect);
    }
    for (const scope of writers)
      rate.add(
        scopeName(view.tenant, scope),
        boundsOf(view, scope, capacity.now).written_bytes_per_minute,
        cost.written,
      );
    return cost;
  };

  return {
    async commit({ view, caller }, unit) {
      let settle: (end: { revision?: Revision; isUnknown?: true }) => void = () => undefined;
      const sent = { is: false };
      try {
        const revision = committed(
          await unit.commit((effect) => {
            const cost = judge(view, caller, effect);
            settle = reserve(view, cost);
            sent.is = true;
          }),
        );
        settle({ revision });
        return sent.is ? revision : undefined;
      } catch (error) {
        settle(isUnavailable(error) ? { isUnknown: true } : {});
        throw error;
      }
    },
    usedBy(view, scope) {
      const { bytes, objects } = storedBy(usage, view, scope);
      return {
        stored_bytes: bytes,
        written_bytes_per_minute: Math.round(rate.level(scopeName(view.tenant, scope))),
        objects,
        build_minutes_per_day: Math.round(builds.usedMs(scopeName(view.tenant, scope)) / 60_000),
      };
    },
    boundsOf: (view, scope) => boundsOf(view, scope, capacity.now),
    [Symbol.dispose]() {
      builds[Symbol.dispose]();
      clones[Symbol.dispose]();
    },
  };

  /** Reserves what a transaction adds until the mirror shows it. Call the returned function with the outcome. */
  function reserve(view: TenantView, { shares }: Cost) {
    let isOver = (): boolean => false;
    const adds = new Map<string, Amount>(shares.map(({ scope, adds: own }) => [scopeName(view.tenant, scope), own]));
    reservations.add(adds, () => isOver());
    return ({ revision, isUnknown }: { revision?: Revision; isUnknown?: true }): void => {
      const at = clock.monotonic();
      // what a clone is going to copy is counted among the clones as soon as the mirror shows it
      if (revision !== undefined) isOver = () => mirror.applied >= revision;
      else isOver = () => isUnknown !== true || clock.monotonic() - at > unknownMs;
    };
  }
}

/** The share of a scope's bounds that this caller cannot use. */
function keptOf({ of }: Scope, caller: Principal): number {
  if (of === 'project' || of === 'user') return 0;
  return isTenantAdmin(caller) ? keptBack.admins : keptBack.users;
}

function judgeBuilds(builds: BuildTime, view: TenantView, capacity: Capacity, { objects }: UnitEffect): void {
  for (const { it, action } of objects)
    if (action === 'create' && isKind(it, 'deployment'))
      builds.judge(view, it, (scope) => boundsOf(view, scope, capacity));
}
