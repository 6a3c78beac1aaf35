import type { DeepReadonly } from './deep-readonly.ts';
import { repositoryOf } from './kinds/application.ts';
import type { Source } from './kinds/application.ts';
import type { TenantView } from './mirror.ts';
import { isSameRepository } from './repository-address.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type Preview = ReadonlyResource<'preview'>;

/** Whether code of a fork is asked for that no person has approved: nothing of it is built. */
export function isAwaitingApproval({ desired }: Preview): boolean {
  return desired.fork_url !== undefined && (desired.commit === undefined || desired.commit !== desired.approved_commit);
}

/** The preview whose fork a source of its environment is: only the approved commit may be built of it. */
export function forkPreviewOf(
  view: Pick<TenantView, 'get'>,
  environmentId: string,
  source: DeepReadonly<Source>,
): Preview | undefined {
  const repository = repositoryOf(source);
  if (repository === undefined) return undefined;
  const owners = view.get('environment', environmentId)?.meta.owners ?? [];
  const [owner] = owners.filter(({ kind }) => kind === 'preview');
  const it = owner && view.get('preview', owner.id);
  const fork = it?.desired.fork_url;
  return fork !== undefined && isSameRepository(fork, repository.repository_url) ? it : undefined;
}

/** Whether it is of a fork of which no commit was approved yet. It has no environment, and is counted apart. */
export function isUnapproved({ desired }: Preview): boolean {
  return desired.fork_url !== undefined && desired.approved_commit === undefined;
}

/**
 * Whether the compose file of a source is given with it, and not in a repository. Only a request can have such an
 * application deployed, so that no preview has any.
 */
export function isInlineCompose(source: DeepReadonly<Source>): boolean {
  return source.type === 'compose' && source.repository === undefined;
}

/** Why there can be no preview of an environment, if it has applications with an {@link isInlineCompose | inline file}. */
export function composedLack(view: Pick<TenantView, 'by'>, environmentId: string): string | undefined {
  const names = view
    .by('application', 'environment', environmentId)
    .filter((it) => isStaying(it) && isInlineCompose(it.desired.source))
    .map(({ desired }) => desired.name);
  if (names.length === 0) return undefined;
  return `A preview cannot deploy applications with an inline compose file, and the environment has some: ${names.join(', ')}`;
}
