import { meaningOf } from '../rollout/failures.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { withVolumeNames } from '../rollout/mounted.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { World } from './world.ts';

/** `: `, the failure that keeps instances from being made, and its remedy; empty if none is known. Stable text. */
export function hindrance(slots: readonly Assignment[], mounted: World['mounted']): string {
  for (const slot of slots) {
    const error = upToDate(slot)?.error;
    const remedy = error && meaningOf(error).remedy;
    if (error !== undefined && remedy !== undefined) return `: ${withVolumeNames(error.message, mounted)} (${remedy})`;
  }
  return '';
}
