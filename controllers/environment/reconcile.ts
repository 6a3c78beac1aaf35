import { kindsIn, objectsIn } from '../../store/objects-in.ts';
import { copiedKinds, isUnfinishedClone } from '../../store/copying.ts';
import { placesOf } from '../../store/population.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Transplanter } from '../../store/seal.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { onChange, onGone } from '../runtime/wakes.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { advanceClone } from './clone.ts';
import { abandonData, advanceData, clonesCopying, dataConditions } from './copy-data.ts';
import { leftOf } from './data.ts';
import { sourceOf } from './plan.ts';

type Environment = ReadonlyResource<'environment'>;

/** What an environment holds, and what a clone copies into one. */
const parts = [...new Set([...kindsIn('environment'), ...copiedKinds])];

/**
 * An environment that is no clone has nothing to converge to until it is deleted. A clone is filled, one transaction
 * per run, until it has all that its source has at one revision, and then with data if that is wanted. Deletion waits for its
 * content.
 */
export function environmentController(transplanter: Transplanter): Controller<'environment'> {
  return {
    name: 'environment',
    kind: 'environment',
    reads: [...new Set<KindName>(['project', 'server', 'backup', 'restore', 'backup_destination', ...parts])],
    children: [...new Set<KindName>(['environment', 'backup', 'restore', ...parts])],
    notifies: ['clone_removed', 'clone_data_failed'],
    // An object that is gone makes room for its next copy, and for the end of the environment.
    wakes: [
      ...parts.map((kind) => onGone(kind, (it) => placesOf(it, 'environment'))),
      onChange(
        'backup',
        ({ observed }) => observed?.phase,
        ({ desired }, view) => clonesCopying(view, desired.project_id, desired.of.id),
      ),
      onChange(
        'restore',
        ({ observed }) => observed?.phase,
        ({ desired }) => [desired.place.environment_id],
      ),
    ],
    async reconcile(it, ctx) {
      if (isUnfinishedClone(it)) return advanceClone(it, ctx, transplanter);
      return leftOf(it).length > 0 ? advanceData(it, ctx) : active(it);
    },
    async finalize(it, ctx) {
      const left = objectsIn(ctx.view, 'environment', it.meta.id);
      await abandonData(it, ctx);
      for (const { meta } of left.filter(isStaying)) await ctx.retire(meta.kind, meta.id);
      return { ...deleting(it, left, ctx), released: left.length === 0 };
    },
  };
}

function active(it: Environment): Verdict<'environment'> {
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }, ...dataConditions(it)],
    next: { settled: true },
  };
}

function deleting(it: Environment, left: readonly ReadonlyResource[], { view }: Context): Verdict<'environment'> {
  const isAbandoned = isUnfinishedClone(it) && sourceOf(it, view) === undefined;
  const counts = [...Map.groupBy(left, ({ meta }) => meta.kind)].map(([kind, all]) => `${all.length} ${kind}(s)`);
  const waits = `Waits for ${counts.join(', ')} to go`;
  const [reason, message] = isAbandoned
    ? ['SourceDeleted', `The environment that it copies was deleted before it was complete. ${waits}`]
    : ['Deleting', waits];
  return {
    observed: { phase: 'deleting' },
    conditions: [{ type: 'Ready', status: 'false', reason, message }],
    next:
      left.length === 0
        ? { settled: true }
        : { waitingFor: left.map(({ meta: { kind, id } }) => ({ kind, id })), because: 'what is in it to be gone' },
  };
}
