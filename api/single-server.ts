import { contentOf, isUnfinishedClone } from '../store/copying.ts';
import type { TenantView } from '../store/mirror.ts';
import type { Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { badField, conflicting } from './api-error.ts';
import type { RequestContext } from './context.ts';
import { holdPopulation } from './population.ts';

type Project = ReadonlyResource<'project'>;

/** Objects that an error names; of more it tells the number. */
const maxNamed = 20;

/**
 * In single-server mode all of a project runs on its default server; without one, its first workload decides.
 * @throws ApiError BAD_REQUEST for another one.
 */
export function requireServerOf({ desired }: Project, id: string, field: string): void {
  const { single_server_mode, default_server_id } = desired;
  if (!single_server_mode || default_server_id === undefined || default_server_id === id) return;
  const message = `The project is in single-server mode: all of it runs on its default server ${default_server_id}`;
  throw badField(field, 'single_server', message);
}

/** As part of the unit that puts a workload on a server: it is the default one from now on, if the mode lacks one. */
export function settleServer(unit: Unit, project: Project, serverId: string): void {
  const { single_server_mode, default_server_id } = project.desired;
  if (single_server_mode && default_server_id === undefined)
    unit.change(project, (draft) => void (draft.default_server_id = serverId));
  else unit.require(project);
}

/**
 * Judges a change of the mode or of its server, as part of the unit. In the mode without a server, the one that all
 * workloads run on is the default. @throws ApiError CONFLICT that names what runs elsewhere.
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
  const placed = environments.flatMap((one) => contentOf(view, one.meta.id)).filter((it) => serverOf(it) !== undefined);
  const [first] = placed;
  const server = default_server_id ?? (first && serverOf(first));
  const away = placed.filter((it) => serverOf(it) !== server);
  if (away.length > 0)
    throw conflicting(
      `In single-server mode all of a project runs on one server, and ${away.length} of it run elsewhere than on ${server ?? ''}`,
      away.slice(0, maxNamed).map((it) => ({ field: 'single_server_mode', reason: 'elsewhere', message: place(it) })),
    );
  if (environments.some(isUnfinishedClone))
    throw conflicting('An environment of the project is still being cloned: wait until its condition Ready is true');
  if (server !== undefined) unit.change(before, (draft) => void (draft.default_server_id = server));
}

function serverOf({ desired }: ReadonlyResource): string | undefined {
  return 'server_id' in desired ? desired.server_id : undefined;
}

function place({ meta: { kind, id }, desired }: ReadonlyResource): string {
  const name = 'name' in desired ? ` ${desired.name}` : '';
  return `${kind}${name} (${id}) is on server ${'server_id' in desired ? desired.server_id : ''}`;
}

/** @throws ApiError CONFLICT that names the projects whose default server it is: they need another one first. */
export function refuseDefaultServer({ meta }: ReadonlyResource<'server'>, view: TenantView): void {
  const projects = view
    .by('project', 'default_server', meta.id)
    .filter((project) => project.meta.deletionRequestedAt === undefined);
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
