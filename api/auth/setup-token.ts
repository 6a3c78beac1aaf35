import { hash, timingSafeEqual } from 'node:crypto';
import type { ApiConfig } from '../config.ts';
import type { ShortSecrets } from './short-secrets.ts';

/** What the first user of a tenant must present, so that no stranger is faster; `undefined` where nothing is asked for. */
export type SetupToken = (tenant: string) => string | undefined;

/**
 * A token that the operator chose, or one that follows from the key of the installation: the same at every replica and
 * after every start, and another one for every tenant.
 */
export function createSetupToken({ setupToken }: Pick<ApiConfig, 'setupToken'>, secrets: ShortSecrets): SetupToken {
  if (setupToken === undefined) return () => undefined;
  if ('value' in setupToken) return () => setupToken.value;
  return (tenant) => secrets.hash('setup-token', tenant);
}

/** In constant time. */
export function isSetupToken(expected: string, given: string | undefined): boolean {
  return given !== undefined && timingSafeEqual(digest(expected), digest(given));
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
