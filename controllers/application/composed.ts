import type { z } from 'zod';
import { Capability, mainPort } from '../../agent-protocol/workload.ts';
import type { Mount } from '../../agent-protocol/workload.ts';
import { defined } from '../../store/defined.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { plainWords } from '../../store/kinds/composed-service.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { releaseOf, usualGraceSeconds } from '../../store/kinds/release-settings.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { isStaying } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { createHash } from 'node:crypto';
import { environmentNetwork } from '../rollout/environment-network.ts';
import type { Action } from '../rollout/actions.ts';
import { volumesOf } from '../rollout/services.ts';
import type { Composed } from '../rollout/services.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { hostNamesOf, readinessOf } from './parts.ts';
import type { Instance } from './parts.ts';
import type { App, World } from './world.ts';

/** How an instance of a service of a compose file runs. */
export function composedSpec(input: Instance, composed: Composed): ServiceSpec {
  const { app, deployment, service, slot, restartToken } = input;
  const { minHealthySeconds, drainSeconds, stopGraceSeconds } = releaseOf(app.desired);
  const { capabilities } = composed;
  return ServiceSpec.parse(
    defined({
      type: 'service',
      slot,
      image: composed.image ?? '',
      image_digest: composed.image_digest ?? deployment.observed?.service_digests?.[service.name],
      // those that are sealed are in the configuration
      entrypoint: plainWords(composed.entrypoint),
      command: plainWords(composed.command),
      config: { kind: 'deployment', id: deployment.meta.id, service: service.name },
      networks: networksOf(input, composed),
      ports: portsOf(input, composed),
      mounts: [...composedMounts(app, composed), ...composed.mounts.filter(({ type }) => type === 'tmpfs')],
      files: composed.files.map(({ path, mode, uid, gid }) => ({ path, mode, uid, gid })),
      ...healthOf(input, composed),
      min_healthy_seconds: minHealthySeconds,
      drain_seconds: drainSeconds,
      limits: composed.limits,
      user: composed.user,
      working_dir: composed.working_dir,
      init: composed.init ? true : undefined,
      read_only_root: composed.read_only_root,
      capabilities: {
        drop: capabilities.drop.flatMap((it) => (it === 'ALL' ? it : (Capability.safeParse(it).data ?? []))),
        add: capabilities.add.flatMap((it) => Capability.safeParse(it).data ?? []),
      },
      granted_capabilities: app.desired.capabilities,
      restart_policy: composed.restart_policy,
      restart_token: restartToken,
      stop_signal: composed.stop_signal,
      // the file has its own way to say it; where it says nothing, it has what engines do
      grace_seconds: composed.grace_seconds === usualGraceSeconds ? stopGraceSeconds : composed.grace_seconds,
    }),
  );
}

/** Whether requests for the application are for this service. */
function isMain({ deployment, service }: Instance): boolean {
  return deployment.desired.services?.[0]?.name === service.name;
}

/**
 * The networks of the application come first, in which services have their names. Those in `default`, and the one that
 * requests are for, are in the network of the environment, too: they reach what else is there.
 */
function networksOf(input: Instance, { networks }: Composed): ServiceSpec['networks'] {
  const { app, deployment } = input;
  const [first, ...others] = networks.map(({ name, aliases }) => ({
    name: networkName(app, name),
    aliases: [...aliases],
  }));
  const environment = {
    name: environmentNetwork(deployment.desired.environment_id),
    aliases: isMain(input) ? hostNamesOf(app) : [],
  };
  if (first === undefined) return [environment];
  const isJoined = isMain(input) || networks.some(({ name }) => name === 'default');
  return [first, ...others, ...(isJoined ? [environment] : [])];
}

/** The network in which a service has its names first. */
export function firstNetwork(app: App, { networks: [first] }: Composed): string {
  return networkName(app, first?.name ?? 'default');
}

