import type { WireEvent, WireReport } from '../../agent-protocol/assignment.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The events of a report that were not recorded before it. Pure. */
export function newEvents(it: ReadonlyResource<'assignment'>, { events }: WireReport): readonly WireEvent[] {
  if (events === undefined) return [];
  const seen = it.observed?.events_seen;
  return seen?.source === events.source ? events.items.filter((event) => event.seq > seen.seq) : events.items;
}
