import type { DeepReadonly } from '../deep-readonly.ts';
import { Domain, domainName } from '../kinds/domain.ts';
import { functionKind } from '../kinds/function.ts';
import type { DesiredOf } from '../kinds/kinds.ts';
import { isSealed } from '../seal.ts';
import { sealedEqual } from '../sealed-equal.ts';
import type { IsSame } from '../sealed-equal.ts';
import { shownValue } from '../shown-value.ts';
import { withoutOwnUsers } from './domain-users.ts';
import { declarableFields, fieldOfPath, isOpen, leavesOf, referencesPath, shownPath } from './leaves.ts';
import type { DeclaredKind, Leaves } from './leaves.ts';

/** A state by its leaves, and the fields of it that were declared; absent: all. The rest are defaults, and what others chose. */
export interface Declaration {
  leaves: Leaves;
  fields?: readonly string[] | undefined;
}

/** What a state declares, if these fields of it are declared. */
export function declarationOf(desired: DeepReadonly<object>, fields?: readonly string[]): Declaration {
  return { leaves: leavesOf(desired), fields };
}

/** What became of a field between two declarations, and of the object meanwhile. */
export interface FieldPlan {
  /** Of the leaf, within the desired state. */
  path: string;
  /** As people know it. */
  field: string;
  /** `declared`: the declaration of it changes. `same`: only the object was changed, by somebody else. */
  declaration: 'declared' | 'same';
  /** The object has another value than the one that is wanted. */
  isWrite: boolean;
  /** Somebody else changed the object since the former declaration. */
  isForeign: boolean;
  /** Of the object, and as it is wanted. A secret is `null`. */
  before: string | number | boolean | null;
  after: string | number | boolean | null;
  isSecret: boolean;
}

/**
 * Compares, leaf by leaf, what was declared, what is declared now and what is there. Only leaves are in it of which at least
 * two differ, and which one of the declarations speaks for: a field that is not declared any more returns to its default,
 * and one that never was stays alone. Without `former` all that is declared is new. Pure.
 */
export function fieldPlan(
  kind: DeclaredKind,
  { former, wanted, live }: { former: Declaration | undefined; wanted: Declaration; live: DeepReadonly<object> },
  isSame: IsSame,
): FieldPlan[] {
  const speaks = (it: Declaration | undefined, field: string): boolean =>
    it !== undefined && declarableFields[kind].has(field) && it.fields?.includes(field) !== false;
  const [was, will, is] = [former?.leaves ?? noLeaves, wanted.leaves, leavesOf(live)];
  const equal = (one: unknown, other: unknown): boolean => sealedEqual(one, other, isSame);
  const found: FieldPlan[] = [];
  for (const path of new Set([...was.keys(), ...will.keys(), ...is.keys()])) {
    const field = fieldOfPath(path);
    const [isDeclared, wasDeclared] = [speaks(wanted, field), speaks(former, field)];
    if (!isDeclared && !wasDeclared) continue;
    const isUndeclared = !was.has(path) && !will.has(path);
    if (isUndeclared && isOpen(path)) continue;
    const [before, after] = [is.get(path), will.get(path)];
    const isChanged = isDeclared !== wasDeclared || !equal(was.get(path), after);
    const isWrite = !equal(before, after);
    if (!isChanged && !isWrite) continue;
    const isSecret = secrets.has(field) || isSealed(before) || isSealed(after);
    found.push({
      path,
      field: shownPath(path),
      declaration: isChanged ? 'declared' : 'same',
      isWrite,
      isForeign: wasDeclared && !equal(before, was.get(path)),
      before: isSecret ? null : shownValue(shownPart(path, before)),
      after: isSecret ? null : shownValue(shownPart(path, after)),
      isSecret,
    });
  }
  return found;
}

const noLeaves: Leaves = new Map();

/** Fields whose values are secrets in every form that records have, also in plain text as in earlier releases. */
const secrets: ReadonlySet<string> = new Set(['env', 'build_args', 'build_secrets', 'compose_file']);

const Trigger = functionKind.desired.shape.trigger;

/** Of a domain only its address is shown: it may have the hash of a password. A trigger is shown in words. */
function shownPart(path: string, value: unknown): unknown {
  const trigger = path === 'trigger' ? Trigger.safeParse(value).data : undefined;
  if (trigger !== undefined)
    return 'schedule' in trigger ? `cron ${trigger.schedule} ${trigger.timezone}` : trigger.type;
  const domains = path === 'domains' ? Domain.array().safeParse(value) : undefined;
  return domains?.success === true ? domains.data.map(domainName) : value;
}

/** What is there, as a declaration that leaves users of domains to persons compares itself with it. Pure. */
export function comparable(
  live: DeepReadonly<DesiredOf<DeclaredKind>>,
  declared: DeepReadonly<DesiredOf<DeclaredKind>>,
): DeepReadonly<object> {
  if (!('domains' in live) || !('domains' in declared)) return live;
  return { ...live, domains: withoutOwnUsers(live.domains, declared.domains) };
}

/** What somebody else has changed of what was declared. Pure. */
export function driftOf(
  kind: DeclaredKind,
  declared: Declaration,
  live: DeepReadonly<object>,
  isSame: IsSame,
): FieldPlan[] {
  return fieldPlan(kind, { former: declared, wanted: declared, live }, isSame).filter(
    ({ path }) => path !== referencesPath,
  );
}
