import { z } from 'zod';
import type { ContainerDetail, MountDetail, NetworkPlace } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';

export const State = z
  .enum(['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead'])
  .transform((state) => (state === 'removing' ? 'dead' : state));

/** The engine's zero time means never and becomes an empty text. */
export const Time = z.string().transform((time) => (time.startsWith('0001-') ? '' : time));

/** The engine has `null` for an empty list. */
export const Texts = z
  .array(z.string())
  .nullish()
  .transform((texts) => texts ?? []);

const Network = z.object({ IPAddress: z.string(), Aliases: Texts });

const Mounted = z.object({
  Type: z.string(),
  /** Name of the volume, where the mount is one. */
  Name: z.string().nullish(),
  Source: z.string().nullish(),
  Destination: z.string(),
  RW: z.boolean(),
});

const Inspected = z.object({
  Id: z.string(),
  Name: z.string(),
  Image: z.string(),
  RestartCount: z.int(),
  State: z.object({
    Status: State,
    ExitCode: z.int(),
    OOMKilled: z.boolean(),
    Pid: z.int(),
    StartedAt: Time,
    FinishedAt: Time,
    Health: z.object({ Status: z.string() }).nullish(),
  }),
  Config: z.object({
    Env: Texts,
    Entrypoint: Texts,
    Cmd: Texts,
    User: z.string().nullish(),
    StopSignal: z.string().nullish(),
    ExposedPorts: z.record(z.string(), z.unknown()).nullish(),
    Labels: z.record(z.string(), z.string()).nullable(),
  }),
  HostConfig: z.object({
    Memory: z.int(),
    NanoCpus: z.int(),
    PidsLimit: z.int().nullish(),
    OomScoreAdj: z.int().nullish(),
    ShmSize: z.int().nullish(),
    ReadonlyRootfs: z.boolean().nullish(),
    CapAdd: Texts,
    CapDrop: Texts,
    /** The mounts of the request; the only place where the engine shows the size of a folder in memory. */
    Mounts: z
      .array(z.object({ Target: z.string(), TmpfsOptions: z.object({ SizeBytes: z.int().nullish() }).nullish() }))
      .nullish(),
  }),
  Mounts: z.array(Mounted).nullish(),
  NetworkSettings: z.object({ Networks: z.record(z.string(), Network).nullable() }),
});
type Inspected = z.infer<typeof Inspected>;

const Result = z.enum(['starting', 'healthy', 'unhealthy']);

/** Returns `undefined` if there is no such container. */
export async function inspectContainer(
  engine: Engine,
  id: string,
  signal: AbortSignal,
): Promise<ContainerDetail | undefined> {
  try {
    return detail(Inspected.parse(await engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal)));
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

function detail(it: Inspected): ContainerDetail {
  const ended = it.State.Status === 'exited' || it.State.Status === 'dead';
  const { Config, HostConfig } = it;
  const networks = Object.entries(it.NetworkSettings.Networks ?? {});
  return {
    id: it.Id,
    name: it.Name.slice(1),
    labels: Config.Labels ?? {},
    state: it.State.Status,
    imageId: it.Image,
    env: Config.Env,
    entrypoint: Config.Entrypoint,
    command: Config.Cmd,
    exitCode: ended || it.State.Status === 'restarting' ? it.State.ExitCode : undefined,
    oomKilled: it.State.OOMKilled,
    restartCount: it.RestartCount,
    startedAt: it.State.StartedAt,
    finishedAt: it.State.FinishedAt,
    addresses: Object.fromEntries(
      networks.filter(([, network]) => network.IPAddress !== '').map(([name, network]) => [name, network.IPAddress]),
    ),
    networks: byText(
      networks.map(([name, { Aliases }]) => place(it.Id, name, Aliases)),
      ({ name }) => name,
    ),
    mounts: byText(
      (it.Mounts ?? []).map((one) => mountDetail(one, HostConfig.Mounts ?? [])),
      ({ path }) => path,
    ),
    pid: it.State.Pid,
    memoryBytes: HostConfig.Memory,
    nanoCpus: HostConfig.NanoCpus,
    processes: Math.max(0, HostConfig.PidsLimit ?? 0), // -1 also means no limit
    oomScoreAdj: HostConfig.OomScoreAdj ?? 0,
    shmBytes: HostConfig.ShmSize ?? 0,
    stopSignal: Config.StopSignal ?? '',
    user: Config.User ?? '',
    readOnlyRoot: HostConfig.ReadonlyRootfs ?? false,
    exposed: Object.keys(Config.ExposedPorts ?? {}).flatMap(tcpPort),
    capabilities: { add: rights(HostConfig.CapAdd), drop: rights(HostConfig.CapDrop) },
    ...health(it.State),
  };
}

/** The engine goes on showing the last result after the end of the process. */
function health({ Status, Health }: Inspected['State']): Pick<ContainerDetail, 'health'> {
  const { data } = Result.safeParse(Health?.Status); // `none`: the image has no check
  return data === undefined || (Status !== 'running' && Status !== 'paused') ? {} : { health: data };
}

/** The engine adds the beginning of the container's id to its aliases at the start. */
function place(id: string, name: string, aliases: readonly string[]): NetworkPlace {
  return { name, aliases: aliases.filter((one) => one !== id.slice(0, 12)).toSorted() };
}

const types: Readonly<Record<string, MountDetail['type']>> = { volume: 'volume', tmpfs: 'tmpfs', bind: 'file' };

function mountDetail(
  { Type, Name, Source, Destination, RW }: z.infer<typeof Mounted>,
  requested: NonNullable<Inspected['HostConfig']['Mounts']>,
): MountDetail {
  const options = requested.find(({ Target }) => Target === Destination)?.TmpfsOptions;
  return {
    type: types[Type] ?? 'other',
    source: (Type === 'volume' ? Name : Source) ?? '',
    path: Destination,
    readOnly: !RW,
    sizeBytes: options?.SizeBytes ?? 0,
  };
}

/** The port of a key such as `8080/tcp`. */
function tcpPort(key: string): number[] {
  const port = /^(\d{1,5})(\/tcp)?$/.exec(key)?.[1];
  return port === undefined ? [] : [Number(port)];
}

/** Engines differ in how they show a right: as in the request, or in full. */
export function rights(names: readonly string[]): string[] {
  return names.map((name) => name.toUpperCase().replace(/^CAP_/, '')).toSorted();
}

function byText<T>(all: readonly T[], text: (one: T) => string): T[] {
  return all.toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
}
