import PQueue from 'p-queue';
import { z } from 'zod';
import { surveyLimits } from '../../../agent-protocol/survey.ts';
import { Capability } from '../../../agent-protocol/workload.ts';
import { healthOf, isOfAgent, isVolumeOfAgent, tellingLabels } from '../foreign.ts';
import { withoutSecrets } from '../secret-words.ts';
import type { Foreign, ForeignContainer, ForeignValues } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import { rights, State, Texts, Time } from './inspection.ts';

/** Containers that are inspected at once: more would hold up the agent's own calls. */
const atOnce = 8;
/** Size of `/dev/shm` that a container has by default. */
const usualShmBytes = 64 * 1024 * 1024;

const Labels = z
  .record(z.string(), z.string())
  .nullish()
  .transform((given) => given ?? {});
const Text = z
  .string()
  .nullish()
  .transform((text) => text ?? '');
/** The names of a record whose values do not matter. */
const Names = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((given) => Object.keys(given ?? {}));
const Flag = z
  .boolean()
  .nullish()
  .transform((is) => is === true);
const Count = z
  .number()
  .nullish()
  .transform((value) => value ?? 0);
const listOf = <T extends z.ZodType>(item: T) =>
  z
    .array(item)
    .nullish()
    .transform((given) => given ?? []);
const Bindings = z
  .record(z.string(), listOf(z.object({ HostIp: Text, HostPort: Text })))
  .nullish()
  .transform((given) => given ?? {});

const Listed = z.array(z.object({ Id: z.string(), Names: Texts, Labels, State: z.string() }));
const Volumes = z.object({ Volumes: listOf(z.object({ Name: z.string(), Driver: Text, Labels })) });

/** What containers have from their image, unless they set it themselves. */
const Defaults = {
  Env: Texts,
  Cmd: Texts,
  Entrypoint: Texts,
  User: Text,
  WorkingDir: Text,
  StopSignal: Text,
  ExposedPorts: Names,
};

const Image = z.object({
  RepoDigests: Texts,
  Config: z
    .object(Defaults)
    .nullish()
    .transform((config) => config ?? undefined),
});
type Image = z.infer<typeof Image>;

const Inspected = z.object({
  Id: z.string(),
  Name: z.string(),
  Image: z.string(),
  State: z.object({ Status: State, ExitCode: z.int(), StartedAt: Time }),
  Config: z.object({ ...Defaults, Image: z.string(), Labels, Healthcheck: z.object({ Test: Texts }).nullish() }),
  HostConfig: z.object({
    NetworkMode: Text,
    PidMode: Text,
    IpcMode: Text,
    UTSMode: Text,
    UsernsMode: Text,
    Runtime: Text,
    Privileged: Flag,
    ReadonlyRootfs: Flag,
    Init: Flag,
    CapAdd: Texts,
    CapDrop: Texts,
    SecurityOpt: Texts,
    GroupAdd: Texts,
    ExtraHosts: Texts,
    Dns: Texts,
    Links: Texts,
    Devices: listOf(z.object({ PathOnHost: Text })),
    DeviceRequests: listOf(z.unknown()),
    Ulimits: listOf(z.object({ Name: Text })),
    Sysctls: Names,
    Tmpfs: Names,
    ShmSize: Count,
    Memory: Count,
    NanoCpus: Count,
    CpuQuota: Count,
    CpuPeriod: Count,
    RestartPolicy: z.object({ Name: Text }).nullish(),
    PortBindings: Bindings,
  }),
  Mounts: listOf(z.object({ Type: Text, Name: Text, Source: Text, Destination: z.string(), RW: z.boolean() })),
  NetworkSettings: z.object({ Networks: Names, Ports: Bindings }),
});
type Inspected = z.infer<typeof Inspected>;

/** See {@link Foreign}. */
export async function foreign(engine: Engine, signal: AbortSignal): Promise<Foreign> {
  const [listed, volumes] = await Promise.all([
    engine.call({ method: 'GET', path: ['containers', 'json'], query: { all: true } }, signal),
    engine.call({ method: 'GET', path: ['volumes'] }, signal),
  ]);
  const others = Listed.parse(listed)
    .filter(({ Names: names, Labels: labels }) => !isOfAgent(names.map(withoutSlash), labels))
    .toSorted((a, b) => Number(b.State === 'running') - Number(a.State === 'running'));
  const images = imagesOf(engine, signal);
  const queue = new PQueue({ concurrency: atOnce });
  const looked = await Promise.all(
    others.slice(0, surveyLimits.containers).map(({ Id }) => queue.add(() => look(engine, Id, images, signal))),
  );
  const own = Volumes.parse(volumes).Volumes.filter(({ Name, Labels: labels }) => !isVolumeOfAgent(Name, labels));
  return {
    containers: looked.filter((one) => typeof one === 'object'),
    volumes: own.slice(0, surveyLimits.volumes).map(volumeOf),
    truncated:
      others.length > surveyLimits.containers || own.length > surveyLimits.volumes || looked.includes('unreadable'),
  };
}

