import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Read } from '../../frame/use-read.ts';
import type { Fn, FnDetail } from './tab-props.ts';

/** A function with its code and its variables, which the watch does not send, and which depend on the reader's role. */
export function useDetail({ id, project_id: project, resource_version: version }: Fn): Read<FnDetail> {
  const { login } = useConsole();
  const rank = useRank(project);
  return useRead(() => call(login, 'GET', '/api/v1/functions/{id}', { path: { id } }), [id, version, rank]);
}
