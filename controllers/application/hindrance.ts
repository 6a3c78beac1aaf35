import { hasCode, meaningOf } from '../rollout/failures.ts';
import { uncopied, withVolumeNames } from '../rollout/mounted.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import type { World } from './world.ts';

/**
 * `: `, the volume or the failure that keeps instances from being made or from being ready, and its remedy; empty if none
 * is known. Stable text: what a process wrote may be something else each time.
 */
export function hindrance(instances: readonly Assignment[], mounted: World['mounted']): string {
  const copying = uncopied(mounted);
  if (copying !== undefined) return `: volume ${copying.name} is not there yet. ${copying.why}`;
  const reports = instances.map((it) => upToDate(it));
  for (const { error } of reports.flatMap((it) => it ?? [])) {
    const remedy = error && meaningOf(error).remedy;
    if (remedy !== undefined) return `: ${withVolumeNames(error?.message ?? '', mounted)} (${remedy})`;
  }
  const told = reports.find((it) => hasCode(it?.error, 'out_of_memory') || hasCode(it?.error, 'unhealthy'));
  if (told !== undefined) return `: ${told.error?.message ?? ''}`;
  const code = reports.find((it) => hasCode(it?.error, 'exited'))?.exit_code;
  return code === undefined ? '' : `: its process exited with code ${code}`;
}
