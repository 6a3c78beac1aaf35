import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { service } from '../agent-world.ts';

/** Name of the volume at the engine. */
export const name = 'sp-vol-0123456789ab';

export function volume(): WireAssignment {
  return { ...service(), spec: { type: 'volume', volume: name } };
}

/** A service that mounts the volume at `/data`. */
export function mounting({ alias = 'web', readOnly = false } = {}): WireAssignment {
  return service(
    {},
    { alias, mounts: [{ type: 'volume', volume: name, path: '/data', read_only: readOnly, copy: true }] },
  );
}
