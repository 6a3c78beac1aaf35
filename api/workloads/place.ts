import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { PlaceFields } from '../resources/object-fields.ts';
import { referred, referredEnvironment, serverFor } from './references.ts';
import { settleServer } from './single-server.ts';

/** Where a new workload is. */
export interface Place {
  project: ReadonlyResource<'project'>;
  environment: ReadonlyResource<'environment'>;
  server: ReadonlyResource<'server'>;
  /** The fields of a desired state that name the place. */
  fields: { project_id: string; environment_id: string; server_id: string };
}

/**
 * The place of a new workload, as a body names it: by default the default environment and the default server of the
 * project. @throws as `referred`, `referredEnvironment` and `serverFor`
 */
export function placeFrom(view: TenantView, { project_id, environment_id, server_id }: PlaceFields): Place {
  const project = referred(view, 'project', project_id, 'project_id');
  const environment = referredEnvironment(view, environment_id ?? project.desired.default_environment_id, project);
  const server = serverFor(view, project, server_id);
  const fields = { project_id: project.meta.id, environment_id: environment.meta.id, server_id: server.meta.id };
  return { project, environment, server, fields };
}

/**
 * Adds what a place needs to the unit that creates a workload there: guards that all of it stays as it was read, and for
 * the first workload of a project in single-server mode the default server.
 */
export function enterPlace(unit: Unit, { project, environment, server }: Place): void {
  settleServer(unit, project, server.meta.id);
  unit.require(environment);
  unit.require(server);
}
