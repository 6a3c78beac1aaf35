import { deploymentsOf } from '../../frame/collections.ts';
import { useList } from '../../frame/context.ts';
import type { Application, Deployment } from '../../model.ts';

/** The newest deployment of an application that succeeded and does not serve: a roll back leads there. */
export function useEarlierSuccess(it: Application): Deployment | undefined {
  return useList(deploymentsOf(it.id), 'deployment')
    .objects.filter(
      (one) => one.application_id === it.id && one.status === 'succeeded' && one.id !== it.current_deployment_id,
    )
    .toSorted((a, b) => b.number - a.number)[0];
}

/** The known deployments of an application, newest first. */
export function useDeployments(it: Pick<Application, 'id'>): readonly Deployment[] {
  return useList(deploymentsOf(it.id), 'deployment')
    .objects.filter((one) => one.application_id === it.id)
    .toSorted((a, b) => b.number - a.number);
}
