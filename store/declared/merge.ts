import type { DeepReadonly } from '../deep-readonly.ts';
import type { DesiredOf } from '../kinds/kinds.ts';
import { plainCopy } from '../plain-copy.ts';
import { withOwnUsers } from './domain-users.ts';
import { leavesOf, namesOfPath, referencesPath } from './leaves.ts';
import type { DeclaredKind } from './leaves.ts';

type Application = DesiredOf<'application'>;
/** What has variables that refer to other objects. */
type Referring = Pick<Application | DesiredOf<'function'>, 'config'>;

/**
 * Writes these leaves of a declaration into the state of an object, and leaves the rest of it alone. A source of another
 * type is written as a whole; users of domains for which it names none stay.
 */
export function writeLeaves<K extends DeclaredKind>(
  draft: DesiredOf<K>,
  wanted: DeepReadonly<DesiredOf<K>>,
  paths: readonly string[],
): void {
  const leaves = leavesOf(
    'domains' in wanted && 'domains' in draft
      ? { ...wanted, domains: withOwnUsers(wanted.domains, draft.domains) }
      : wanted,
  );
  const own = paths.filter((path) => path !== referencesPath && !isOfOtherSource(draft, wanted, path));
  if (own.length < paths.filter((path) => path !== referencesPath).length && 'source' in draft && 'source' in wanted)
    draft.source = plainCopy<Application['source']>(wanted.source);
  for (const path of own) setLeaf(draft, namesOfPath(path), leaves.get(path));
  if (!paths.some((path) => path === referencesPath || path.startsWith('config/env/'))) return;
  if (isReferring(draft) && isReferring(wanted)) setReferences(draft, wanted);
}

function isOfOtherSource(draft: object, wanted: object, path: string): boolean {
  const typeOf = (it: object): unknown => leavesOf(it).get('source/type');
  return path.startsWith('source/') && typeOf(draft) !== typeOf(wanted);
}

/** Sets what is at a path; `undefined` removes it. */
function setLeaf(within: object, [first = '', ...rest]: readonly string[], value: unknown): void {
  const fields = within as Record<string, unknown>; // an object with named fields
  if (rest.length === 0) {
    if (value === undefined) delete fields[first];
    else fields[first] = plainCopy(value);
    return;
  }
  const next = fields[first];
  if (typeof next === 'object' && next !== null) setLeaf(next, rest, value);
  else if (value !== undefined) {
    const made = {};
    fields[first] = made;
    setLeaf(made, rest, value);
  }
}

function isReferring<T extends object>(it: T): it is T & Referring {
  return 'mounts' in it || 'trigger' in it;
}

/** With a variable of somebody else, what that one may take of other objects stays known. */
function setReferences({ config }: Referring, { config: wanted }: DeepReadonly<Referring>): void {
  const isOwn = Object.keys(config.env).every((name) => Object.hasOwn(wanted.env, name));
  const all = [...new Set([...(isOwn ? [] : (config.references ?? [])), ...(wanted.references ?? [])])].toSorted();
  if (all.length === 0 && wanted.references === undefined) delete config.references;
  else config.references = all;
}
