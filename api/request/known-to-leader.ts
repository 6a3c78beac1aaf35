import { copiedFrom, isUnfinishedClone } from '../../store/copying.ts';
import type { TenantView } from '../../store/mirror.ts';
import { objectsIn } from '../../store/objects-in.ts';
import { inGap } from '../../store/release.ts';
import type { OtherLeader } from '../../store/replicas.ts';
import type { Repository } from '../../store/repo.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { ObjectEffect, UnitEffect } from '../../store/unit-of-work.ts';
import { earlierLeader } from '../ground/api-error.ts';

/**
 * The repository of which no unit commits that needs what the leader does not know. The leader would ignore it: what
 * the unit asks for would not happen, or only a part of it.
 */
export function knownToLeader(
  repo: Repository,
  view: TenantView,
  otherLeader: () => OtherLeader | undefined,
): Repository {
  return {
    ...repo,
    begin() {
      const unit = repo.begin();
      const leader = otherLeader();
      if (leader === undefined) return unit;
      return {
        ...unit,
        commit: (judge) =>
          unit.commit((effect) => {
            refuseUnknown(leader, effect, view);
            judge?.(effect);
          }),
      };
    },
  };
}

function refuseUnknown(leader: OtherLeader, { objects }: UnitEffect, view: TenantView): void {
  for (const effect of objects) requireKnown(leader, neededFor(effect, view));
}

/** @throws ApiError SERVICE_UNAVAILABLE if the leader does not know one of the objects, or a field that it has. */
export function requireKnown({ gap, url }: OtherLeader, objects: readonly ReadonlyResource[]): void {
  for (const it of objects) {
    const unknown = inGap(gap, it);
    if (unknown !== undefined) throw earlierLeader(unknown, url);
  }
}

/**
 * What the leader must know to act on a change: the object as it was and as it is, what is deleted with it, and what a
 * clone copies.
 */
function neededFor({ it, before, action }: ObjectEffect, view: TenantView): ReadonlyResource[] {
  const all = before === undefined ? [it] : [before, it];
  if (action === 'delete') return [...all, ...objectsIn(view, it.meta.kind, it.meta.id)];
  if (isKind(it, 'environment') && isUnfinishedClone(it) && it.desired.clone_of !== undefined)
    return [...all, ...copiedFrom(view, it.desired.clone_of.environment_id)];
  return all;
}
