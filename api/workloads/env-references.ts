import { fieldPath } from '../../store/faults.ts';
import { foldName } from '../../store/fold-name.ts';
import { findTarget } from '../../store/referable.ts';
import { hasReferences, parseReferences, referenceText } from '../../store/references.ts';
import { applicationsReferringTo, functionsReferringTo } from '../../store/referring.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, badRequest } from '../ground/api-error.ts';

/** Most different references in the variables of one application. */
const mostReferences = 100;

/**
 * The references in variables, each once; `undefined` if no value has one or an escape. Each must name an object that
 * there is. @throws ApiError BAD_REQUEST naming the variable
 */
export function referencesIn(
  view: TenantView,
  environmentId: string,
  values: Readonly<Record<string, string>>,
): string[] | undefined {
  const concerned = Object.entries(values).filter(([, value]) => hasReferences(value));
  if (concerned.length === 0) return undefined;
  const texts = new Set<string>();
  for (const [variable, value] of concerned) {
    const parsed = parseReferences(value);
    if ('fault' in parsed)
      throw badField(fieldPath(['env', variable]), 'invalid_reference', `Variable ${variable}: ${parsed.fault}`);
    for (const part of parsed.parts) {
      if (typeof part === 'string') continue;
      const target = findTarget(view, environmentId, part);
      if ('lack' in target) {
        const message = `Variable ${variable} cannot refer to ${referenceText(part)} as ${target.lack}`;
        throw badField(fieldPath(['env', variable]), 'invalid_reference', message);
      }
      texts.add(referenceText(part));
    }
  }
  if (texts.size > mostReferences) throw badRequest(`Must have at most ${mostReferences} different references`);
  return [...texts].toSorted();
}

/** The other workloads whose variables refer to this object, or to one of these `attributes` of it. */
export function referringWorkloads(
  view: TenantView,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): (ReadonlyResource<'application'> | ReadonlyResource<'function'>)[] {
  return [...applicationsReferringTo(view, it, attributes), ...functionsReferringTo(view, it, attributes)];
}

/**
 * Which variables refer to this object, such as `Variables of web refer to the database`; `undefined`: none does.
 *
 * @param users all that refer to it, or those of them that count
 */
export function referralsInWords(
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  users: readonly (ReadonlyResource<'application'> | ReadonlyResource<'function'>)[],
): string | undefined {
  const names = users.map(({ desired }) => desired.name);
  if (names.length === 0) return undefined;
  const some = names.slice(0, 10).join(', ') + (names.length > 10 ? ` and ${names.length - 10} more` : '');
  return `Variables of ${some} refer to the ${it.meta.kind}`;
}

/** Names of the workloads whose variables refer to an application or a database by a name that none has. */
export function referringByName(
  view: TenantView,
  { kind, name, environmentId }: { kind: 'application' | 'database'; name: string; environmentId: string },
): string[] {
  const isOfName = (text: string): boolean => {
    const parsed = parseReferences(text);
    const [reference] = 'parts' in parsed ? parsed.parts : [];
    return (
      typeof reference === 'object' &&
      reference.kind === `${kind}s` &&
      foldName(reference.name) === foldName(name) &&
      'lack' in findTarget(view, environmentId, reference)
    );
  };
  const workloads = [
    ...view.by('application', 'environment', environmentId),
    ...view.by('function', 'environment', environmentId),
  ];
  return workloads
    .filter((it) => isStaying(it) && it.desired.config.references?.some(isOfName) === true)
    .map(({ desired }) => desired.name);
}
