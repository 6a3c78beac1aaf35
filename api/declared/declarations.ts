import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { declarationOf } from '../../store/declared/field-plan.ts';
import type { Declaration } from '../../store/declared/field-plan.ts';
import { chosenName, declarableFields, fieldOfPath, isOpen, referencesPath } from '../../store/declared/leaves.ts';
import type { DeclaredKind } from '../../store/declared/leaves.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import { maxManagers } from '../../store/kinds/declarations.ts';
import type { Declared } from '../../store/kinds/declarations.ts';
import { isSealed } from '../../store/seal.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import type { IsSame } from '../../store/sealed-equal.ts';
import { conflicting } from '../ground/api-error.ts';

/** Who applies, and with which set. */
export interface Manager {
  manager: string;
  set?: string | undefined;
}

/** What was applied of an object. */
export interface Applied {
  /** Its state after that. */
  desired: DeepReadonly<object>;
  /** Fields that were declared, by their names in the API. */
  fields: readonly string[];
  /** The declaration itself. */
  spec: object;
}

/** Whether a declaration has the name of a leaf: variables that it does not name are those of others. */
function declares(spec: object, path: string): boolean {
  if (path === referencesPath || !isOpen(path)) return true;
  const names: unknown = Object.entries(spec).find(([field]) => field === fieldOfPath(path))?.[1];
  return typeof names === 'object' && names !== null && Object.hasOwn(names, chosenName(path) ?? '');
}

type All = DeepReadonly<Declared[]> | undefined;

/** What the manager applied of an object last; `undefined`: nothing. */
export function formerOf(declarations: All, { manager }: Manager): Declaration | undefined {
  const own = declarations?.find((it) => it.manager === manager);
  if (own === undefined) return undefined;
  const leaves = new Map(
    Object.entries(own.leaves).map(([path, value]): [string, unknown] => [
      path,
      typeof value === 'string' ? JSON.parse(value) : value,
    ]),
  );
  return { leaves, fields: own.fields };
}

/** Which of the other managers declares a leaf; `undefined`: none. */
export function otherManager(declarations: All, { manager }: Manager, path: string): string | undefined {
  return declarations?.find((it) => it.manager !== manager && Object.hasOwn(it.leaves, path))?.manager;
}

/**
 * The declarations of an object once the manager has applied these fields of its state. One that says the same as before stays
 * as it is. @throws ApiError CONFLICT if too many managers declare it
 */
export function declarationsAfter(
  kind: DeclaredKind,
  declarations: All,
  { manager, set }: Manager,
  { desired, fields, spec }: Applied,
  isSame: IsSame,
): Declared[] {
  const own = fields.filter((field) => declarableFields[kind].has(field)).toSorted();
  const leaves: Declared['leaves'] = {};
  for (const [path, value] of declarationOf(desired).leaves)
    if (own.includes(fieldOfPath(path)) && declares(spec, path))
      leaves[path] = isSealed(value) ? { ...value } : JSON.stringify(value);
  const next: Declared = { manager, ...(set !== undefined && { set }), fields: own, leaves };
  const before = declarations ?? [];
  const former = before.find((it) => it.manager === manager);
  const others = before.filter((it) => it.manager !== manager).map(copyOf);
  if (others.length >= maxManagers)
    throw conflicting(
      `${others.length} managers declare it already: ${others.map((it) => it.manager).join(', ')}. Use the name of one of them`,
    );
  const kept = former !== undefined && saysTheSame(former, next, isSame) ? copyOf(former) : next;
  return [...others, kept].toSorted((a, b) => (a.manager < b.manager ? -1 : 1));
}

function copyOf({ manager, set, fields, leaves }: DeepReadonly<Declared>): Declared {
  return { manager, ...(set !== undefined && { set }), fields: [...fields], leaves: { ...leaves } };
}

function saysTheSame(one: DeepReadonly<Declared>, other: Declared, isSame: IsSame): boolean {
  if (one.set !== other.set || !jsonEqual(one.fields, other.fields)) return false;
  const paths = new Set([...Object.keys(one.leaves), ...Object.keys(other.leaves)]);
  return [...paths].every((path) => sealedEqual(one.leaves[path], other.leaves[path], isSame));
}
