import { createHash } from 'node:crypto';
import type { WireItem } from './assignment.ts';

/** Digest of a desired set: SHA-256 (hex) over the lines `<id> <generation> <spec_hash>\n` sorted by id. */
export function desiredDigest(items: readonly Pick<WireItem, 'id' | 'generation' | 'spec_hash'>[]): string {
  const lines = items.map((item) => `${item.id} ${item.generation} ${item.spec_hash}\n`).toSorted();
  return createHash('sha256').update(lines.join('')).digest('hex');
}
