import { internalId } from '../../store/kinds/internal-id.ts';
import type { Random } from '../ground/random.ts';

/** Slug of a name plus 6 hex digits: a DNS label that stays when the name changes. */
export function newInternalId(name: string, random: Random): string {
  return internalId(name, random.bytes(3).toString('hex'));
}
