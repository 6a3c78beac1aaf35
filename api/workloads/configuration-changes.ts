import { isDeepStrictEqual } from 'node:util';
import type { SealedValue } from '../../store/kinds/define.ts';
import { isSealed } from '../../store/seal.ts';
import { shownValue } from '../../store/shown-value.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Deployment = ReadonlyResource<'deployment'>;

/** One difference between the configurations of two deployments. Of a secret there is only that it differs. */
export interface ConfigurationChange {
  /** Such as `image_url`, `healthcheck.path` or `env.NAME`. */
  field: string;
  change: 'added' | 'changed' | 'removed';
  before: string | number | boolean | null;
  after: string | number | boolean | null;
}

/** The deployment that came before it; `undefined` if that is not kept any more, or there was none. */
export function predecessorOf(it: Deployment, view: Pick<TenantView, 'by'>): Deployment | undefined {
  return view
    .by('deployment', 'application', it.desired.application_id)
    .filter(({ desired }) => desired.number < it.desired.number)
    .toSorted((a, b) => b.desired.number - a.desired.number)[0];
}

/**
 * What of source and configuration differs, by field. Of two secrets `isSame` says whether they hold the same text: keys
 * are rotated, and each deployment has its own ciphertext.
 */
export function configurationChanges(
  before: Deployment,
  after: Deployment,
  isSame: (one: SealedValue, other: SealedValue) => boolean,
): ConfigurationChange[] {
  const [old, now] = [leavesOf(before), leavesOf(after)];
  const fields = [...new Set([...old.keys(), ...now.keys()])].toSorted();
  return fields.flatMap((field): ConfigurationChange[] => {
    const [a, b] = [old.get(field), now.get(field)];
    if (isDeepStrictEqual(a?.value, b?.value)) return [];
    if (isSealed(a?.value) && isSealed(b?.value) && isSame(a.value, b.value)) return [];
    const change = a === undefined ? 'added' : b === undefined ? 'removed' : 'changed';
    const isHidden = a?.isSecret === true || b?.isSecret === true;
    return [
      { field, change, before: isHidden ? null : shownValue(a?.value), after: isHidden ? null : shownValue(b?.value) },
    ];
  });
}

interface Leaf {
  value: unknown;
  isSecret: boolean;
}

/** Fields whose values are secrets in every form that records have, also in plain text as in earlier releases. */
const secrets: ReadonlySet<string> = new Set(['env', 'build_args', 'build_secrets', 'compose_file']);

function leavesOf({ desired: { source, config } }: Deployment): Map<string, Leaf> {
  const { type, ...rest } =
    source.type === 'compose' ? { ...source, ...source.repository, repository: undefined } : source;
  return new Map([...leaves({ source_type: type, ...rest }, '', false), ...leaves(config, '', false)]);
}

function* leaves(value: object, path: string, isSecret: boolean): Generator<[string, Leaf]> {
  for (const [name, one] of Object.entries(value)) {
    const field = path === '' ? name : `${path}.${name}`;
    const hides = isSecret || (path === '' && secrets.has(name));
    if (typeof one !== 'object' || one === null || Array.isArray(one)) {
      if (one !== undefined && one !== null) yield [field, { value: one, isSecret: hides }];
    } else if (isSealed(one)) yield [field, { value: one, isSecret: true }];
    else yield* leaves(one as object, field, hides); // entries of a record are objects here
  }
}
