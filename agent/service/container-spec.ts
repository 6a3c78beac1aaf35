import type { Limits, Mount as ServiceMount } from '../../agent-protocol/workload.ts';
import type { ServiceItem } from './memory.ts';
import type { ContainerSpec, Mount } from '../runtime/runtime.ts';
import { isFirstProcess } from '../runtime/first-process.ts';
import { labels } from '../runtime/runtime.ts';

/**
 * Returns the container that a service item asks for. It has no restart policy: it gets that only once it is healthy.
 * `files`: the mounts of its files. `storageBytes`: the bytes that it may write unless the item sets another limit.
 * @throws Error if the agent does not have the configuration of the item
 */
export function containerSpec(
  item: ServiceItem,
  it: {
    server: string;
    name: string;
    image: string;
    /** What the image runs by itself. */
    program: readonly string[];
    storageBytes: number;
    files: readonly Mount[];
  },
): ContainerSpec {
  const { spec } = item;
  const { limits } = spec;
  const { drop } = spec.capabilities;
  const add = [...spec.capabilities.add, ...(spec.granted_capabilities ?? [])];
  if (spec.configuration === undefined) throw new Error(`The configuration of assignment ${item.id} is not here`);
  const written = writtenVolumes(item);
  const mounts = [...spec.mounts.map(mountOf), ...it.files];
  return {
    name: it.name,
    image: it.image,
    labels: {
      [labels.assignment]: item.id,
      [labels.generation]: String(item.generation),
      [labels.specHash]: item.spec_hash,
      [labels.type]: 'service',
      [labels.workload]: item.workload_id,
      [labels.tenant]: item.tenant,
      [labels.server]: it.server,
      [labels.storage]: String(limits.storage_bytes ?? it.storageBytes),
      ...(spec.restart_token === undefined ? {} : { [labels.restartToken]: spec.restart_token }),
      ...(written.length > 0 && { [labels.writes]: written.join(' ') }),
    },
    env: spec.configuration.env,
    networks: spec.networks,
    restart: 'no',
    stopSeconds: spec.grace_seconds,
    ...limitsOf(limits),
    ...(spec.entrypoint !== undefined && { entrypoint: spec.entrypoint }),
    ...(spec.command !== undefined && { command: spec.command }),
    ...(spec.stop_signal !== undefined && { stopSignal: spec.stop_signal }),
    ...(spec.user !== undefined && { user: spec.user }),
    ...(spec.working_dir !== undefined && { workingDir: spec.working_dir }),
    ...initOf(item, it.program),
    ...(spec.read_only_root && { readOnlyRoot: true }),
    ...(mounts.length > 0 && { mounts }),
    ...(add.length + drop.length > 0 && { capabilities: { add, drop } }),
  };
}

/** Programs of users mostly do not expect to be the first process, which the kernel treats in its own way. */
function initOf({ workload_kind: kind, spec }: ServiceItem, ofImage: readonly string[]): Pick<ContainerSpec, 'init'> {
  if (spec.init !== undefined) return spec.init ? { init: true } : {};
  const programs = [spec.entrypoint ?? ofImage, spec.command ?? []];
  return kind !== 'application' || programs.some(isFirstProcess) ? {} : { init: 'usual' };
}

/** Names of the volumes that the service may write to. */
export function writtenVolumes(item: ServiceItem): string[] {
  return mountedVolumes(item).flatMap(({ volume, read_only }) => (read_only ? [] : volume));
}

/** The volumes among its mounts. */
export function mountedVolumes({ spec }: ServiceItem): Extract<ServiceMount, { type: 'volume' }>[] {
  return spec.mounts.filter((mount) => mount.type === 'volume');
}

function limitsOf(limits: Limits): Partial<ContainerSpec> {
  return {
    ...(limits.memory_bytes !== undefined && { memoryBytes: limits.memory_bytes }),
    ...(limits.nano_cpus !== undefined && { nanoCpus: limits.nano_cpus }),
    ...(limits.processes !== undefined && { processes: limits.processes }),
    ...(limits.oom_score_adj !== undefined && { oomScoreAdj: limits.oom_score_adj }),
    ...(limits.shm_bytes !== undefined && { shmBytes: limits.shm_bytes }),
    ...(limits.ulimits !== undefined && { ulimits: limits.ulimits }),
  };
}

function mountOf(mount: ServiceMount): Mount {
  return mount.type === 'volume'
    ? { type: 'volume', volume: mount.volume, path: mount.path, readOnly: mount.read_only, copy: mount.copy }
    : { type: 'tmpfs', path: mount.path, sizeBytes: mount.size_bytes, mode: mount.mode };
}
