import { mainPort } from '../../agent-protocol/workload.ts';
import type { Limits } from '../../agent-protocol/workload.ts';
import { defined } from '../../store/defined.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { RunConfig } from '../../store/kinds/application.ts';
import { releaseOf } from '../../store/kinds/release-settings.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import { Failure } from '../runtime/failure.ts';
import { environmentNetwork } from '../rollout/environment-network.ts';
import { mountsOf } from '../rollout/mounted.ts';
import { serviceHash } from '../rollout/spec-hash.ts';
import { composedSpec } from './composed.ts';
import { hostNamesOf, readinessOf } from './parts.ts';
import type { Instance } from './parts.ts';

/**
 * The desired state of one service instance: the deployment's snapshot, the application's mounts, names, restart token
 * and ways of releasing, and whether the server publishes ports. What is not of the deployment changes while its
 * instances run: other mounts and another restart token replace their containers.
 */
export function instanceDesired(input: Instance): DesiredOf<'assignment'> {
  const { app, deployment, server, slot, restartToken } = input;
  if (input.service.composed !== undefined) return bound(input, composedSpec(input, input.service.composed));
  const { config } = deployment.desired;
  const port = config.exposed_port;
  const { minHealthySeconds, drainSeconds, stopGraceSeconds } = releaseOf(app.desired);
  const isPublished = server?.desired.direct_ports_enabled === true && app.desired.unpublished !== true;
  const spec: ServiceSpec = ServiceSpec.parse(
    defined({
      type: 'service',
      slot,
      image: deployment.observed?.image ?? '',
      image_digest: deployment.observed?.image_digest,
      command: read('start_command', config.start_command, parseCommand)?.words,
      config: { kind: 'deployment', id: deployment.meta.id },
      networks: [{ name: environmentNetwork(deployment.desired.environment_id), aliases: hostNamesOf(app) }],
      ports: port === undefined ? [] : [{ name: mainPort, port, ...(isPublished && { publish: port }) }],
      ...readinessOf(config),
      min_healthy_seconds: minHealthySeconds,
      drain_seconds: drainSeconds,
      grace_seconds: stopGraceSeconds,
      mounts: mountsOf(app),
      granted_capabilities: app.desired.capabilities,
      limits: limitsOf(config),
      restart_policy: config.restart_policy,
      restart_token: restartToken,
    }),
  );
  return bound(input, spec);
}

function bound({ app, deployment, service }: Instance, spec: ServiceSpec): DesiredOf<'assignment'> {
  return {
    server_id: deployment.desired.server_id,
    project_id: deployment.desired.project_id,
    environment_id: deployment.desired.environment_id,
    workload_kind: 'application',
    workload_id: app.meta.id,
    workload_name: app.desired.internal_id,
    service: service.name,
    version: service.version,
    run: 'running',
    spec,
    spec_hash: serviceHash(service.version, spec),
  };
}

/** @throws Failure */
export function limitsOf(config: DeepReadonly<RunConfig>): Limits {
  const { memory_limit, cpu_limit, shm_size, pids_limit, ulimits } = config;
  return defined({
    memory_bytes: read('memory_limit', memory_limit, parseMemory)?.bytes,
    nano_cpus: read('cpu_limit', cpu_limit, parseCpus)?.nanoCpus,
    shm_bytes: read('shm_size', shm_size, parseMemory)?.bytes,
    processes: pids_limit,
    ulimits: ulimits && ulimitsOf(ulimits),
  });
}

function ulimitsOf(ulimits: NonNullable<DeepReadonly<RunConfig>['ulimits']>): NonNullable<Limits['ulimits']> {
  const given = Object.entries(ulimits).flatMap(([name, limit]): [string, { soft: number; hard: number }][] =>
    limit === undefined ? [] : [[name, { ...limit }]],
  );
  return Object.fromEntries(given);
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
