import { fieldPath } from '../../store/faults.ts';
import { findTarget, referredObjects } from '../../store/referable.ts';
import { hasReferences, parseReferences, referenceText } from '../../store/references.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isStaying } from '../../store/resource.ts';
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

/** The other applications that refer to this object, or to one of these `attributes` of it. */
export function applicationsReferringTo(
  view: TenantView,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): ReadonlyResource<'application'>[] {
  return view
    .by('application', 'environment', it.desired.environment_id)
    .filter((other) => isStaying(other) && other.meta.id !== it.meta.id)
    .filter((other) => referredObjects(view, other, it.meta.kind, attributes).includes(it.meta.id));
}

/** Which variables refer to this object, such as `Variables of web refer to the database`; `undefined`: none does. */
export function referralsInWords(
  view: TenantView,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): string | undefined {
  const users = [...applicationsReferringTo(view, it, attributes), ...functionsReferringTo(view, it, attributes)];
  const names = users.map(({ desired }) => desired.name);
  if (names.length === 0) return undefined;
  const some = names.slice(0, 10).join(', ') + (names.length > 10 ? ` and ${names.length - 10} more` : '');
  return `Variables of ${some} refer to the ${it.meta.kind}`;
}

/** The functions that refer to this object, or to one of these `attributes` of it. */
export function functionsReferringTo(
  view: TenantView,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): ReadonlyResource<'function'>[] {
  return view
    .by('function', 'environment', it.desired.environment_id)
    .filter((other) => isStaying(other) && referredObjects(view, other, it.meta.kind, attributes).includes(it.meta.id));
}
