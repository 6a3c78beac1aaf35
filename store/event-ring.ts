import { z } from 'zod';

/** An event of an object, with the number of its occurrences. */
export const ObjectEvent = z.object({
  type: z.enum(['normal', 'warning']),
  /** CamelCase and stable: repetitions are recognized by it. */
  reason: z.string(),
  /** Id of the part that it happened to, if each part counts separately, such as a deployment of an application. */
  about: z.string().optional(),
  /** Message of the last occurrence. */
  message: z.string(),
  count: z.int().min(1),
  first_at: z.string(),
  last_at: z.string(),
});
export type ObjectEvent = z.infer<typeof ObjectEvent>;

/** The last events of one object, the most recent at the end; the value of its `e/` key. */
const EventRing = z.object({ v: z.literal(1), events: z.array(ObjectEvent) });

const limits = { events: 50, messageLength: 1000 } as const;

/** The events of a value; none if there is no value or it cannot be read: events inform, nothing depends on them. */
export function readEvents(value: string | undefined): readonly ObjectEvent[] {
  if (value === undefined) return [];
  const ring = EventRing.safeParse(parseJson(value));
  return ring.success ? ring.data.events : [];
}

/** The value that holds these events. */
export function writeEvents(events: readonly ObjectEvent[]): string {
  return JSON.stringify({ v: 1, events });
}

/**
 * Adds an event that happened `count` times (default 1), most recently at `at`, and keeps the newest 50. If there is an
 * event of the same type, reason and part, its count grows, it takes the new message and moves to the end.
 */
export function appendEvent(
  events: readonly ObjectEvent[],
  event: Pick<ObjectEvent, 'type' | 'reason' | 'about' | 'message'> & { count?: number },
  at: Date,
): ObjectEvent[] {
  const isSame = (other: ObjectEvent): boolean =>
    other.type === event.type && other.reason === event.reason && other.about === event.about;
  const before = events.find(isSame);
  const time = at.toISOString();
  const latest = {
    type: event.type,
    reason: event.reason,
    ...(event.about !== undefined && { about: event.about }),
    message: event.message.slice(0, limits.messageLength),
    count: (before?.count ?? 0) + (event.count ?? 1),
    first_at: before?.first_at ?? time,
    last_at: time,
  };
  return [...events.filter((other) => !isSame(other)), latest].slice(-limits.events);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
