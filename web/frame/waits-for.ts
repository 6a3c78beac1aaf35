import type { Application } from '../model.ts';

type Reconciled = Pick<Application, 'conditions' | 'generation' | 'observed_generation'>;

/** Why an object has not reached its desired state, in the words of its controller; empty if it has. */
export function waitsFor({ conditions, generation, observed_generation }: Reconciled): string {
  const open = conditions.find(
    ({ type, status }) => (type === 'Reconciling' || type === 'Stalled') && status === 'true',
  );
  if (open !== undefined) return open.message === '' ? open.reason : open.message;
  const unready = conditions.find(({ type, status }) => type === 'Ready' && status === 'false');
  if (unready !== undefined && unready.reason !== 'Stopped')
    return unready.message === '' ? unready.reason : unready.message;
  return observed_generation < generation ? 'its controller' : '';
}
