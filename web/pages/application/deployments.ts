import { page } from '../../api.ts';
import { deploymentsOf, newestDeployments } from '../../frame/collections.ts';
import { useConsole, useList } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Application, Deployment } from '../../model.ts';

/**
 * The newest deployment of an application that succeeded and does not serve: a roll back leads there. It is asked for where
 * the newest ones, which are all that the console keeps, have none.
 */
export function useEarlierSuccess(it: Application): Deployment | undefined {
  const { login } = useConsole();
  const known = useDeployments(it);
  const isEarlier = (one: Deployment): boolean => one.status === 'succeeded' && one.id !== it.current_deployment_id;
  const found = known.find(isEarlier);
  const asks = found === undefined && known.length >= newestDeployments;
  const older = useRead(async () => {
    if (!asks) return [];
    const query = { sort: '-number' as const, status: ['succeeded' as const], limit: 2 };
    const { items } = await page(login, '/api/v1/applications/{appId}/deployments', { path: { appId: it.id }, query });
    return items;
  }, [it.id, asks, it.current_deployment_id]);
  return found ?? older.data?.find(isEarlier);
}

/** The known deployments of an application, newest first. */
export function useDeployments(it: Pick<Application, 'id'>): readonly Deployment[] {
  return useList(deploymentsOf(it.id), 'deployment')
    .objects.filter((one) => one.application_id === it.id)
    .toSorted((a, b) => b.number - a.number);
}
