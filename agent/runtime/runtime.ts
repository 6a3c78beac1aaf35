import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Capability, GrantedCapability } from '../../agent-protocol/workload.ts';
import type { SurveyedContainer, SurveyedVolume } from '../../agent-protocol/survey.ts';
import type { ContextEntry } from './build-context.ts';
import type { DockerfileSource } from './dockerfile-source.ts';
import type { ExecOptions, ExecProcess } from './exec.ts';

/**
 * Labels by which containers are found. A container belongs to the agent if it has these labels and either its id is in
 * the agent's ledger or its name is that of its assignment. A foreign container with copied labels is left alone.
 */
export const labels = {
  assignment: 'setpoint.assignment',
  generation: 'setpoint.generation',
  specHash: 'setpoint.spec-hash',
  type: 'setpoint.type',
  workload: 'setpoint.workload',
  tenant: 'setpoint.tenant',
  project: 'setpoint.project',
  server: 'setpoint.server',
  restartToken: 'setpoint.restart-token',
  /** Default limits that a container got because its spec has none: bytes of memory and billionths of a CPU. */
  defaults: 'setpoint.defaults',
  /** Bytes that a container may write into its own layer. */
  storage: 'setpoint.storage',
  /** Names of the volumes that a container may write to. */
  writes: 'setpoint.writes',
  /** Number of the stage of a build that an image is of, from 1. */
  stage: 'setpoint.stage',
} as const;

/**
 * The type of an image that is no result of a build: of a stage that the last one only copies from, and of the steps
 * before one that failed. Builds of the same project take their steps from it.
 */
export const stageType = 'stage';

export type ContainerState = 'created' | 'running' | 'paused' | 'restarting' | 'exited' | 'dead';

/** A container as the runtime lists it. */
export interface Container {
  id: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  state: ContainerState;
  /** Id of the image that it was made from. */
  imageId: string;
}

/** A network that a container is on, with the names by which the other containers there find it. */
export interface NetworkPlace {
  name: string;
  aliases: readonly string[];
}

export type Mount =
  | {
      type: 'volume';
      /** Name of a volume that exists: a container with a missing one is not made. */
      volume: string;
      path: string;
      readOnly: boolean;
      /**
       * Whether the engine first fills the volume with what the image has at `path`, if the volume is empty; true by
       * default. That is what images expect which bring their data along (a web application with its plugins). False
       * for a volume that only its user fills, such as that of a database or of a restore: nothing of the image appears
       * among the data.
       */
      copy?: boolean;
    }
  /** A folder in memory, empty at each start. What is in it counts as memory of the container. */
  | { type: 'tmpfs'; path: string; sizeBytes: number; mode?: number }
  /** One file of the server, read-only. `source` is an absolute path that the agent chose, never a user. */
  | { type: 'file'; source: string; path: string }
  /** A folder of the server, for writing. `source` is an absolute path that the agent chose, never a user. */
  | { type: 'folder'; source: string; path: string };

/** A mount as the engine shows it. */
export interface MountDetail {
  /** `file`: any path of the server. `other`: a kind that the agent does not make. */
  type: Mount['type'] | 'other';
  /** Name of the volume or path on the server; empty for a folder in memory. */
  source: string;
  path: string;
  readOnly: boolean;
  /** Size of a folder in memory; 0 if it has no limit, and for all others. */
  sizeBytes: number;
}

/** A container with its settings as the engine shows them. Lists are sorted if their order means nothing. */
export interface ContainerDetail extends Container {
  env: readonly string[];
  entrypoint: readonly string[];
  command: readonly string[];
  exitCode: number | undefined;
  oomKilled: boolean;
  restartCount: number;
  /** RFC 3339 by the runtime's clock; empty if never. */
  startedAt: string;
  finishedAt: string;
  /** Addresses by name of the network. */
  addresses: Readonly<Record<string, string>>;
  /** The networks that it is on, or will be on once it starts; by name. */
  networks: readonly NetworkPlace[];
  /** The mounts in the order of their paths, anonymous volumes of the image included. */
  mounts: readonly MountDetail[];
  /** Id of the main process on the host; 0 while it does not run. */
  pid: number;
  memoryBytes: number;
  nanoCpus: number;
  /** Most processes and threads; 0: no limit. */
  processes: number;
  oomScoreAdj: number;
  shmBytes: number;
  /** Empty: the engine's default, SIGTERM. */
  stopSignal: string;
  /** Empty: root. */
  user: string;
  readOnlyRoot: boolean;
  /** Ports at which the program of its image listens by its own account (`EXPOSE`), over TCP. */
  exposed: readonly number[];
  /** Changes to the engine's default, in upper case without `CAP_`. */
  capabilities: { add: readonly string[]; drop: readonly string[] };
  /** Result of the health check of its image; absent if the image has none, and while the container does not run. */
  health?: 'starting' | 'healthy' | 'unhealthy';
}