/** The part of a container that its variables need. */
const Valued = z.object({
  Id: z.string(),
  Name: z.string(),
  Image: z.string(),
  Config: z.object({ Env: Texts, Labels }),
});

/** See `ContainerRuntime.foreignValues`. */
export async function foreignValues(
  engine: Engine,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<ForeignValues[]> {
  const images = imagesOf(engine, signal);
  const queue = new PQueue({ concurrency: atOnce });
  const looked = await Promise.all(ids.map((id) => queue.add(() => valuesOf(engine, id, images, signal))));
  return looked.filter((one) => one !== undefined);
}

async function valuesOf(
  engine: Engine,
  id: string,
  images: ImageOf,
  signal: AbortSignal,
): Promise<ForeignValues | undefined> {
  const answer = await unlessMissing(engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal));
  const { data } = Valued.safeParse(answer);
  if (data === undefined || isOfAgent([withoutSlash(data.Name)], data.Config.Labels)) return undefined;
  const own = ownVariables(data.Config.Env, (await images(data.Image))?.Config?.Env);
  // an entry without a value removes the variable of an image
  const valued = own.filter((one) => one.includes('='));
  return { id: data.Id, env: Object.fromEntries(valued.map(nameAndValue)) };
}

function nameAndValue(entry: string): [string, string] {
  const at = entry.indexOf('=');
  return [entry.slice(0, at), entry.slice(at + 1)];
}

/** The variables that a container does not have from its image. */
function ownVariables(env: readonly string[], ofImage: readonly string[] = []): string[] {
  const inherited = new Set(ofImage);
  return env.filter((one) => !inherited.has(one));
}

function volumeOf({ Name, Driver, Labels: labels }: z.infer<typeof Volumes>['Volumes'][number]) {
  const project = labels['com.docker.compose.project'];
  return {
    name: shortened(Name),
    driver: shortened(Driver),
    is_anonymous: labels['com.docker.volume.anonymous'] !== undefined || /^[0-9a-f]{64}$/.test(Name),
    ...(project !== undefined && { project: shortened(project) }),
  };
}

type ImageOf = (id: string) => Promise<Image | undefined>;

/** Asks for each image once. */
function imagesOf(engine: Engine, signal: AbortSignal): ImageOf {
  const asked = new Map<string, Promise<Image | undefined>>();
  return (id) => {
    const answer =
      asked.get(id) ??
      unlessMissing(engine.call({ method: 'GET', path: ['images', id, 'json'] }, signal)).then((found) =>
        found === undefined ? undefined : Image.parse(found),
      );
    asked.set(id, answer);
    return answer;
  };
}

