import { randomBytes } from 'node:crypto';
import { makeJoinToken } from '../../agent-protocol/join-token.ts';

/** A join token for the server, of the control plane with that key, or of one that nothing is asked of. */
export function joinToken(server: string, controlKey = 'no key'): string {
  return makeJoinToken(server, randomBytes(16), controlKey);
}