/** A container to make. Where a setting is absent, the runtime's default or the image's own setting applies. */
export interface ContainerSpec {
  name: string;
  /** Image id, digest reference or tag that {@link ContainerRuntime.image} knows. */
  image: string;
  labels: Record<string, string>;
  env: Record<string, string>;
  /** With an entrypoint of its own, a container does not use the image's command either. */
  entrypoint?: readonly string[];
  command?: readonly string[];
  memoryBytes?: number;
  nanoCpus?: number;
  /** Most processes and threads. */
  processes?: number;
  /** From 0 to 1000: the higher, the sooner the kernel ends the container when memory is short. */
  oomScoreAdj?: number;
  /** Size of `/dev/shm`. */
  shmBytes?: number;
  /** Limits of processes, by name, such as `nofile`. */
  ulimits?: Readonly<Record<string, { soft: number; hard: number }>>;
  /** Signal that asks the process to end, `SIGINT`. */
  stopSignal?: string;
  /** Time that the process has to end where the engine stops the container by itself, as when the machine shuts down. */
  stopSeconds?: number;
  /** Where the process begins; absent: where the image says. */
  workingDir?: string;
  /** Whether a first process passes signals on to the process and reaps what it leaves. `usual`: if the engine has one. */
  init?: boolean | 'usual';
  /** Name or id, also with a group: `postgres`, `1000:1000`. */
  user?: string;
  /** Whether the container can write only into its mounts. */
  readOnlyRoot?: boolean;
  /** Changes to the capabilities that a container has by default, which are all of {@link Capability}. `drop` comes first. */
  capabilities?: { add: readonly (Capability | GrantedCapability)[]; drop: readonly (Capability | 'ALL')[] };
  mounts?: readonly Mount[];
  /**
   * The container joins all of them before it starts: it does not run without one. The default route leads through the
   * one whose name comes first in the order of characters: before API 1.48, an engine cannot be given another order.
   */
  networks: readonly [NetworkPlace, ...NetworkPlace[]];
  /** Whether the runtime itself restarts the container when its process exits or the machine restarts. */
  restart: 'no' | 'unless-stopped';
}

export interface ImageInfo {
  /** Local id, `sha256:…`. */
  id: string;
  /** Repository digest if the image came from a registry, else the id. */
  digest: string;
}

/** An image that the engine has. */
export interface LocalImage extends ImageInfo {
  labels: Readonly<Record<string, string>>;
  /** Instructions (`ONBUILD`) that run in a build from this image. */
  onBuild: readonly string[];
  /** What its containers run unless they are told otherwise: the words of its entrypoint and of its command. */
  program: readonly string[];
}

/** An image as the runtime lists it. */
export interface ListedImage {
  id: string;
  /** Each with its tag; empty: it has none. */
  names: readonly string[];
  labels: Readonly<Record<string, string>>;
  /** When it was made, not pulled: in milliseconds since 1970. */
  madeAt: number;
}

export interface BuildOptions {
  /** Tar stream of the build context, which was checked to have nothing from outside of the repository. */
  context: AsyncIterable<Uint8Array>;
  dockerfile: string;
  tag: string;
  buildArgs: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  /** Network that the steps run in; absent: the engine's default. */
  network?: string;
  /** Ids of the images whose steps the cache may use; steps of other images are never used. */
  cacheFrom?: readonly string[];
}

