import { copiedFrom } from './copying.ts';
import { grants } from './grants.ts';
import { maxEnvironments } from './kinds/project.ts';
import type { TenantView } from './mirror.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';
import { serverLack } from './server-room.ts';

/** Why an environment cannot be copied within its project. */
export interface CloneLack {
  reason: 'NoRoom' | 'ServerNotUsable';
  message: string;
}

/** What is in the way of a copy of an environment on the same servers; `undefined`: nothing is. */
export function cloneLack(
  view: TenantView,
  project: ReadonlyResource<'project'>,
  source: ReadonlyResource<'environment'>,
): CloneLack | undefined {
  const count = view.by('environment', 'project', project.meta.id).length;
  if (count >= maxEnvironments)
    return {
      reason: 'NoRoom',
      message: `The project has ${count} environments already: delete one that is not needed`,
    };
  for (const { desired } of copiedFrom(view, source.meta.id)) {
    const message = 'server_id' in desired ? placeLack(view, project, desired.server_id) : undefined;
    if (message !== undefined) return { reason: 'ServerNotUsable', message };
  }
  const copies = view.by('application', 'environment', source.meta.id);
  const message = serverLack(
    view,
    copies.map(({ desired }) => ({ server: desired.server_id, desired })),
  );
  return message === undefined ? undefined : { reason: 'NoRoom', message };
}

function placeLack(
  view: TenantView,
  { meta, desired }: ReadonlyResource<'project'>,
  id: string | undefined,
): string | undefined {
  if (id === undefined) return undefined;
  const it = view.get('server', id);
  if (!isStaying(it)) return `Server ${id} was deleted and has workloads in the environment that is copied`;
  const { name } = it.desired;
  if (isElsewhere(desired, id))
    return `The project is in single-server mode, and server ${name} is not its default one`;
  return grants(it, meta.id) ? undefined : `The server ${name} is not for this project`;
}

/** Whether single-server mode keeps workloads of the project from a server. Its first workload decides without a default. */
export function isElsewhere(
  project: Pick<ReadonlyResource<'project'>['desired'], 'single_server_mode' | 'default_server_id'>,
  server: string,
): boolean {
  const { single_server_mode, default_server_id: home } = project;
  return single_server_mode && home !== undefined && home !== server;
}
