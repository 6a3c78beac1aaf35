import { z } from 'zod';
import { ObjectEvent, readEvents } from '../../store/event-ring.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The last 50 events of an object; repetitions are counted in one. */
export const ObjectEvents = z.array(ObjectEvent).meta({ id: 'Events' });

/** Newest first, by the time of the event and not of its record. */
export function eventsOf(mirror: Pick<Mirror, 'key'>, { meta }: ReadonlyResource): z.infer<typeof ObjectEvents> {
  return readEvents(mirror.key(keys.events(meta.tenant, meta.kind, meta.id))?.value)
    .toReversed()
    .toSorted((a, b) => (a.last_at < b.last_at ? 1 : a.last_at > b.last_at ? -1 : 0));
}
