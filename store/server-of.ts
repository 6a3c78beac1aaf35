import type { ReadonlyResource } from './resource.ts';

/** The id of the server that an object is on, whatever its kind; `undefined` for one that is on none. */
export function serverOf(it: ReadonlyResource | undefined): string | undefined {
  if (it === undefined) return undefined;
  if ('server_id' in it.desired) return it.desired.server_id;
  return 'place' in it.desired ? it.desired.place.server_id : undefined;
}
