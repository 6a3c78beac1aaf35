import type { ApiObject } from './client.ts';

/** Added to the path of a change: the answer comes when the object has settled, or after four minutes. */
export const waiting = 'wait=240';

/** Why an object has not reached its desired state, in words; `undefined` once it has settled. */
export function openEnd({ conditions = [], generation, observed_generation }: ApiObject): string | undefined {
  const of = (type: string) => conditions.find((one) => one.type === type && one.status === 'true');
  const stalled = of('Stalled');
  if (stalled !== undefined) return `Stalled: ${stalled.message}`;
  const open = of('Reconciling');
  if (open?.reason === 'Retrying') return `Tries again after a failure: ${open.message}`;
  if (open !== undefined) return `Waits for ${open.message === '' ? open.reason : open.message}`;
  if (generation !== undefined && (observed_generation ?? 0) < generation)
    return 'Waits for the control plane to take up the last change';
  return undefined;
}
