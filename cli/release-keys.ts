/**
 * Ed25519 keys (raw, base64url) whose releases this agent takes. A build of a release replaces this module by one with the
 * key that signs it: the agent of a checkout has none, and does not update itself.
 */
export const releaseKeys: readonly string[] = [];
