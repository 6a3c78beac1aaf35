import { labels, type ContainerSpec, type Mount } from '../runtime.ts';
import { imageReference } from '../image-reference.ts';
import { firstEndpoint } from './joining.ts';

/** Limits that every container gets in addition to its spec. */
export interface ContainerLimits {
  /** Most processes and threads of one container. */
  pids: number;
  /** Limits of a container whose spec has none; absent: no limit. */
  memoryBytes?: number;
  nanoCpus?: number;
  /** Above 0: when memory is short, the kernel ends containers before other processes of the machine. */
  oomScoreAdj: number;
  /** Size of one file of the engine's own record of the output, and the number of these files. */
  logFileBytes: number;
  logFiles: number;
}

/**
 * Returns the body of the request that makes a container, on its first network only: `joinAll` adds the others. `hasInit`:
 * whether the engine has a first process to give.
 */
export function creation(spec: ContainerSpec, limits: ContainerLimits, hasInit = false): object {
  const { memoryBytes = limits.memoryBytes, nanoCpus = limits.nanoCpus } = spec;
  const given = [spec.memoryBytes === undefined ? memoryBytes : 0, spec.nanoCpus === undefined ? nanoCpus : 0];
  const defaults = given.some((it) => (it ?? 0) > 0) ? { [labels.defaults]: given.map((it) => it ?? 0).join(' ') } : {};
  const [{ name: network }] = spec.networks;
  return {
    Image: imageReference(spec.image),
    Labels: { ...spec.labels, ...defaults },
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    ...(spec.entrypoint !== undefined && { Entrypoint: spec.entrypoint }),
    ...(spec.command !== undefined && { Cmd: spec.command }),
    ...(spec.user !== undefined && { User: spec.user }),
    ...(spec.workingDir !== undefined && { WorkingDir: spec.workingDir }),
    ...(spec.stopSignal !== undefined && { StopSignal: spec.stopSignal }),
    ...(spec.stopSeconds !== undefined && { StopTimeout: spec.stopSeconds }),
    HostConfig: {
      NetworkMode: network,
      RestartPolicy: { Name: spec.restart },
      PidsLimit: spec.processes ?? limits.pids,
      OomScoreAdj: spec.oomScoreAdj ?? limits.oomScoreAdj,
      SecurityOpt: ['no-new-privileges:true'],
      ...rights(spec.capabilities),
      LogConfig: {
        Type: 'local',
        Config: { 'max-size': `${limits.logFileBytes}`, 'max-file': `${limits.logFiles}` },
      },
      // MemorySwap counts memory and swap together: an equal value means no swap.
      ...(memoryBytes !== undefined && { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(nanoCpus !== undefined && { NanoCpus: nanoCpus }),
      ...(spec.shmBytes !== undefined && { ShmSize: spec.shmBytes }),
      ...ulimits(spec.ulimits),
      ...firstProcess(spec.init, hasInit),
      ...(spec.readOnlyRoot !== undefined && { ReadonlyRootfs: spec.readOnlyRoot }),
      ...(spec.mounts !== undefined && { Mounts: spec.mounts.map(mount) }),
    },
    NetworkingConfig: { EndpointsConfig: { [network]: firstEndpoint(spec.networks) } },
  };
}

function firstProcess(init: ContainerSpec['init'], hasInit: boolean): object {
  return init === true || (init === 'usual' && hasInit) ? { Init: true } : {};
}

/** MKNOD is dropped from every container, and NET_RAW from each to which it was not granted, see `capabilities`. */
function rights(changes: ContainerSpec['capabilities']): object {
  const { add = [], drop = [] } = changes ?? {};
  const always = add.includes('NET_RAW') ? ['MKNOD'] : ['NET_RAW', 'MKNOD'];
  return { CapDrop: [...always, ...drop], ...(add.length > 0 && { CapAdd: add }) };
}

function ulimits(limits: ContainerSpec['ulimits']): object {
  if (limits === undefined) return {};
  return { Ulimits: Object.entries(limits).map(([name, { soft, hard }]) => ({ Name: name, Soft: soft, Hard: hard })) };
}

function mount(one: Mount): object {
  switch (one.type) {
    case 'volume': {
      const { volume, path, readOnly, copy = true } = one;
      return { Type: 'volume', Source: volume, Target: path, ReadOnly: readOnly, VolumeOptions: { NoCopy: !copy } };
    }
    case 'tmpfs': {
      const { path, sizeBytes, mode } = one;
      const options = { SizeBytes: sizeBytes, ...(mode !== undefined && { Mode: mode }) };
      return { Type: 'tmpfs', Target: path, TmpfsOptions: options };
    }
    case 'file':
      // As a mount, and not as one of `Binds`: for a missing source of those, the engine makes a folder.
      return { Type: 'bind', Source: one.source, Target: one.path, ReadOnly: true };
    case 'folder':
      return { Type: 'bind', Source: one.source, Target: one.path, ReadOnly: false };
  }
}
