import type { WireAssignment } from './assignment.ts';
import { bounds } from './timing.ts';

/** The items of a snapshot, in parts that fit into one frame each. */
export function* desiredParts(items: readonly WireAssignment[]): Generator<WireAssignment[]> {
  let part: WireAssignment[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = JSON.stringify(item).length;
    if (part.length > 0 && bytes + size > bounds.batchBytes) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(item);
    bytes += size;
  }
  if (part.length > 0) yield part;
}