/** The answer of the engine; `undefined` if it does not have what it was asked for. */
async function unlessMissing(asking: Promise<unknown>): Promise<unknown> {
  try {
    return await asking;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

/** Returns `gone` if there is no such container any more, and `unreadable` if the engine describes it in another form. */
async function look(
  engine: Engine,
  id: string,
  images: ImageOf,
  signal: AbortSignal,
): Promise<ForeignContainer | 'gone' | 'unreadable'> {
  try {
    const answer = await engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal);
    const { data } = Inspected.safeParse(answer);
    return data === undefined ? 'unreadable' : shown(data, await images(data.Image));
  } catch (error) {
    if (isStatus(error, 404)) return 'gone';
    throw error;
  }
}

function shown(it: Inspected, image: Image | undefined): ForeignContainer {
  const { Config: own, HostConfig: host } = it;
  const from = image?.Config;
  const command = isSame(own.Cmd, from?.Cmd) ? undefined : commandOf(own.Cmd);
  const health = healthOf(own.Healthcheck?.Test ?? []);
  return {
    id: it.Id,
    name: shortened(withoutSlash(it.Name)),
    state: it.State.Status,
    exit_code: it.State.ExitCode,
    started_at: it.State.StartedAt,
    image: {
      name: shortened(own.Image),
      id: it.Image,
      digests: few(image?.RepoDigests ?? []).map(shortened),
      is_here: image !== undefined,
    },
    labels: tellingLabels(own.Labels),
    ...(command !== undefined && { command }),
    env: ownVariables(own.Env, from?.Env)
      .slice(0, surveyLimits.variables)
      .map((one) => shortened(one.split('=', 1)[0] ?? '')),
    ports: portsOf(it),
    exposed: few(own.ExposedPorts).flatMap((name) => (name.endsWith('/tcp') ? [Number.parseInt(name, 10)] : [])),
    mounts: few(it.Mounts).map(({ Type, Name, Source, Destination, RW }) => ({
      type: Type,
      source: shortened(Type === 'volume' ? Name : Source),
      path: shortened(Destination),
      read_only: !RW,
    })),
    networks: few(it.NetworkSettings.Networks).map(shortened),
    ...(health !== undefined && { health }),
    restart: host.RestartPolicy?.Name === '' ? 'no' : (host.RestartPolicy?.Name ?? 'no'),
    memory_bytes: host.Memory,
    nano_cpus: host.NanoCpus === 0 && host.CpuPeriod > 0 ? quota(host) : host.NanoCpus,
    settings: few(settingsOf(it, from)),
  };
}

/** Empty for a command that is longer than that of an application can be: a setting says so. */
function commandOf(words: readonly string[]): string[] {
  return isTooLong(words) ? [] : withoutSecrets(words);
}

function isTooLong(words: readonly string[]): boolean {
  const { list, commandChars } = surveyLimits;
  return words.length > list || words.reduce((sum, word) => sum + word.length, 0) > commandChars;
}

function quota({ CpuQuota, CpuPeriod }: Inspected['HostConfig']): number {
  return CpuQuota > 0 ? Math.round((CpuQuota / CpuPeriod) * 1e9) : 0;
}

/** Those of the running container, with the ports that the engine chose; else those that it was made with. */
function portsOf({ State: state, HostConfig, NetworkSettings }: Inspected): ForeignContainer['ports'] {
  const bindings = state.Status === 'running' ? NetworkSettings.Ports : HostConfig.PortBindings;
  const all = Object.entries(bindings).flatMap(([name, places]) => {
    const [port = '', protocol = 'tcp'] = name.split('/');
    return places.map(({ HostIp, HostPort }) => ({
      port: Number(port),
      protocol,
      server_port: Number(HostPort) || 0,
      address: HostIp === '::' || HostIp === '' ? '0.0.0.0' : HostIp,
    }));
  });
  // the engine lists a port of all addresses once for each family of addresses
  const distinct = new Map(all.map((one) => [JSON.stringify(one), one]));
  return few([...distinct.values()]);
}

/** What it is set to beyond what its image says and the other fields show. */
function settingsOf(it: Inspected, image: Image['Config']): ForeignContainer['settings'] {
  const { Config: own, HostConfig: host } = it;
  const changed = (name: 'User' | 'WorkingDir' | 'StopSignal'): string =>
    image === undefined || own[name] === image[name] ? '' : own[name];
  const texts: Record<string, string> = {
    network_mode: /^(?:host|none|container:.*)$/.test(host.NetworkMode) ? host.NetworkMode : '',
    pid_mode: host.PidMode,
    ipc_mode: /^(?:host|container:.*)$/.test(host.IpcMode) ? host.IpcMode : '',
    uts_mode: host.UTSMode,
    userns_mode: host.UsernsMode,
    runtime: ['runc', 'io.containerd.runc.v2'].includes(host.Runtime) ? '' : host.Runtime,
    user: changed('User'),
    working_dir: changed('WorkingDir'),
    stop_signal: changed('StopSignal'),
    shm: host.ShmSize > usualShmBytes ? `${Math.round(host.ShmSize / 1024 ** 2)} MiB` : '',
  };
  const lists: Record<string, readonly string[]> = {
    capabilities: rights(host.CapAdd).filter((one) => !Capability.options.some((allowed) => allowed === one)),
    dropped_capabilities: rights(host.CapDrop),
    security_options: host.SecurityOpt.filter((one) => !one.startsWith('no-new-privileges')),
    groups: host.GroupAdd,
    extra_hosts: host.ExtraHosts,
    dns: host.Dns,
    links: host.Links,
    devices: host.Devices.map(({ PathOnHost }) => PathOnHost),
    ulimits: host.Ulimits.map(({ Name }) => Name),
    sysctls: host.Sysctls,
    tmpfs: host.Tmpfs,
  };
  const flags: Record<string, boolean> = {
    privileged: host.Privileged,
    read_only_root: host.ReadonlyRootfs,
    init: host.Init,
    gpus: host.DeviceRequests.length > 0,
    entrypoint: image !== undefined && !isSame(own.Entrypoint, image.Entrypoint),
    long_command: isTooLong(own.Cmd),
  };
  return [
    ...Object.entries(flags).flatMap(([name, is]) => (is ? [{ name, value: '' }] : [])),
    ...Object.entries({ ...texts, ...mapped(lists) }).flatMap(([name, value]) =>
      value === '' ? [] : [{ name, value: shortened(value) }],
    ),
  ];
}

function mapped(lists: Record<string, readonly string[]>): Record<string, string> {
  return Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, values.join(', ')]));
}

function isSame(one: readonly string[], other: readonly string[] | undefined): boolean {
  return other !== undefined && one.length === other.length && one.every((word, at) => word === other[at]);
}

function few<T>(all: readonly T[]): T[] {
  return all.slice(0, surveyLimits.list);
}

function shortened(text: string): string {
  return text.slice(0, surveyLimits.chars);
}

function withoutSlash(name: string): string {
  return name.replace(/^\//, '');
}
