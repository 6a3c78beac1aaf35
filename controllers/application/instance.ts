import { mainPort, mainService } from '../../agent-protocol/workload.ts';
import { defined } from '../../store/defined.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { Failure } from '../runtime/failure.ts';
import { serviceHash } from '../rollout/spec-hash.ts';
import type { App, Deployment } from './world.ts';

/** One bridge network per environment: instances of different environments cannot reach each other. */
function networkName(environmentId: string): string {
  return `sp-${environmentId.replaceAll('-', '').slice(0, 12)}`;
}

/**
 * The desired state of one service instance: the deployment's snapshot, the application's mounts and restart token, and
 * whether the server publishes ports. What is not of the deployment changes while its instances run: other mounts and
 * another restart token replace their containers.
 */
export function instanceDesired(input: {
  app: App;
  deployment: Deployment;
  server: ReadonlyResource<'server'> | undefined;
  slot: number;
  restartToken: string | undefined;
}): DesiredOf<'assignment'> {
  const { app, deployment, server, slot, restartToken } = input;
  const { config } = deployment.desired;
  const port = config.exposed_port;
  const isPublished = server?.desired.direct_ports_enabled === true;
  const spec: ServiceSpec = ServiceSpec.parse(
    defined({
      type: 'service',
      slot,
      image: deployment.observed?.image ?? '',
      image_digest: deployment.observed?.image_digest,
      command: read('start_command', config.start_command, parseCommand)?.words,
      config: { kind: 'deployment', id: deployment.meta.id },
      networks: [{ name: networkName(deployment.desired.environment_id), aliases: [app.desired.internal_id] }],
      ports: port === undefined ? [] : [{ name: mainPort, port, ...(isPublished && { publish: port }) }],
      probe:
        config.healthcheck_path === undefined || port === undefined
          ? undefined
          : { type: 'http', port, path: config.healthcheck_path },
      mounts: app.desired.mounts.map(({ volume_id, path, read_only }) => ({
        type: 'volume',
        volume: volumeName(volume_id),
        path,
        read_only,
      })),
      limits: defined({
        memory_bytes: read('memory_limit', config.memory_limit, parseMemory)?.bytes,
        nano_cpus: read('cpu_limit', config.cpu_limit, parseCpus)?.nanoCpus,
      }),
      restart_policy: config.restart_policy,
      restart_token: restartToken,
    }),
  );
  return {
    server_id: deployment.desired.server_id,
    project_id: deployment.desired.project_id,
    environment_id: deployment.desired.environment_id,
    workload_kind: 'application',
    workload_id: app.meta.id,
    workload_name: app.desired.internal_id,
    service: mainService,
    version: deployment.meta.id,
    run: 'running',
    spec,
    spec_hash: serviceHash(deployment.meta.id, spec),
  };
}

/** @throws Failure for a text that an earlier release stored although it is wrong; its deployment fails by itself. */
function read<T extends object>(
  field: string,
  text: string | undefined,
  parse: (text: string) => T | { fault: string },
) {
  const parsed = text === undefined ? undefined : parse(text);
  if (parsed !== undefined && 'fault' in parsed)
    throw new Failure('InvalidConfig', `Cannot start instances as ${field} is wrong: ${parsed.fault}`);
  return parsed;
}
