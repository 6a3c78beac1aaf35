import type { AtPlace } from '../../store/kinds/identity.ts';

/** Where and when something happened, oldest first. A place is the address of a client, of IPv6 its /64. */
export type Places = readonly Readonly<AtPlace>[];

const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
export const knownForMs = 30 * dayMs;
/** Known places that are kept: those where the owner logged in last. */
const maxKnown = 5;

/** A request: where and when it comes in, and the known places of the account that it is about. */
export interface Asking {
  source: string;
  now: number;
  known: Places | undefined;
}

/** Those of the last `ms`. */
export function within(places: Places | undefined, ms: number, now: number): AtPlace[] {
  return (places ?? []).filter(({ at }) => now - Date.parse(at) < ms);
}

/** The places that count together with a request: the same known place, or all unknown places. */
export function countedWith(places: Places, { source, now, known: before }: Asking): Places {
  const known = new Set(within(before, knownForMs, now).map((it) => it.source));
  return places.filter((it) => (known.has(source) ? it.source === source : !known.has(it.source)));
}

/** The known places after a login at this one. */
export function knownWith({ source, now, known }: Asking): AtPlace[] {
  const others = (known ?? []).filter((it) => it.source !== source);
  return [...others, { source, at: new Date(now).toISOString() }].slice(-maxKnown);
}

/** Seconds until the place is `ms` old; at least 1. */
export function secondsUntil({ at }: Readonly<AtPlace>, ms: number, now: number): number {
  return Math.max(1, Math.ceil((Date.parse(at) + ms - now) / 1000));
}
