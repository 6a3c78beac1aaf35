import type { components } from '../../api-types.d.ts';

/** What is kept of one kind at most. */
export const mostKept = 500;

type Registry = components['schemas']['Registry'];
type GitCredential = components['schemas']['GitCredential'];
type Destination = components['schemas']['BackupDestination'];

/** Admins see whole objects; others see summaries, of which there is no row. */
export function registryRow(one: Registry | components['schemas']['RegistrySummary']): one is Registry {
  return 'generation' in one;
}

export function gitCredentialRow(
  one: GitCredential | components['schemas']['GitCredentialSummary'],
): one is GitCredential {
  return 'generation' in one;
}

export function destinationRow(
  one: Destination | components['schemas']['BackupDestinationSummary'],
): one is Destination {
  return 'generation' in one;
}

export function allowedText(allowed: 'all' | readonly string[]): string {
  if (allowed === 'all') return 'all projects';
  return allowed.length === 0 ? 'no project' : `${allowed.length} ${allowed.length === 1 ? 'project' : 'projects'}`;
}

export function usedText(count: number, word: string): string {
  return count === 1 ? `1 ${word}` : `${count} ${word}s`;
}
