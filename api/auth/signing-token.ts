const prefix = 'whsec_';
const minBytes = 16;

/** A secret in the form of Standard Webhooks: what follows the prefix is its key in base64. */
export function isSigningToken(secret: string): boolean {
  return secret.startsWith(prefix);
}

/** The key of a signing token; `undefined`: it is too short, or not base64 as a whole, of which a part would be skipped. */
export function keyOfToken(token: string): Buffer | undefined {
  const text = token.slice(prefix.length);
  const key = Buffer.from(text, 'base64');
  return key.length >= minBytes && key.toString('base64') === text ? key : undefined;
}
