import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { z } from 'zod';
import type { RequestContext } from '../endpoint/context.ts';
import type { EnvironmentCreate, EnvironmentUpdate } from '../resources/environment.ts';
import { assign, given } from '../resources/object-fields.ts';
import { requireEnvironmentRoom } from './cloning.ts';

/** The type of an environment for which none is named. The one that comes with a project is of type `production`. */
const usualType = 'staging';

/** Adds a new environment of a project to a unit. @throws ApiError CONFLICT without room */
export function addEnvironment(
  ctx: Pick<RequestContext, 'view' | 'random'>,
  unit: Unit,
  project: ReadonlyResource<'project'>,
  { labels, ...fields }: z.output<typeof EnvironmentCreate>,
): Resource<'environment'> {
  requireEnvironmentRoom(project, ctx.view);
  unit.require(project);
  return unit.create(
    'environment',
    ctx.random.id(),
    { type: usualType, ...given(fields), name: fields.name, project_id: project.meta.id },
    defined({ labels }),
  );
}

/** Writes the sent fields, except the name, into a draft. */
export function writeEnvironment(draft: DesiredOf<'environment'>, body: z.output<typeof EnvironmentUpdate>): void {
  if (body.type !== undefined) draft.type = body.type ?? usualType;
  assign(draft, 'display_name', body.display_name);
  assign(draft, 'description', body.description);
  assign(draft, 'color', body.color);
  assign(draft, 'git_branch', body.git_branch);
}
