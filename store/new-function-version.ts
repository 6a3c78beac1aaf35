import type { DesiredOf } from './kinds/kinds.ts';
import { plainCopy } from './plain-copy.ts';
import type { ReadonlyResource } from './resource.ts';
import type { Unit } from './unit-of-work.ts';

type Fn = ReadonlyResource<'function'>;

export interface NewFunctionVersion extends Pick<DesiredOf<'function_version'>, 'requested_at'> {
  requestedBy?: string | undefined;
  /** The image to build upon, in place of that of its runtime. */
  baseImage?: string | undefined;
  /** The version that was built and that it is to be, in place of the function as it is now. */
  from?: ReadonlyResource<'function_version'> | undefined;
}

/**
 * Adds a version of the function, as the unit has changed it so far, which is to serve once it is built. Whether its server
 * may be used is for the caller to judge.
 */
export function createFunctionVersion(
  unit: Pick<Unit, 'create' | 'change'>,
  it: Fn,
  id: string,
  { requestedBy, baseImage, requested_at, from }: NewFunctionVersion,
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
  const source = from?.desired ?? desired;
  const { image, image_digest } = from?.observed ?? {};
  const reuse =
    from === undefined || image === undefined || image_digest === undefined
      ? undefined
      : { number: from.desired.number, image, image_digest };
  unit.create('function_version', id, {
    function_id: it.meta.id,
    project_id: desired.project_id,
    server_id: desired.server_id,
    number,
    runtime: source.runtime,
    code: source.code,
    ...(source.dependencies !== undefined && { dependencies: source.dependencies }),
    config: plainCopy<DesiredOf<'function'>['config']>(source.config),
    ...(baseImage !== undefined && { base_image: baseImage }),
    ...(reuse !== undefined && { reuse }),
    ...(requestedBy !== undefined && { requested_by: requestedBy }),
    requested_at,
  });
  return changed;
}
