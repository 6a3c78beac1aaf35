import type { KindName } from '../../store/kinds/kinds.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { resources } from '../resources/resources.ts';

/**
 * Guards a change that is allowed only if the object has certain content: the commit is refused if the object gains
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

/** How many objects of each kind there are, such as `2 applications, 1 volume`. */
export function inWords(content: readonly ReadonlyResource[]): string {
  return [...Map.groupBy(content, ({ meta }) => meta.kind)]
    .map(([kind, { length }]) => {
      const word = wordFor(kind);
      return `${length} ${word}${length === 1 ? '' : 's'}`;
    })
    .join(', ');
}

function wordFor(kind: KindName): string {
  const resource: { word: string } | { never: string } = resources[kind];
  return 'word' in resource ? resource.word.toLowerCase() : kind.replaceAll('_', ' ');
}