/** The volumes of a service in the form of a mount. */
export function composedMounts(app: App, { mounts }: Composed): Extract<Mount, { type: 'volume' }>[] {
  return mounts.flatMap((mount) =>
    mount.type === 'volume' ? [{ ...mount, volume: engineVolume(app, mount.volume) }] : [],
  );
}

/** Fits as the name of an interface. No other application has it. */
function networkName({ meta }: App, name: string): string {
  return `sp-${uuidv5(meta.id, `network/${name}`).replaceAll('-', '').slice(0, 12)}`;
}

/** The port that requests are for comes first. */
function portsOf(input: Instance, { ports }: Composed): ServiceSpec['ports'] {
  const { exposed_port: exposed } = input.deployment.desired.config;
  const isPublished = input.server?.desired.direct_ports_enabled === true && input.app.desired.unpublished !== true;
  const all = ports.map(({ port, publish }) => ({ port, publish }));
  if (isMain(input) && exposed !== undefined) {
    const at = all.findIndex(({ port }) => port === exposed);
    const [main] = at === -1 ? [] : all.splice(at, 1);
    all.unshift({ port: exposed, publish: main?.publish ?? exposed });
  }
  return all.map(({ port, publish }, index) => ({
    name: index === 0 ? mainPort : `port-${index}`,
    port,
    ...(isPublished && publish !== undefined && { publish }),
  }));
}

/** In place of a command of a probe that is sealed: the gateway has it from the configuration. */
const inConfiguration = ['********'];

/** The check of the compose file; without one, of the service that requests are for, the check of the application. */
function healthOf(
  input: Instance,
  { healthcheck }: Composed,
): Pick<z.input<typeof ServiceSpec>, 'probe' | 'image_check'> {
  if (healthcheck === undefined) {
    const { config } = input.deployment.desired;
    const isChecked = config.healthcheck !== undefined || config.healthcheck_path !== undefined;
    return isMain(input) && isChecked ? readinessOf(config) : { image_check: true };
  }
  const { command, none, ...timing } = healthcheck;
  if (none === true) return { image_check: false };
  if (command === undefined) return { image_check: true };
  const words = plainWords(command) ?? inConfiguration;
  return { image_check: false, probe: { type: 'command', command: words, ...timing, successes: 1 } };
}

function volumeId({ meta }: App, name: string): string {
  return assignmentId.task(meta.id, `volume/${name}`);
}

function engineVolume(app: App, name: string): string {
  return volumeName(volumeId(app, name));
}

/**
 * The writes that keep the volumes of a compose file on the server. Pure. A volume stays while the application does, also
 * when its compose file does not name it any more, and goes with its data when the application is deleted.
 */
export function planVolumes({ app, serving, target, server, volumes }: World): Action[] {
  if (!isStaying(app)) return volumes.filter(isStaying).map(removal);
  if (server === undefined) return [];
  const names = new Set([serving, target].flatMap((it) => (it === undefined ? [] : volumesOf(it))));
  return [...names].map((name) => ({
    do: 'ensure',
    id: volumeId(app, name),
    desired: onServer(app, name),
    owner: app,
  }));
}

/** A volume is dropped once its server has removed the data. */
function removal(it: Assignment): Action {
  const isRemoved = it.desired.run === 'stopped' && upToDate(it)?.phase === 'stopped';
  return { do: isRemoved ? 'retire' : 'stop', id: it.meta.id };
}

function onServer(app: App, name: string): DesiredOf<'assignment'> {
  const volume = engineVolume(app, name);
  return {
    server_id: app.desired.server_id,
    project_id: app.desired.project_id,
    environment_id: app.desired.environment_id,
    workload_kind: 'application',
    workload_id: app.meta.id,
    workload_name: app.desired.internal_id,
    service: name,
    version: app.meta.id,
    run: 'running',
    spec: { type: 'volume', volume },
    spec_hash: createHash('sha256').update(volume).digest('hex'),
  };
}
