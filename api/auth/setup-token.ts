import { hash, timingSafeEqual } from 'node:crypto';
import type { ApiConfig } from '../ground/config.ts';
import type { ShortSecrets } from './short-secrets.ts';

/**
 * Returns what the first user of a tenant must present, so that a stranger cannot register first; `undefined`: nothing.
 */
export type SetupToken = (tenant: string) => string | undefined;

/**
 * The token that the operator chose, or one that is derived from the key of the installation: it is the same at every
 * replica and after every start, and different for every tenant.
 */
export function createSetupToken({ setupToken }: Pick<ApiConfig, 'setupToken'>, secrets: ShortSecrets): SetupToken {
  if (setupToken === undefined) return () => undefined;
  if ('value' in setupToken) return () => setupToken.value;
  return (tenant) => secrets.hash('setup-token', tenant);
}

/** Compares in constant time. */
export function isSetupToken(expected: string, given: string | undefined): boolean {
  return given !== undefined && timingSafeEqual(digest(expected), digest(given));
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
