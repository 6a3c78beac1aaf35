import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { provisioningSteps } from '../../store/kinds/provisioning-step.ts';
import type { Condition, ConditionInput } from '../../store/resource.ts';
import type { Next } from './controller.ts';

type Conditions = readonly DeepReadonly<Condition>[];

/** What one reconcile stamps its conditions with. */
export interface Stamp {
  /** Generation that the reconcile read. */
  generation: number;
  now: Date;
}

const reconciling = 'Reconciling';
const stalled = 'Stalled';

/**
 * The conditions to store: those of the verdict, `Reconciling` and `Stalled` as they follow from `next`, in their order.
 * `changedAt` of a condition moves only if its status or reason does.
 */
export function derive(previous: Conditions, inputs: readonly ConditionInput[], next: Next, stamp: Stamp): Condition[] {
  const all = inputs.filter((input) => input.type !== reconciling && input.type !== stalled);
  if (!all.some((input) => input.type === 'Ready'))
    all.push({ type: 'Ready', status: 'unknown', reason: 'Unreported', message: '' });
  const own = inputs.find((input) => input.type === reconciling);
  const derived = fromNext(next, all, own);
  if (derived !== undefined) all.push(derived);
  return all.map((input) => stamped(input, previous, stamp)).sort(inOrder);
}

/** Whether there is a `Reconciling` or `Stalled` follows from `next`; a verdict may only word its own `Reconciling`. */
function fromNext(
  next: Next,
  conditions: readonly ConditionInput[],
  own: ConditionInput | undefined,
): ConditionInput | undefined {
  if ('settled' in next) return undefined;
  if ('stalled' in next) return { type: stalled, status: 'true', ...next.stalled };
  const { because } = next;
  if ('waitingFor' in next) return own ?? { type: reconciling, status: 'true', reason: 'Waiting', message: because };
  // An object that is ready and looked at again is watched, not changing.
  const isReady = conditions.some((condition) => condition.type === 'Ready' && condition.status === 'true');
  if (isReady) return own;
  return own ?? { type: reconciling, status: 'true', reason: 'Progressing', message: because };
}

/** The conditions after an error: the known ones stay, and `Reconciling` shows that and why it is tried again. */
export function retrying(previous: Conditions, message: string, stamp: Stamp): Condition[] {
  const condition: ConditionInput = { type: reconciling, status: 'true', reason: 'Retrying', message };
  return [...previous.filter(isDomain), stamped(condition, previous, stamp)].sort(inOrder);
}

/** The conditions after an error that no retry can cure. `Ready` becomes false, as readiness is not known any more. */
export function stall(previous: Conditions, reason: string, message: string, stamp: Stamp): Condition[] {
  const domain = previous.filter((condition) => isDomain(condition) && condition.type !== 'Ready');
  const added = [
    { type: 'Ready', status: 'false', reason, message },
    { type: stalled, status: 'true', reason, message },
  ] as const;
  return [...domain, ...added.map((input) => stamped(input, previous, stamp))].sort(inOrder);
}

function isDomain(condition: DeepReadonly<Condition>): boolean {
  return condition.type !== reconciling && condition.type !== stalled;
}

function stamped(input: ConditionInput, previous: Conditions, { generation, now }: Stamp): Condition {
  const before = previous.find((condition) => condition.type === input.type);
  const isSame = before?.status === input.status && before.reason === input.reason;
  return {
    type: input.type,
    status: input.status,
    reason: input.reason,
    message: input.message,
    observedGeneration: generation,
    changedAt: isSame ? before.changedAt : now.toISOString(),
  };
}

/** By type, then what comes step by step, in the order of the steps. */
function inOrder(a: Condition, b: Condition): number {
  const [first, second] = [stepOf(a), stepOf(b)];
  if (first !== second) return first - second;
  return a.type < b.type ? -1 : a.type > b.type ? 1 : 0;
}

function stepOf({ type }: Condition): number {
  return provisioningSteps.findIndex((step) => step === type);
}

/** The laws of a status that a verdict breaks, in words; empty if none. */
export function brokenLaws(generation: number, inputs: readonly ConditionInput[], next: Next): string[] {
  const broken: string[] = [];
  const types = inputs.map((input) => input.type);
  const ready = inputs.find((input) => input.type === 'Ready');
  if (!Number.isInteger(generation) || generation < 1) broken.push(`Generation must be positive: ${generation}`);
  if (ready === undefined) broken.push('Condition must be present: Ready');
  if ('stalled' in next && ready?.status === 'true') broken.push('Ready must not be true while Stalled');
  if (types.includes(stalled)) broken.push('Stalled must follow from `next`');
  if (types.includes(reconciling) && ('settled' in next || 'stalled' in next))
    broken.push('Reconciling must not be given once nothing is awaited');
  if ('because' in next && !/^[a-z0-9].* to .*[^.]$/s.test(next.because))
    broken.push(`Reason to go on must read after "waits for", as in "its server to answer": "${next.because}"`);
  if (new Set(types).size < types.length) broken.push(`Conditions must have distinct types: ${types.join(', ')}`);
  for (const { type, reason, message } of inputs) {
    if (!/^[A-Z][A-Za-z0-9]*$/.test(reason)) broken.push(`Reason must be CamelCase: ${type} has "${reason}"`);
    if (/\d{4}-\d\d-\d\dT\d\d:/.test(message)) broken.push(`Message must hold no time: ${type} has "${message}"`);
  }
  return broken;
}
