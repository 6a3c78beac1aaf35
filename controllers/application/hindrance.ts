import { meaningOf } from '../rollout/failures.ts';
import { uncopied, withVolumeNames } from '../rollout/mounted.ts';
import type { Failure } from '../rollout/failures.ts';
import type { World } from './world.ts';

/** `: `, the volume or the failure that keeps instances from being made, and its remedy; empty if none is known. Stable text. */
export function hindrance(errors: readonly Failure[], mounted: World['mounted']): string {
  const copying = uncopied(mounted);
  if (copying !== undefined) return `: volume ${copying.name} is not there yet. ${copying.why}`;
  for (const error of errors) {
    const { remedy } = meaningOf(error);
    if (remedy !== undefined) return `: ${withVolumeNames(error.message, mounted)} (${remedy})`;
  }
  return '';
}
