import type { FailureCode } from '../../agent-protocol/assignment.ts';

/**
 * Labels by which containers are found. A container is ours when its labels say so and either the agent's ledger holds
 * its id or it bears the deterministic name of its assignment: a stranger's copy of our labels is left alone.
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
  /** Bytes of memory and billionths of a CPU that a container got because nothing else was asked for. */
  defaults: 'setpoint.defaults',
  /** Bytes that a container may write into its own layer. */
  storage: 'setpoint.storage',
} as const;

export type ContainerState = 'created' | 'running' | 'paused' | 'restarting' | 'exited' | 'dead';

/** A container as the runtime tells of it. */
export interface Container {
  id: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  state: ContainerState;
  /** Id of the image that it was made from. */
  imageId: string;
}

export interface ContainerDetail extends Container {
  env: readonly string[];
  command: readonly string[];
  exitCode: number | undefined;
  oomKilled: boolean;
  restartCount: number;
  /** RFC 3339 of the runtime's clock; empty if never. */
  startedAt: string;
  finishedAt: string;
  /** Address in each network by name. */
  addresses: Readonly<Record<string, string>>;
  /** Main process on the host; 0 while it does not run. */
  pid: number;
  memoryBytes: number;
  nanoCpus: number;
}

export interface ContainerSpec {
  name: string;
  /** Image id, digest reference or tag that {@link ContainerRuntime.image} knows. */
  image: string;
  labels: Record<string, string>;
  env: Record<string, string>;
  command?: string[];
  memoryBytes?: number;
  nanoCpus?: number;
  network: string;
  alias: string;
  /** What the runtime itself does when the process exits or the machine restarts. */
  restart: 'no' | 'unless-stopped';
}

export interface ImageInfo {
  /** Local id, `sha256:…`. */
  id: string;
  /** Repository digest where it came from a registry, else the id. */
  digest: string;
}

/** An image that the engine has. */
export interface LocalImage extends ImageInfo {
  labels: Readonly<Record<string, string>>;
  /** Instructions that a build carries out that begins with this image. */
  onBuild: readonly string[];
}

export interface BuildOptions {
  /** Tar stream of the build context, already contained in the repository. */
  context: AsyncIterable<Uint8Array>;
  dockerfile: string;
  tag: string;
  buildArgs: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  /** Network that the steps run in; absent: the engine's default. */
  network?: string;
  /** Ids of the images whose steps may be taken from the cache; of no others, and of none unless told. */
  cacheFrom?: readonly string[];
}

/** A hint that something changed; the truth is the next list. */
export interface RuntimeEvent {
  containerId: string;
  /** In the engine's words: `start`, `die`, `disconnect`… */
  action: string;
  /** Of the container; empty where only its id is known, as of one that left a network: it may be anybody's. */
  labels: Readonly<Record<string, string>>;
}

export interface OutputChunk {
  stream: 'stdout' | 'stderr';
  data: Uint8Array;
  /** Engine's time of this output, RFC 3339; present on what comes from the engine's record (`since`). */
  at?: string;
}

export interface OutputOptions {
  /** RFC 3339, inclusive: begin with the engine's own record from then on. */
  since?: string;
  /** Called once when the engine confirmed: nothing that the container writes from here on is missed. */
  attached?: () => void;
}

/** What went wrong, in the product's words. `retryable` is false where only a change of the request can help. */
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

/**
 * What the agent needs of a container engine. Every call has the caller's signal as its deadline. Idempotent where
 * marked: repeating it after a lost answer is safe. One contract suite (`test/contract/runtime.test.ts`) runs on all.
 */
export interface ContainerRuntime {
  readonly name: string;
  /** @throws RuntimeFailure `runtime_unavailable` when the engine does not answer. */
  version(signal: AbortSignal): Promise<string>;
  /** All containers that carry `labels.server` with this server's id, running or not. */
  list(server: string, signal: AbortSignal): Promise<Container[]>;
  /** `undefined`: there is none. */
  inspect(id: string, signal: AbortSignal): Promise<ContainerDetail | undefined>;
  /** Bytes that a container wrote into its own layer; `undefined`: there is none. Walks its files. */
  written(id: string, signal: AbortSignal): Promise<number | undefined>;
  /** @throws RuntimeFailure `name_taken` when a container of that name exists, whoever made it. */
  create(spec: ContainerSpec, signal: AbortSignal): Promise<string>;
  /** Idempotent. @throws RuntimeFailure `no_space`, `create_failed`… */
  start(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. Asks, waits `graceSeconds`, kills. */
  stop(id: string, graceSeconds: number, signal: AbortSignal): Promise<void>;
  unpause(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. Removes by force, with its anonymous volumes. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  setRestart(id: string, restart: ContainerSpec['restart'], signal: AbortSignal): Promise<void>;
  /** The local image of that reference; `undefined`: not here. */
  image(reference: string, signal: AbortSignal): Promise<LocalImage | undefined>;
  /**
   * Asks the registry, also where the image is here.
   * @throws RuntimeFailure `image_not_found`, `image_pull_failed`, `no_space`.
   */
  pull(reference: string, signal: AbortSignal): Promise<LocalImage>;
  /** Calls `line` per output line. @throws RuntimeFailure `build_failed`, `no_space`. */
  build(options: BuildOptions, line: (text: string) => void, signal: AbortSignal): Promise<ImageInfo>;
  /** Images that carry all these labels, newest first. */
  images(
    labels: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<{ id: string; labels: Readonly<Record<string, string>> }[]>;
  /** Idempotent; an image in use stays. */
  removeImage(id: string, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws RuntimeFailure `name_taken` when one of that name has other labels, `create_failed`. */
  ensureNetwork(name: string, labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  /** Idempotent; a network in use, or without our labels, stays. */
  removeNetwork(name: string, signal: AbortSignal): Promise<void>;
  /** Networks that carry all these labels. */
  networks(labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string[]>;
  /**
   * Live output from the call on; ends when the container stops. With `since`, the engine's own record first; the first
   * lines of a process may be a little older than its `startedAt`. Must be iterated or aborted, and read swiftly: a
   * container whose output nobody takes away waits with its next line.
   */
  output(id: string, options: OutputOptions, signal: AbortSignal): AsyncIterable<OutputChunk>;
  /** From the call on: what a list made after it does not show yet will be told. Ends only by its signal or by throwing. */
  events(server: string, signal: AbortSignal): AsyncIterable<RuntimeEvent>;
}