/** How an engine makes an image of a Dockerfile. */
export type Builder = {
  /** What it makes images for, such as `linux/amd64`; absent: it is not known. */
  platform?: string;
} & (
  | { type: 'classic' }
  /** `version`: the engine's major version, which decides what Dockerfiles may have. */
  | { type: 'buildkit'; version: number }
);

/** A build by BuildKit. */
export interface KitOptions {
  /** Built-in features only: it names no frontend. */
  dockerfile: Uint8Array;
  /** What it is to its author. */
  source?: DockerfileSource;
  /** The files that it may copy, in the order of a walk: a folder before what is in it, names in the order of their bytes. */
  context: readonly ContextEntry[];
  tag: string;
  buildArgs: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  /** Whose steps and cache mounts it shares: a plain word. Steps of builds with another scope are never used. */
  scope: string;
  /** What `RUN --mount=type=secret` may mount, by id. */
  secrets: Readonly<Record<string, string>>;
  /** Called with the number of steps that are done, and of all that are known. */
  steps?: (done: number, total: number) => void;
}

/** The bridge that the engine runs steps of builds on, beside containers that others made. */
export interface SharedBridge {
  /** Of its interface on the machine. */
  name: string;
  /** Addresses of the containers on it. */
  addresses: readonly string[];
  hasIpv6: boolean;
}

/** A hint that something changed; only the next list shows the actual state. */
export interface RuntimeEvent {
  containerId: string;
  /** The engine's name of the event: `start`, `die`, `disconnect`… */
  action: string;
  /** Labels of the container; empty if only its id is known, as for `disconnect`: it may be a foreign container. */
  labels: Readonly<Record<string, string>>;
  /** The engine's time of the event, in milliseconds since 1970. */
  at: number;
  /** With `die`: the code that the process exited with. A list no longer shows it once the engine has started it again. */
  exitCode?: number;
}

export interface OutputChunk {
  stream: 'stdout' | 'stderr';
  data: Uint8Array;
  /** The engine's time of this output, RFC 3339; present if it comes from the engine's record (`since`). */
  at?: string;
}

export interface OutputOptions {
  /** RFC 3339, inclusive: begin with the engine's own record from this time on. */
  since?: string;
  /** With `since`: called once when the whole record was yielded. What follows is live. */
  recorded?: () => void;
  /** Called once when the engine has confirmed the attachment: no later output of the container is missed. */
  attached?: () => void;
}

export interface RunOptions {
  /** Name or id, also with a group; absent: the user of the container. */
  user?: string;
  timeoutMs: number;
}

export interface RunResult {
  /** `undefined`: the program did not end in time, and goes on. */
  exitCode: number | undefined;
  /** The last 4 KiB of its standard output and error. */
  output: string;
}

/** A folder of the server whose content outlives the containers that mount it. */
export interface Volume {
  name: string;
  labels: Readonly<Record<string, string>>;
  /** Where its content is on the server; absent if the runtime keeps it elsewhere. */
  path?: string;
}

/** A volume whose content is to be copied. */
export interface CopySource {
  /** Why it must not be copied, in words that follow its name; absent if it may be. */
  refusal?: string;
  /** Containers that can write to it: also those that do not run, and those that no agent made. */
  writers: readonly {
    id: string;
    name: string;
    /** It runs, or can go on at once: it is paused, or being restarted. */
    isLive: boolean;
    /** RFC 3339; empty if it never ran. */
    startedAt: string;
  }[];
}

/** What the processes of a container have used since its start. A counter that the engine does not know is absent. */
export interface Usage {
  /** Time of all processors together. */
  cpuMs: number;
  /** Without the file cache that the kernel can take back at once. */
  memoryBytes: number;
  receivedBytes?: number | undefined;
  sentBytes?: number | undefined;
  readBytes?: number | undefined;
  writtenBytes?: number | undefined;
}

/** Where a program in a container listens over TCP. */
export interface Listener {
  /** `0.0.0.0`, `127.0.0.1`, `::`… */
  address: string;
  port: number;
}

