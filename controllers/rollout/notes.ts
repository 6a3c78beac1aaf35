import type { ConditionInput } from '../../store/resource.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { isWanted } from './slots.ts';
import type { Assignment } from './slots.ts';

/** Conditions that are not an agent's to set: the control plane decides by them. */
const ownTypes: ReadonlySet<string> = new Set([
  'Ready',
  'Available',
  'Reconciling',
  'Stalled',
  'ServerReachable',
  'AgentTooOld',
  'LastDeploymentSucceeded',
]);

/**
 * The conditions that follow from what the agent notes of instances: one of each type, of the first instance that has
 * it. A condition says that something is so, hence `true`; it goes with the note.
 */
export function notesOf(instances: readonly Assignment[]): ConditionInput[] {
  const found = new Map<string, ConditionInput>();
  for (const { type, reason, message } of instances.filter(isWanted).flatMap((it) => upToDate(it)?.notes ?? []))
    if (!found.has(type) && !ownTypes.has(type)) found.set(type, { type, status: 'true', reason, message });
  return [...found.values()];
}
