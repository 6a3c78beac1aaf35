import { definitionOf } from '../../store/definition.ts';
import type { KeyMeaning } from '../../store/keys.ts';
import { decodeDesired, encodeDesired } from '../../store/record.ts';

/**
 * The record of an assignment in its present form: records of version 1 repeat the variables of their deployment, and
 * are stored without them when they are written. Other records stay as they are.
 */
export function withoutInlinedEnv(meaning: KeyMeaning, json: string): string {
  if (meaning.area !== 'desired' || meaning.kind !== 'assignment') return json;
  const kind = definitionOf('assignment');
  return encodeDesired(kind, decodeDesired(kind, json));
}
