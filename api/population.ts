import type { Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { RequestContext } from './context.ts';

/**
 * For a change that is allowed only where nothing would go along: what the view shows in the object afterwards is all
 * that is in it when the unit commits, or the commit is refused. The marker is read before the mirror is made fresh.
 */
export async function holdPopulation(
  { fresh }: Pick<RequestContext, 'fresh'>,
  unit: Unit,
  it: ReadonlyResource,
): Promise<void> {
  await unit.holdPopulation(it);
  await fresh();
}
