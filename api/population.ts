import type { Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { RequestContext } from './context.ts';

/**
 * For a change that is allowed only if the object has certain content: the commit is refused if the object gains
 * content that the view does not show afterwards. The marker is read first, then the mirror is made fresh.
 */
export async function holdPopulation(
  { fresh }: Pick<RequestContext, 'fresh'>,
  unit: Unit,
  it: ReadonlyResource,
): Promise<void> {
  await unit.holdPopulation(it);
  await fresh();
}