/** What an engine has of one server, whichever agent made it. */
export interface Belongings {
  server: string;
  /** Ids. Only containers that also have the name that an agent gives to the container of their assignment. */
  containers: string[];
  /** Ids of those that are not at rest: running, paused or restarting. */
  running: string[];
  /** Names. */
  networks: string[];
  /** Ids, each once. Only images that an agent built: see `isImageOfAgent`. */
  images: string[];
}

/** A container that no agent made. Whether its image may be used is not for the engine to know. */
export type ForeignContainer = Omit<SurveyedContainer, 'image'> & {
  image: Omit<SurveyedContainer['image'], 'is_shared'>;
};

/** What an engine has that no agent made, in the words of the protocol. It holds no value of a variable. */
export interface Foreign {
  containers: ForeignContainer[];
  volumes: Omit<SurveyedVolume, 'bytes'>[];
  /** There is more, or something could not be read. */
  truncated: boolean;
}

/** Values of the variables that a container does not have from its image. */
export interface ForeignValues {
  id: string;
  env: Record<string, string>;
}

/** What an engine tells of itself. */
export interface EngineFacts {
  version: string;
  /** Version of the program that starts its containers, if that is runc. */
  runc: string | undefined;
  /** Containers go on while the engine restarts. */
  liveRestore: boolean;
  /** Proxies through which it reaches registries: their URLs, with which hosts it reaches without them. */
  proxy: { http: string; https: string; none: string };
  addresses: {
    /** Networks that its pools have room for, and how many of these are free. */
    total: number;
    free: number;
    /** The agent has further addresses of its own for networks. */
    hasSpare: boolean;
  };
}

/** A failure with a code and message of the product. `retryable` is false if only a change of the request can help. */
export class RuntimeFailure extends Error {
  readonly code: FailureCode;
  readonly retryable: boolean;

  constructor(code: FailureCode, message: string, options: ErrorOptions & { retryable: boolean }) {
    super(message, options);
    this.name = 'RuntimeFailure';
    this.code = code;
    this.retryable = options.retryable;
  }
}

/** What not every engine can. The agent does without it. */
export interface Abilities {
  /** Starting a container again that has exited. Where it cannot, the agent replaces the container. */
  restart: boolean;
  /**
   * Restarting a container by itself when its process exits or the machine restarts, as `setRestart` sets it. Where it
   * cannot, only the agent restarts services.
   */
  hold: boolean;
}

/** What an engine logs in to a registry with. */
export interface RegistryLogin {
  /** `HOST` or `HOST:PORT`, as images name it. */
  registry: string;
  username: string;
  password: string;
}

/** An image of a registry that asks for a login. */
export interface PrivateImage {
  reference: string;
  login: RegistryLogin;
}

/** How far a pull is. What the engine has already counts as done, with no bytes. */
export interface PullProgress {
  layers: number;
  layersDone: number;
  /** Layers that the server had already. */
  layersPresent: number;
  /** Bytes that were downloaded. */
  bytes: number;
  /** Bytes to download; `undefined` as long as that is not known of every layer. */
  totalBytes: number | undefined;
}

/**
 * What the agent needs from a container engine. Every call ends when the caller's signal aborts. Calls marked as
 * idempotent can be repeated after a lost answer. One contract suite (`test/contract/runtime.test.ts`) tests all
 * runtimes.
 */
