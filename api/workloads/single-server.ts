import { isElsewhere } from '../../store/clone-lack.ts';
import { isUnfinishedClone } from '../../store/copying.ts';
import type { TenantView } from '../../store/mirror.ts';
import { objectsIn } from '../../store/objects-in.ts';
import { placesOf } from '../../store/population.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { holdPopulation } from './population.ts';

type Project = ReadonlyResource<'project'>;

/** Most objects that an error names; it gives the number of the others. */
const maxNamed = 20;

/**
 * In single-server mode all workloads of a project run on its default server; without one, its first workload decides.
 * @throws ApiError BAD_REQUEST for another server.
 */
export function requireServerOf({ desired }: Project, id: string, field: string): void {
  if (!isElsewhere(desired, id)) return;
  const message = `The project is in single-server mode: name its default server, ${desired.default_server_id ?? ''}, or leave the mode first`;
  throw badField(field, 'single_server', message);
}

/** Makes the server of a first workload the default one, in the unit of that workload, if the mode lacks one. */
export function settleServer(unit: Unit, project: Project, serverId: string): void {
  const { single_server_mode, default_server_id } = project.desired;
  if (single_server_mode && default_server_id === undefined)
    unit.change(project, (draft) => void (draft.default_server_id = serverId));
  else unit.require(project);
}

/**
 * Checks a change of the mode or of the default server, in the unit of that change. In the mode without a default
 * server, the server on which all workloads run becomes the default. @throws ApiError CONFLICT with the workloads that
 * run elsewhere.
 */
export async function requireSingleServer(
  ctx: Pick<RequestContext, 'view' | 'fresh'>,
  unit: Unit,
  before: Project,
  { meta, desired }: Project,
): Promise<void> {
  const { single_server_mode, default_server_id } = desired;
  const isSame =
    before.desired.single_server_mode === single_server_mode && before.desired.default_server_id === default_server_id;
  if (!single_server_mode || isSame) return;
  await holdPopulation(ctx, unit, before);
  const { view } = ctx;
  const environments = view.by('environment', 'project', meta.id);
  const placed = environments
    .flatMap((one) => objectsIn(view, 'environment', one.meta.id))
    .filter((it) => serversOf(it).length > 0);
  const [first] = placed;
  const server = default_server_id ?? (first && serversOf(first)[0]);
  const away = placed.filter((it) => serversOf(it).some((id) => id !== server));
  if (away.length > 0)
    throw conflicting(
      `In single-server mode all of a project runs on one server, and ${away.length} of it run elsewhere than on ${server ?? ''}: delete those, or create them anew there, first`,
      away.slice(0, maxNamed).map((it) => ({ field: 'single_server_mode', reason: 'elsewhere', message: place(it) })),
    );
  if (environments.some(isUnfinishedClone))
    throw conflicting('An environment of the project is still being cloned: wait until its condition Ready is true');
  if (server !== undefined) unit.change(before, (draft) => void (draft.default_server_id = server));
}

function serversOf(it: ReadonlyResource): readonly string[] {
  return placesOf(it, 'server');
}

function place(it: ReadonlyResource): string {
  const { meta, desired } = it;
  const name = 'name' in desired ? ` ${desired.name}` : '';
  return `${meta.kind}${name} (${meta.id}) is on server ${serversOf(it).join(', ')}`;
}

/** @throws ApiError CONFLICT with the projects whose default server it is: they need another one first. */
export function refuseDefaultServer({ meta }: ReadonlyResource<'server'>, view: TenantView): void {
  const projects = view.by('project', 'default_server', meta.id).filter(isStaying);
  if (projects.length === 0) return;
  throw conflicting(
    `The server is the default server of ${projects.length} project(s): give them another default_server_id, or none`,
    projects.slice(0, maxNamed).map((project) => ({
      field: 'default_server_id',
      reason: 'in_use',
      message: `Project ${project.desired.name} (${project.meta.id})`,
    })),
  );
}
