import type { DesiredOf } from './kinds/kinds.ts';
import { plainCopy } from './plain-copy.ts';
import type { ReadonlyResource } from './resource.ts';
import type { Unit } from './unit-of-work.ts';

type Fn = ReadonlyResource<'function'>;

export interface NewFunctionVersion extends Pick<DesiredOf<'function_version'>, 'requested_at'> {
  requestedBy?: string | undefined;
  /** The image to build upon, in place of that of its runtime. */
  baseImage?: string | undefined;
}

/**
 * Adds a version of the function, as the unit has changed it so far, which is to serve once it is built. Whether its server
 * may be used is for the caller to judge.
 */
export function createFunctionVersion(
  unit: Pick<Unit, 'create' | 'change'>,
  it: Fn,
  id: string,
  { requestedBy, baseImage, requested_at }: NewFunctionVersion,
): Fn {
  let number = 0;
  const changed = unit.change(it, (draft) => {
    number = draft.next_version_number;
    draft.next_version_number = number + 1;
    draft.version_id = id;
    draft.attempt += 1;
    draft.run = 'running';
  });
  const { desired } = changed;
  unit.create('function_version', id, {
    function_id: it.meta.id,
    project_id: desired.project_id,
    server_id: desired.server_id,
    number,
    runtime: desired.runtime,
    code: desired.code,
    ...(desired.dependencies !== undefined && { dependencies: desired.dependencies }),
    config: plainCopy<DesiredOf<'function'>['config']>(desired.config),
    ...(baseImage !== undefined && { base_image: baseImage }),
    ...(requestedBy !== undefined && { requested_by: requestedBy }),
    requested_at,
  });
  return changed;
}
