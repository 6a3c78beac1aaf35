import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { service } from '../agent-world.ts';

/** Name of the volume at the engine. */
export const name = 'sp-vol-0123456789ab';

export function volume(): WireAssignment {
  return { ...service(), spec: { type: 'volume', volume: name } };
}

/** Name at the engine of what {@link copied} is a copy of. */
export const original = 'blog_data';

/** A volume that begins as a copy of {@link original}. */
export function copied(): WireAssignment {
  const from = { docker_volume: original, containers: ['blog-db-1'] };
  return { ...service(), spec: { type: 'copied_volume', volume: name, copy_from: from } };
}

/** A service that mounts the volume at `/data`. */
export function mounting({ alias = 'web', readOnly = false } = {}): WireAssignment {
  return service(
    {},
    { alias, mounts: [{ type: 'volume', volume: name, path: '/data', read_only: readOnly, copy: true }] },
  );
}