export interface ContainerRuntime {
  readonly name: string;
  readonly can: Abilities;
  /** @throws RuntimeFailure `runtime_unavailable` if the engine does not answer */
  version(signal: AbortSignal): Promise<string>;
  /** @throws RuntimeFailure `runtime_unavailable` if the engine does not answer */
  facts(signal: AbortSignal): Promise<EngineFacts>;
  /**
   * Returns the folders of the machine in which the engine keeps images, containers and volumes; none if it is in
   * memory. @throws RuntimeFailure `runtime_unavailable` if it does not answer
   */
  folders(signal: AbortSignal): Promise<readonly string[]>;
  /** Returns everything on the engine that has the label of a server, by server. */
  belongings(signal: AbortSignal): Promise<Belongings[]>;
  /** Returns all containers that have `labels.server` with this server's id, running or not. */
  list(server: string, signal: AbortSignal): Promise<Container[]>;
  /** Returns `undefined` if there is no such container. */
  inspect(id: string, signal: AbortSignal): Promise<ContainerDetail | undefined>;
  /**
   * Returns the bytes that a container wrote into its own layer; `undefined` if there is no such container. Slow: the
   * engine walks the files.
   */
  written(id: string, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Returns what a container has used since its start; `undefined` if there is no such container, or it does not run.
   * `pid` is that of its detail.
   */
  usage(container: Pick<ContainerDetail, 'id' | 'pid'>, signal: AbortSignal): Promise<Usage | undefined>;
  /**
   * Returns how many connections from outside to its listening ports a container has; 0 if it does not run, `undefined`
   * if that cannot be known. `pid` is that of its detail.
   */
  connections(container: Pick<ContainerDetail, 'id' | 'pid'>, signal: AbortSignal): Promise<number | undefined>;
  /** Returns where programs in a running container listen; `undefined` if that cannot be known. `pid` is that of its detail. */
  listeners(
    container: Pick<ContainerDetail, 'id' | 'pid'>,
    signal: AbortSignal,
  ): Promise<readonly Listener[] | undefined>;
  /**
   * Returns the id.
   * @throws RuntimeFailure `name_taken` if any container of that name exists, `image_not_found`, `no_space`,
   * `data_lost` if a volume to mount is missing, `create_failed`, also if a file to mount is missing
   */
  create(spec: ContainerSpec, signal: AbortSignal): Promise<string>;
  /**
   * Idempotent. First joins the networks of the spec that the container is not on, as after a lost answer to its
   * creation. @throws RuntimeFailure `no_space`, `create_failed`…, also for an exited container if the runtime cannot
   * `restart`
   */
  start(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. Asks the process to end, waits `graceSeconds`, then kills it. */
  stop(id: string, graceSeconds: number, signal: AbortSignal): Promise<void>;
  unpause(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. Removes the container by force, with its anonymous volumes; volumes with a name stay. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /**
   * Runs a program in a running container, without input and terminal, and waits for its end.
   *
   * The deadline and the signal end only the wait: an engine cannot end a program that it started in a container, so
   * that the program goes on until it ends by itself or its container stops. As long as it does, a call of this runtime
   * with the same user and command starts no other one and returns at once, with no exit code: a check that hangs every
   * time does not fill its container with processes.
   * @throws RuntimeFailure `exited` if the container does not run, `runtime_unavailable`
   */
  run(id: string, command: readonly string[], options: RunOptions, signal: AbortSignal): Promise<RunResult>;
  /** @throws RuntimeFailure if the runtime cannot `hold` */
  setRestart(id: string, restart: ContainerSpec['restart'], signal: AbortSignal): Promise<void>;
  /** Returns the local image with that reference; `undefined` if the engine does not have it. */
  image(reference: string, signal: AbortSignal): Promise<LocalImage | undefined>;
  /**
   * Asks the registry, also if the engine has the image. A login is sent to the registry that it names alone. Calls
   * `seen` whenever the pull has come further, as often as the engine reports it.
   * @throws RuntimeFailure `image_not_found`, `image_pull_failed`, `no_space`
   */
  pull(image: string | PrivateImage, signal: AbortSignal, seen?: (progress: PullProgress) => void): Promise<LocalImage>;
  /** Builds with the classic builder. Calls `line` for each line of output. @throws RuntimeFailure `build_failed`, `no_space` */
  build(options: BuildOptions, line: (text: string) => void, signal: AbortSignal): Promise<ImageInfo>;
  /** @throws RuntimeFailure `runtime_unavailable` */
  builder(signal: AbortSignal): Promise<Builder>;
  /**
   * Builds with BuildKit, where `builder` says that the engine has it. When the signal aborts, the steps of this build
   * end, and those of no other. @throws RuntimeFailure `build_failed` with the last lines of the step, `no_space`
   */
  buildByKit(options: KitOptions, line: (text: string) => void, signal: AbortSignal): Promise<ImageInfo>;
  /**
   * Bytes that steps which run now have written to disks, of builds by BuildKit with this scope; 0 if that is not known.
   */
  stepWrites(scope: string): Promise<number>;
  /**
   * Idempotent. Removes what no build uses from the cache of BuildKit, used the longest ago first, until it has at most
   * so many bytes. Returns the bytes that went.
   */
  trimBuildCache(keptBytes: number, signal: AbortSignal): Promise<number>;
  /**
   * Yields the bridge that steps of BuildKit run on now, and again whenever its containers change: before their
   * programs begin. `undefined`: the engine has none. Ends only by its signal or an error.
   */
  sharedBridge(signal: AbortSignal): AsyncIterable<SharedBridge | undefined>;
  /** Returns images that have all these labels, newest first. */
  images(labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<ListedImage[]>;
  /** Idempotent. An image in use stays. */
  removeImage(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws RuntimeFailure `name_taken` if a network of that name has other labels, `create_failed` */
  ensureNetwork(name: string, labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  /** Idempotent. A network in use, or without an agent's labels, stays. */
  removeNetwork(name: string, signal: AbortSignal): Promise<void>;
  /** Returns the names of networks that have all these labels. */
  networks(labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string[]>;
  /**
   * Idempotent. Every user of a container may write to an empty volume.
   *
   * @throws RuntimeFailure `name_taken` if a volume of that name has other labels, `no_space`, `create_failed`
   */
  ensureVolume(name: string, labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  /**
   * Idempotent. Every user of a container may write to the volume if it is empty; for a volume that was made by hand.
   * Does nothing if there is no such volume. @throws RuntimeFailure `create_failed`
   */
  openVolume(name: string, signal: AbortSignal): Promise<void>;
  /** Returns `undefined` if there is no such volume. */
  volume(name: string, signal: AbortSignal): Promise<Volume | undefined>;
  /** Returns the volumes that have all these labels, by name. */
  volumes(
    labels: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<{ name: string; labels: Readonly<Record<string, string>> }[]>;
  /**
   * Idempotent. Removes the volume with its content. `alsoUnlabelled`: the caller made a volume of that name before, so
   * that one without the labels of an agent was put in its place.
   * @throws RuntimeFailure `in_use` if a container mounts it, running or not; `name_taken` if no agent made it
   */
  removeVolume(name: string, options: { alsoUnlabelled?: boolean }, signal: AbortSignal): Promise<void>;
  /**
   * Returns the bytes that the content of a volume takes; `undefined` if there is no such volume. Slow: it walks the
   * files, and those of one volume only, whereas an engine that is asked walks all that it has.
   */
  volumeUsage(name: string, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Returns whether a volume may be copied, and what can write to it; `undefined` if there is no such volume. Refused are
   * volumes that an agent made, and those whose content is not in a folder of their own on the disk of the server.
   */
  copySource(name: string, signal: AbortSignal): Promise<CopySource | undefined>;
  /**
   * Returns the containers and volumes that no agent made, with what an application needs to take their place; running
   * containers first. Its bounds are those of the protocol. @throws RuntimeFailure `runtime_unavailable`
   */
  foreign(signal: AbortSignal): Promise<Foreign>;
  /**
   * Returns the values of the variables of these containers, by id; it leaves out those that are gone and those that an agent
   * made. The values are secrets. @throws RuntimeFailure `runtime_unavailable`
   */
  foreignValues(ids: readonly string[], signal: AbortSignal): Promise<ForeignValues[]>;
  /**
   * Yields live output from the call on; ends when the container stops. With `since`, the engine's own record comes
   * first; without it, a container that does not run is waited for until its next start. The first lines of a process
   * may be a little older than its `startedAt`. The caller must iterate or abort, and read swiftly: a container whose output
   * is not read blocks at its next line.
   */
  output(id: string, options: OutputOptions, signal: AbortSignal): AsyncIterable<OutputChunk>;
  /**
   * Starts a further process in a running container. When the signal aborts, the process ends as by the hang-up of its
   * terminal. @throws ExecFailure
   */
  exec(id: string, options: ExecOptions, signal: AbortSignal): Promise<ExecProcess>;
  /**
   * Yields events from the call on: every change that a list made after the call does not show yet causes an event.
   * Ends only by its signal or an error.
   */
  events(server: string, signal: AbortSignal): AsyncIterable<RuntimeEvent>;
}
