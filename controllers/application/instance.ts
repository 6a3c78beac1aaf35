import { createHash } from 'node:crypto';
import { defined } from '../../store/defined.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { Failure } from '../runtime/failure.ts';
import type { App, Deployment } from './world.ts';

/** The id of an instance. Deterministic, so that a repeated creation finds the first one. */
export function slotId(deploymentId: string, slot: number): string {
  return uuidv5(deploymentId, `slot/${slot}`);
}

/** One bridge network per environment: instances of different environments cannot reach each other. */
export function networkName(environmentId: string): string {
  return `sp-${environmentId.replaceAll('-', '').slice(0, 12)}`;
}

/**
 * The desired state of one service instance: the deployment's snapshot, the application's replicas and restart token,
 * the server's ports. Everything but the last two is immutable with the deployment.
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
  const fixed = defined({
    type: 'service' as const,
    slot,
    image: deployment.observed?.image ?? '',
    command: read('start_command', config.start_command, parseCommand)?.words,
    port: config.exposed_port,
    memory_bytes: read('memory_limit', config.memory_limit, parseMemory)?.bytes,
    nano_cpus: read('cpu_limit', config.cpu_limit, parseCpus)?.nanoCpus,
    network: networkName(deployment.desired.environment_id),
    alias: app.desired.internal_id,
  });
  return {
    server_id: deployment.desired.server_id,
    project_id: deployment.desired.project_id,
    environment_id: deployment.desired.environment_id,
    workload_kind: 'application',
    workload_id: app.meta.id,
    workload_name: app.desired.internal_id,
    deployment_id: deployment.meta.id,
    run: 'running',
    spec: defined({
      ...fixed,
      env: 'of_deployment' as const,
      health: config.healthcheck_path === undefined ? undefined : { path: config.healthcheck_path },
      image_digest: deployment.observed?.image_digest,
      publish_port: server?.desired.direct_ports_enabled === true ? config.exposed_port : undefined,
      restart_token: restartToken,
      restart_policy: config.restart_policy,
      grace_seconds: 10,
    }),
    spec_hash: createHash('sha256')
      .update(JSON.stringify([deployment.meta.id, fixed]))
      .digest('hex'),
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
