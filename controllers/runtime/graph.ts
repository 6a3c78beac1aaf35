import { definitionOf, isObserved } from '../../store/definition.ts';
import { kinds as allKinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Controller } from './controller.ts';

/** A controller of some kind. */
export type AnyController = Controller<KindName>;

/** The writes of the gateway, which is no controller: it stores the reports of agents and releases their finalizer. */
const gateway = { finalizer: 'agent', observes: 'assignment' } as const;

/** Kinds whose observed state the API writes: when a credential was last used, and which calls were refused. */
const observedByApi: readonly KindName[] = ['service_key', 'git_webhook'];

/**
 * Checks the declarations against each other: one writer per observed kind, every finalizer held by a controller that
 * exists, every wake of a kind that may be read.
 *
 * @param kinds kinds that must have their writer and the holders of their finalizers in the list
 * @throws Error that lists every fault
 */
export function checkGraph(controllers: readonly AnyController[], kinds: readonly KindName[]): void {
  const faults = [
    ...twice(controllers.map(({ name }) => name)).map((name) => `Two controllers have the same name: ${name}`),
    ...twice([gateway.observes, ...controllers.map(({ kind }) => kind)]).map(
      (kind) => `Two controllers write the observed state of the same kind: ${kind}`,
    ),
    ...kinds
      .filter((kind) => isObserved(kind) && writerOf(controllers, kind) === undefined)
      .map((kind) => `Nothing writes what is observed of ${kind}: list its controller in cli/controllers.ts`),
    ...kinds.flatMap((kind) => finalizerFaults(controllers, kind)),
    ...controllers.flatMap(declarationFaults),
  ];
  if (faults.length > 0)
    throw new Error(`Cannot start as declarations of the controllers contradict each other: ${faults.join('; ')}`);
}

/** The component that writes what is observed of a kind; `undefined`: none. */
export function writerOf(
  controllers: readonly AnyController[],
  kind: KindName,
): 'gateway' | 'API' | AnyController | undefined {
  if (kind === gateway.observes) return 'gateway';
  if (observedByApi.includes(kind)) return 'API';
  return controllers.find((one) => one.kind === kind);
}

function finalizerFaults(controllers: readonly AnyController[], kind: KindName): string[] {
  return (definitionOf(kind).finalizers ?? [])
    .filter((name) => name !== gateway.finalizer && !controllers.some((it) => it.name === name && it.kind === kind))
    .map(
      (name) =>
        `Kind ${kind} has a finalizer that no controller of the kind releases, so its deletion would never end: ${name}`,
    );
}

function declarationFaults(controller: AnyController): string[] {
  const { name, kind, reads, wakes } = controller;
  const faults = wakes
    .filter((wake) => wake.kind === kind || !reads.includes(wake.kind))
    .map((wake) =>
      wake.kind === kind
        ? `Controller ${name} wakes on its own kind, so its own writes would wake it: ${kind}`
        : `Controller ${name} wakes on a kind that it does not read: ${wake.kind}`,
    );
  if (canFail(kind) && controller.notifies === undefined)
    faults.push(
      `Controller ${name} notifies no user although ${kind} can fail: declare \`notifies\`, or why not ({ never })`,
    );
  const isHolder = definitionOf(kind).finalizers?.includes(name) ?? false;
  if (controller.finalize !== undefined && !isHolder)
    faults.push(
      `Controller ${name} has a \`finalize\` that is never called, as the kind ${kind} does not have its finalizer`,
    );
  return faults;
}

/** Whether its phases have one in which users have to do something. */
function canFail(kind: KindName): boolean {
  const { phase } = { phase: undefined, ...allKinds[kind].observed.shape };
  return phase !== undefined && ['error', 'failed'].some((failed) => phase.safeParse(failed).success);
}

function twice<T>(values: readonly T[]): T[] {
  return [...new Set(values.filter((value, at) => values.indexOf(value) !== at))];
}

/** Kinds, their controllers, and what those read and write, one line per controller, sorted by kind. */
export function describeGraph(controllers: readonly AnyController[]): string {
  const lines = controllers.map(({ name, kind, reads, children, wakes }) => {
    const parts = [`${kind} ← ${name}`];
    if (reads.length > 0) parts.push(`reads ${sorted(reads)}`);
    if (wakes.length > 0) parts.push(`wakes on ${sorted(new Set(wakes.map((wake) => wake.kind)))}`);
    if (children.length > 0) parts.push(`writes ${sorted(children)}`);
    return parts.join('; ');
  });
  return [...lines, `${gateway.observes} ← gateway`].sort().join('\n');
}

function sorted(kinds: Iterable<string>): string {
  return [...kinds].sort().join(', ');
}
