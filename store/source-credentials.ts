import type { DeepReadonly } from './deep-readonly.ts';
import { repositoryOf } from './kinds/application.ts';
import type { Source } from './kinds/application.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import { originOf } from './repository-address.ts';
import type { ReadonlyResource } from './resource.ts';

/** A credential that the source of an application is fetched with. */
export interface SourceCredential {
  /** What it is, in words. */
  word: 'git credential' | 'registry';
  it: ReadonlyResource<'git_credential' | 'registry'>;
}

/** The protocol by which a repository is read with a git credential of that type. */
export const gitProtocols = { token: 'https', ssh: 'ssh' } as const;

/** Whether a git credential is sent to the repository at that address: only to its host, and only by its protocol. */
export function isForRepository({ desired }: ReadonlyResource<'git_credential'>, url: string): boolean {
  const { protocol, host } = originOf(url);
  return protocol === gitProtocols[desired.credential.type] && host === desired.host;
}

/** The credentials of a source that exist. One that was deleted is missed where it is needed: on the server. */
export function credentialsOf(
  view: Pick<TenantView, 'get'>,
  { registry_id: registryId }: DeepReadonly<Pick<DesiredOf<'application'>, 'registry_id'>>,
  source: DeepReadonly<Source>,
): SourceCredential[] {
  const gitId = repositoryOf(source)?.git_credential_id;
  const registry = registryId === undefined ? undefined : view.get('registry', registryId);
  const git = gitId === undefined ? undefined : view.get('git_credential', gitId);
  return [
    ...(registry === undefined ? [] : [{ word: 'registry' as const, it: registry }]),
    ...(git === undefined ? [] : [{ word: 'git credential' as const, it: git }]),
  ];
}
