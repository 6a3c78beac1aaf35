import { repositoryOf } from '../../store/kinds/application.ts';
import type { Repository, Source } from '../../store/kinds/application.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { originOf } from '../../store/repository-address.ts';
import { credentialsOf, gitProtocols } from '../../store/source-credentials.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { badField } from '../ground/api-error.ts';
import { requireGrant } from '../rights/grants.ts';
import { registryOf } from '../resources/fields.ts';
import { referred } from './references.ts';

/**
 * Requires that the credentials that a source begins to name may be used for it, and guards that they exist at the
 * commit. What it named before stays as it is, so that an answer can be sent back.
 *
 * @throws ApiError NOT_FOUND, FORBIDDEN for a project that may not use one, BAD_REQUEST for a repository of another host
 */
export function requireSourceAccess(
  view: TenantView,
  unit: Unit,
  { projectId, source, before }: { projectId: string; source: Source; before?: DeepReadonly<Source> },
): void {
  const next = repositoryOf(source);
  if (next !== undefined) requireGitAccess(view, unit, { projectId, next, before: before && repositoryOf(before) });
}

/** As `requireSourceAccess`, of a repository. @throws as that */
export function requireGitAccess(
  view: TenantView,
  unit: Unit,
  { projectId, next, before: was }: { projectId: string; next: Read; before?: Read | undefined },
): void {
  const { git_credential_id: id, repository_url: url } = next;
  if (id === undefined) return;
  const isSame = was?.git_credential_id === id;
  if (isSame && was.repository_url === url) return;
  const it = referred(view, 'git_credential', id, 'git_credential_id');
  if (!isSame) requireGrant(it, projectId, 'git_credential_id', 'git credential');
  requireHost(it, url, isSame ? 'repository_url' : 'git_credential_id');
  unit.require(it);
}

/** A repository and what it is read with. */
type Read = DeepReadonly<Pick<Repository, 'repository_url' | 'git_credential_id'>>;

/** What an application pulls from, as `requireRegistryAccess` reads it. */
type Pulling = DeepReadonly<Pick<DesiredOf<'application'>, 'project_id' | 'registry_id' | 'source'>>;

/**
 * Requires that the registry that an application begins to name may be used for it, and guards that it exists at the
 * commit. An image must be of that registry; a build may use its images and those of others. @throws as the above
 */
export function requireRegistryAccess(view: TenantView, unit: Unit, next: Pulling, before?: Pulling): void {
  const { registry_id: id, source } = next;
  const imageOf = (it: Pulling | undefined) => (it?.source.type === 'image' ? it.source.image_url : undefined);
  const isSame = before?.registry_id === id;
  if (id === undefined || (isSame && imageOf(before) === imageOf(next))) return;
  const it = referred(view, 'registry', id, 'registry_id');
  if (!isSame) requireGrant(it, next.project_id, 'registry_id', 'registry');
  const { name, address } = it.desired;
  const of = source.type === 'image' ? (registryOf(source.image_url) ?? 'docker.io') : address;
  if ((of === 'index.docker.io' ? 'docker.io' : of) !== address)
    throw badField(
      isSame ? 'image_url' : 'registry_id',
      'other_registry',
      `The registry ${name} is for ${address}, and its password is sent to no other one: image_url is of ${of}`,
    );
  unit.require(it);
}

/** Requires that a project may still use the credentials of a source that is to be deployed. @throws ApiError FORBIDDEN */
export function requireSourceGrants(
  view: TenantView,
  desired: Omit<Pulling, 'source'>,
  source: DeepReadonly<Source>,
): void {
  for (const { word, it } of credentialsOf(view, desired, source))
    requireGrant(it, desired.project_id, `${it.meta.kind}_id`, word);
}

/** @throws ApiError BAD_REQUEST */
function requireHost({ desired }: ReadonlyResource<'git_credential'>, url: string, field: string): void {
  const { host, credential, name } = desired;
  const protocol = gitProtocols[credential.type];
  const at = originOf(url);
  if (at.protocol !== protocol)
    throw badField(
      field,
      'other_protocol',
      `The git credential ${name} is for repositories by ${protocol}: repository_url is by ${at.protocol}`,
    );
  if (at.host !== host)
    throw badField(
      field,
      'other_host',
      `The git credential ${name} is for ${host} and is sent to no other host: repository_url is of ${at.host}`,
    );
}
