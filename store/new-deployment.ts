import type { DeepReadonly } from './deep-readonly.ts';
import type { BuiltImage, RunConfig, Source } from './kinds/application.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import { plainCopy } from './plain-copy.ts';
import type { ReadonlyResource, Resource } from './resource.ts';
import type { Unit } from './unit-of-work.ts';

type Application = ReadonlyResource<'application'>;

export interface NewDeployment extends Pick<DesiredOf<'deployment'>, 'trigger' | 'queued_at'> {
  triggeredBy?: string | undefined;
  /** Instead of the head of the branch. */
  commit?: string | undefined;
  /** Present: nothing is built. */
  reuse?: DeepReadonly<BuiltImage> | undefined;
  rollbackOf?: string | undefined;
  /** Of a compose file. */
  services?: DesiredOf<'deployment'>['services'];
  notes?: DesiredOf<'deployment'>['notes'];
  /** Instead of the source of the application. */
  source?: DeepReadonly<Source> | undefined;
}

/**
 * Adds a deployment of the application, as the unit has changed it so far, and points the application at it. An
 * application that was scaled to 0 gets its earlier replicas back, since it is asked to run. Whether its server may be
 * used is for the caller to judge.
 */
export function createDeployment(
  unit: Pick<Unit, 'create' | 'change'>,
  it: Application,
  id: string,
  what: NewDeployment,
): Resource<'deployment'> {
  const { number, desired } = point(unit, it, id);
  const reuse = what.reuse ?? adoptedImage(it, what.source ?? desired.source);
  return unit.create('deployment', id, {
    application_id: it.meta.id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    server_id: desired.server_id,
    number,
    trigger: what.trigger,
    ...(what.triggeredBy !== undefined && { triggered_by: what.triggeredBy }),
    source: plainCopy<Source>(what.source ?? desired.source),
    ...(what.commit !== undefined && { commit: what.commit }),
    config: plainCopy<RunConfig>(desired.config),
    ...(what.services !== undefined && { services: what.services }),
    ...(what.notes !== undefined && { notes: what.notes }),
    ...(reuse !== undefined && { reuse: { ...reuse } }),
    ...(what.rollbackOf !== undefined && { rollback_of: what.rollbackOf }),
    gives_port: true,
    queued_at: what.queued_at,
    cancel_requested: false,
  });
}

/** The image that an application was taken over with, until it serves: from then on its tag is resolved anew. */
function adoptedImage(
  { desired, observed }: Application,
  source: DeepReadonly<Source>,
): DeepReadonly<BuiltImage> | undefined {
  const adopted = desired.adopted_image;
  const isNamed = source.type === 'image' && source.image_url === adopted?.image;
  return isNamed && observed?.current_deployment_id === undefined ? adopted : undefined;
}

function point(unit: Pick<Unit, 'change'>, it: Application, id: string) {
  let number = 0;
  const { desired } = unit.change(it, (draft) => {
    setToRun(draft);
    number = draft.next_deployment_number;
    draft.next_deployment_number = number + 1;
    draft.deployment_id = id;
  });
  return { number, desired };
}

/**
 * Sets an application to run; after a scale to 0 it gets its earlier replicas back. What was stopped is not started before
 * the next deployment, unless the caller lets it be.
 */
export function setToRun(draft: DesiredOf<'application'>): void {
  if (draft.run === 'stopped') draft.starts_from = draft.next_deployment_number;
  draft.run = 'running';
  if (draft.replicas === 0) draft.replicas = draft.last_replicas ?? 1;
}
