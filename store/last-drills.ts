import type { DeepReadonly } from './deep-readonly.ts';
import { drillIntervalMs } from './drill-interval.ts';
import type { DesiredOf, ObservedOf } from './kinds/kinds.ts';

/** The last drill of one thing that a schedule backs up. */
export type LastDrill = DeepReadonly<NonNullable<ObservedOf<'backup_schedule'>['drills']>[number]>;

/** What the last drills of a schedule have shown: of several things that it backs up, one that is not proven counts. */
export function shownResult(drills: readonly LastDrill[]): LastDrill['result'] {
  const ended = drills.flatMap(({ result }) => result ?? []).toSorted((a, b) => (a.at < b.at ? 1 : -1));
  return ended.find(({ status }) => status === 'not_proven') ?? ended[0];
}

/** When the next drill is due; `undefined`: none is wanted, or the first one waits for a good backup. */
export function nextDrillAt(
  { verify_every: every }: Pick<DeepReadonly<DesiredOf<'backup_schedule'>>, 'verify_every'>,
  drills: readonly LastDrill[] = [],
): string | undefined {
  const [first] = drills.map(({ begun_at }) => begun_at).toSorted();
  if (every === undefined || first === undefined) return undefined;
  return new Date(Date.parse(first) + drillIntervalMs(every)).toISOString();
}
