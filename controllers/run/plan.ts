import { defined } from '../../store/defined.ts';
import { limitsOf } from '../application/instance.ts';
import { mountsOf } from '../rollout/mounted.ts';
import { environmentNetwork } from '../rollout/environment-network.ts';
import { composedMounts, firstNetwork } from '../application/composed.ts';
import type { Action } from '../rollout/actions.ts';
import type { Composed } from '../rollout/services.ts';
import type { Wanted } from '../task/task.ts';
import { planTask } from '../task/task.ts';
import { isWanted } from './states.ts';
import type { World } from './states.ts';

type Deployment = NonNullable<World['deployment']>;

/**
 * The writes that a run needs. Pure. The task is made once and never changed: another one would end the command and
 * begin it again. It is removed once its end was recorded, or to cancel it.
 */
export function plan(world: World): Action[] {
  const { run, task } = world;
  if (isWanted(world)) {
    const mayBegin = task === undefined && run.observed?.phase !== 'running';
    return mayBegin ? planTask('run', run, { task, wanted: wantedOf(world) }) : [];
  }
  return planTask('run', run, { task, wanted: undefined });
}

function wantedOf({ run, application, deployment }: World): Wanted<'run'> | undefined {
  if (application === undefined || deployment === undefined) return undefined;
  const { config, environment_id } = deployment.desired;
  const { image = '', image_digest, references } = imageOf(run, deployment);
  const service = deployment.desired.services?.find(({ name }) => name === run.desired.service);
  const { command, env, timeout_seconds, read_only_volumes } = run.desired;
  return {
    place: {
      server_id: run.desired.server_id,
      project_id: run.desired.project_id,
      environment_id,
      workload_kind: 'run',
      workload_id: run.meta.id,
      workload_name: application.desired.internal_id,
      version: run.meta.id,
    },
    spec: (head) => ({
      ...defined({
        image_digest,
        references: config.references === undefined ? undefined : { ...references },
      }),
      application_id: application.meta.id,
      command: [...command],
      image,
      env: service === undefined ? { ...config.env, ...env } : { ...env },
      network: service === undefined ? environmentNetwork(environment_id) : firstNetwork(application, service),
      mounts: (service === undefined ? mountsOf(application) : composedMounts(application, service)).map(
        ({ volume, path, read_only }) => ({
          volume,
          path,
          read_only: read_only || read_only_volumes,
        }),
      ),
      limits: service === undefined ? limitsOf(config) : { ...limitsOfService(service) },
      ...head,
    }),
    deadlineMs: timeout_seconds * 1000,
  };
}

/** The image of the deployment, or of the service whose command it is. */
function imageOf({ desired: { service: name } }: World['run'], { desired, observed }: Deployment) {
  const service = desired.services?.find((it) => it.name === name);
  if (service === undefined) return observed ?? {};
  return {
    references: observed?.references,
    image: service.image,
    image_digest: service.image_digest ?? observed?.service_digests?.[service.name],
  };
}

function limitsOfService({ limits: { memory_bytes, nano_cpus } }: Composed) {
  return defined({ memory_bytes, nano_cpus });
}
