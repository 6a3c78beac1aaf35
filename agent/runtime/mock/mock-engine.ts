import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { wait, type Clock } from '../../../time/clock.ts';
import {
  labels as ours,
  RuntimeFailure,
  type BuildOptions,
  type ContainerSpec,
  type ImageInfo,
  type ListedImage,
  type LocalImage,
  type Mount,
  type NetworkPlace,
  type PullProgress,
  type RunOptions,
  type RunResult,
  type RuntimeEvent,
} from '../runtime.ts';
import { bears } from '../bears.ts';
import { notOurs } from '../not-ours.ts';
import { Feed } from './feed.ts';
import type { ExecOptions, ExecProcess } from '../exec.ts';
import { labelsOfContext } from './labels-of-context.ts';
import { MockContainer, notRunning, type Mutable } from './mock-container.ts';
import { mockExec } from './mock-exec.ts';
import { MockFiles } from './mock-files.ts';
import { MockVolumes } from './mock-volumes.ts';
import type { BuildScript, BuildScripts, ImageScript, Script, ScriptedFailure } from './script.ts';

interface Image extends ImageInfo {
  names: Set<string>;
  labels: Readonly<Record<string, string>>;
  script: ImageScript;
  here: boolean;
  madeAt: number;
}

/** A call that changed the engine, of any client. */
export interface JournalEntry {
  verb: string;
  /** Name of the container, image or network. */
  target: string;
}

/** A further process that was started in a container. */
export type MockedExec = ExecProcess & Pick<ExecOptions, 'command'>;

const maxJournal = 100_000;
const onePull: PullProgress = { layers: 1, layersDone: 1, layersPresent: 0, bytes: 1000, totalBytes: 1000 };

/**
 * An engine in memory, driven by scripts and a clock. The same calls at the same times have the same results. It is
 * independent of its clients: an agent that restarts with the same engine finds its containers as it left them.
 */
export class MockEngine {
  readonly volumes = new MockVolumes();
  readonly #clock: Clock;
  readonly #containers = new Map<string, MockContainer>();
  readonly #networks = new Map<string, Readonly<Record<string, string>>>();
  readonly #images: Image[] = [];
  readonly #starting = new Map<string, Promise<void>>();
  readonly #events = new Feed<RuntimeEvent>();
  readonly #failures = new Map<string, ScriptedFailure[]>();
  readonly #journal: JournalEntry[] = [];
  readonly #execs: MockedExec[] = [];
  #builds: BuildScripts = () => ({});
  #registry: (reference: string) => ImageScript | undefined = () => undefined;
  #counter = 0;
  #down = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  // Calls for tests: what happens on a machine apart from its agent.

  /** Adds an image, on the machine (`local`) or to be pulled. */
  addImage(reference: string, script: ImageScript = {}): ImageInfo {
    const id = script.id ?? `sha256:${this.#hash(`image ${reference} ${this.#images.length}`)}`;
    const info = { id, digest: script.digest ?? id };
    for (const image of this.#images) image.names.delete(reference);
    this.#images.push({
      ...info,
      names: new Set([reference]),
      labels: script.labels ?? {},
      script,
      here: script.local ?? false,
      madeAt: this.#now(),
    });
    return info;
  }

  /** Sets the images that can be pulled without having been added; by default there are none. */
  onPull(registry: (reference: string) => ImageScript | undefined): void {
    this.#registry = registry;
  }

  /** Sets the results of builds from now on; by default they succeed. */
  onBuild(builds: BuildScripts): void {
    this.#builds = builds;
  }

  /** Makes the next call of this verb fail. Each call of this function counts for one failure. */
  failNext(verb: string, failure: ScriptedFailure): void {
    this.#failures.set(verb, [...(this.#failures.get(verb) ?? []), failure]);
  }

  /** The engine does not answer until `up` is called; its containers run on. */
  down(): void {
    this.#down = true;
    this.#events.fail(unavailable());
  }

  up(): void {
    this.#down = false;
  }

  /** Reboots the machine: stops all containers, then starts those with a restart policy. */
  async reboot(): Promise<void> {
    this.down();
    const running = this.containers.filter((one) => one.address !== undefined);
    for (const one of running) one.exit(137, { asked: true });
    this.up();
    for (const one of running) if (one.mutable.restart === 'unless-stopped') await this.start(one.id);
  }

  /** All containers, in the order of their creation. */
  get containers(): MockContainer[] {
    return [...this.#containers.values()];
  }

  /** @throws Error if there is no such container */
  byName(name: string): MockContainer {
    const found = this.containers.find((one) => one.name === name);
    if (!found) throw new Error(`The mock engine has no container named ${name}`);
    return found;
  }

  removeByHand(id: string): void {
    this.remove(id);
  }

  /** Like `docker stop`: the restart policy does not apply. */
  async stopByHand(id: string): Promise<void> {
    await this.#must(id).stop(0);
  }

  /** Like a signal from outside of the engine: the restart policy applies. */
  killByHand(id: string, code = 137): void {
    this.#must(id).exit(code, { asked: false });
  }

  /** The kernel kills a process of the container for lack of memory, other than the first one. */
  killChildForMemory(id: string): void {
    this.#event(this.#must(id), 'oom');
  }

  changeByHand(id: string, change: Partial<Mutable>): void {
    const one = this.#must(id);
    Object.assign(one.mutable, change);
    this.#event(one, 'update');
  }

  pauseByHand(id: string): void {
    this.#must(id).pause(true);
  }

  /** Like `docker network disconnect`, from its first network or another one. */
  disconnectByHand(id: string, network?: string): void {
    const one = this.#must(id);
    one.disconnect(network ?? one.networks[0].name);
  }

  /** Makes and starts a container that does not belong to an agent. */
  async foreign(spec: ContainerSpec, script: Script = {}): Promise<MockContainer> {
    const { id: imageId } = this.addImage(spec.image, { local: true, runs: script });
    for (const { name } of spec.networks) if (!this.#networks.has(name)) this.#networks.set(name, {});
    const id = this.#make({ ...spec, image: imageId }, { runs: script }, imageId);
    await this.start(id);
    return this.#must(id);
  }

  /** A container that was made on the machine before this engine: it has the id that it had, and runs. */
  async found(id: string, spec: ContainerSpec): Promise<MockContainer> {
    const image = this.#image(spec.image);
    if (image === undefined) throw new Error(`The mock engine has no image ${spec.image}`);
    this.#make(spec, image.script, image.id, id);
    await this.start(id);
    return this.#must(id);
  }

  /** The last 100 000 calls that changed something, oldest first. */
  get journal(): readonly JournalEntry[] {
    return this.#journal;
  }

  /** The last 100 000 further processes, oldest first. */
  get execs(): readonly MockedExec[] {
    return this.#execs;
  }

  // Calls of clients.

  /** Begins a call. @throws RuntimeFailure if the engine is down or a failure of this verb is set */
  enter(verb: string, target?: string): void {
    if (this.#down) throw unavailable();
    const failure = this.#failures.get(verb)?.shift();
    if (failure) throw failureOf(failure);
    if (target === undefined) return;
    this.#journal.push({ verb, target });
    if (this.#journal.length > maxJournal) this.#journal.shift();
  }

  /** Starts a further process in a container. @throws ExecFailure */
  exec(id: string, options: ExecOptions, signal: AbortSignal): ExecProcess {
    const process = { ...mockExec(this.find(id), options, signal), command: options.command };
    this.#execs.push(process);
    if (this.#execs.length > maxJournal) this.#execs.shift();
    return process;
  }

  find(id: string): MockContainer | undefined {
    return this.#containers.get(id);
  }

  create(spec: ContainerSpec): string {
    if (this.containers.some((one) => one.name === spec.name)) {
      throw failureOf({ code: 'name_taken', message: `A container named ${spec.name} exists already` });
    }
    const image = this.#image(spec.image);
    if (!image?.here) throw failureOf({ code: 'image_not_found', message: `No such image: ${spec.image}` });
    if (image.script.failCreate) throw failureOf(image.script.failCreate);
    for (const mount of spec.mounts ?? []) {
      if (mount.type !== 'file' || existsSync(mount.source)) continue;
      const message = `Cannot create container ${spec.name}: bind source path does not exist: ${mount.source}`;
      throw failureOf({ code: 'create_failed', message, retryable: false });
    }
    return this.#make(spec, image.script, image.id);
  }

  /** Starts a container. The start goes on also if its caller no longer waits for it. */
  start(id: string): Promise<void> {
    const one = this.#containers.get(id);
    if (!one) {
      const message = 'Cannot start the container: there is none';
      return Promise.reject(failureOf({ code: 'create_failed', message, retryable: false }));
    }
    const under = this.#starting.get(id);
    if (under) return under;
    const starting = this.#start(one).finally(() => this.#starting.delete(id));
    this.#starting.set(id, starting);
    return starting;
  }

  /** @throws RuntimeFailure `exited` if the container does not run */
  run(id: string, command: readonly string[], options: RunOptions, signal: AbortSignal): Promise<RunResult> {
    const one = this.#containers.get(id);
    return one === undefined ? Promise.reject(notRunning()) : one.run(command, options, signal);
  }

  remove(id: string): void {
    const one = this.#containers.get(id);
    if (!one) return;
    one.destroy();
    this.#containers.delete(id);
    for (const volume of one.anonymousVolumes) this.volumes.remove(volume);
  }

  imageInfo(reference: string): LocalImage | undefined {
    const image = this.#image(reference);
    return image?.here ? shown(image) : undefined;
  }

  /** The image that a container was made from, as its user named it. */
  origin(id: string): { name: string; id: string; digests: string[]; is_here: boolean } {
    const image = this.#image(id);
    const digests = image?.digest.includes('@') === true ? [image.digest] : [];
    return { name: image?.names.values().next().value ?? id, id, digests, is_here: image?.here === true };
  }

  async pull(
    reference: string,
    signal: AbortSignal,
    seen: (progress: PullProgress) => void = () => undefined,
  ): Promise<LocalImage> {
    const found = this.#image(reference) === undefined ? this.#registry(reference) : undefined;
    if (found) this.addImage(reference, { digest: this.#registryDigest(reference), ...found });
    const image = this.#image(reference);
    if (!image) {
      const message = `Cannot pull image ${reference}: manifest unknown`;
      throw failureOf({ code: 'image_not_found', message, retryable: false });
    }
    const { pullTakesMs, pullSteps = [onePull], failPull } = image.script;
    for (const progress of pullSteps) {
      if (pullTakesMs !== undefined) await wait(this.#clock, pullTakesMs / pullSteps.length, signal);
      if (failPull === undefined && !image.here) seen(progress);
    }
    if (failPull) throw failureOf(failPull);
    image.here = true;
    return shown(image);
  }

  async build(options: BuildOptions, line: (text: string) => void, signal: AbortSignal): Promise<ImageInfo> {
    const hash = createHash('sha256').update(JSON.stringify([options.dockerfile, options.buildArgs, options.labels]));
    const context = Buffer.concat(await Array.fromAsync(options.context));
    hash.update(context);
    const isLabelled = Object.keys(options.labels).length > 0;
    const labels = isLabelled ? options.labels : await labelsOfContext(context, options.dockerfile);
    const { lines = [], takesMs, failure, runs }: BuildScript = this.#builds(options);
    for (const text of lines) line(text);
    if (takesMs !== undefined) await wait(this.#clock, takesMs, signal);
    if (failure) throw failureOf(failure);
    const id = `sha256:${hash.digest('hex')}`;
    for (const image of this.#images) image.names.delete(options.tag);
    const same = this.#images.find((image) => image.id === id);
    const script = runs === undefined ? {} : { runs };
    same?.names.add(options.tag);
    const image = same ?? {
      id,
      digest: id,
      names: new Set([options.tag]),
      labels,
      script,
      here: true,
      madeAt: this.#now(),
    };
    if (same === undefined) this.#images.push(image);
    return shown(image);
  }

  /** Newest first. */
  localImages(): ListedImage[] {
    return this.#images
      .filter(({ here }) => here)
      .map(({ id, names, labels, madeAt }) => ({ id, names: [...names], labels, madeAt }))
      .toReversed();
  }

  removeImage(id: string): void {
    const image = this.#image(id);
    if (!image || this.containers.some((one) => one.imageId === image.id)) return;
    image.here = false;
  }

  ensureNetwork(name: string, labels: Readonly<Record<string, string>>): void {
    const present = this.#networks.get(name);
    if (present && !bears(present, labels)) {
      const message = `A network named ${name} exists already and bears other labels`;
      throw failureOf({ code: 'name_taken', message });
    }
    if (!present) this.#networks.set(name, { ...labels });
  }

  removeNetwork(name: string): void {
    if (!this.containers.some(({ addresses }) => addresses.has(name))) this.#networks.delete(name);
  }

  /** @throws RuntimeFailure `in_use` if a container has it, `name_taken` if no agent made it */
  removeVolume(name: string, alsoUnlabelled: boolean): void {
    const found = this.volumes.get(name);
    if (found === undefined) return;
    if (found.labels[ours.server] === undefined && !alsoUnlabelled)
      throw failureOf({ code: 'name_taken', message: notOurs(name), retryable: false });
    if (this.containers.some(({ mutable }) => mutable.mounts.some(({ source }) => source === name)))
      throw failureOf({ code: 'in_use', message: `Cannot remove volume ${name}: a container uses it` });
    this.volumes.remove(name);
  }

  get networks(): ReadonlyMap<string, Readonly<Record<string, string>>> {
    return this.#networks;
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    return this.#events.subscribe(signal);
  }

  /** Returns the container that has this address now and is attached to that network. */
  at(address: string): MockContainer | undefined {
    return this.containers.find(({ addresses }) => [...addresses.values()].includes(address));
  }

  async #start(one: MockContainer): Promise<void> {
    if (one.address !== undefined) return;
    const { startBlockMs, failStart } = one.next;
    if (startBlockMs !== undefined) await wait(this.#clock, startBlockMs, new AbortController().signal);
    if (failStart) throw failureOf(failStart);
    const missing = one.places.find(({ name }) => !this.#networks.has(name));
    if (missing !== undefined) {
      const message = `Cannot start the container: network ${missing.name} not found`;
      throw failureOf({ code: 'create_failed', message });
    }
    // The container may have been removed meanwhile.
    if (this.#containers.has(one.id)) one.start(this.#freeAddresses(one.networks));
  }

  #make(spec: ContainerSpec, script: ImageScript, imageId: string, known?: string): string {
    const id = known ?? this.#hash(`container ${++this.#counter}`);
    const { runs = {}, files: image = {}, volumes = [] } = script;
    const own = spec.mounts ?? [];
    this.volumes.mount(spec.name, own, image);
    const anonymous = volumes
      .filter((path) => own.every((one) => one.path !== path))
      .map((path): Mount => ({ type: 'volume', volume: this.#hash(`volume ${id} ${path}`), path, readOnly: false }));
    const mounts = [...own, ...anonymous];
    const anonymousVolumes = anonymous.flatMap((it) => (it.type === 'volume' ? it.volume : []));
    for (const name of anonymousVolumes) this.volumes.ensure(name, {});
    this.volumes.mount(spec.name, anonymous, image);
    const one = new MockContainer({
      id,
      spec: { ...spec, mounts },
      anonymousVolumes,
      files: new MockFiles({ volumes: this.volumes, mounts, isRootReadOnly: spec.readOnlyRoot ?? false, image }),
      imageId,
      exposed: script.exposed ?? [],
      script: runs,
      clock: this.#clock,
      changed: (action) => this.#event(one, action),
    });
    this.#containers.set(id, one);
    this.#event(one, 'create');
    return id;
  }

  #must(id: string): MockContainer {
    const one = this.#containers.get(id);
    if (!one) throw new Error(`The mock engine has no container ${id}`);
    return one;
  }

  #image(reference: string): Image | undefined {
    return this.#images.find(
      ({ id, names, digest }) =>
        names.has(reference) || id === reference || digest === reference || reference.endsWith(`@${digest}`),
    );
  }

  #event(one: MockContainer, action: string): void {
    const labels = action === 'disconnect' ? {} : { ...one.mutable.labels }; // an event of the network has no labels
    const { exitCode } = one.detail();
    const ended = action === 'die' && exitCode !== undefined && { exitCode };
    this.#events.push({ containerId: one.id, action, labels, at: this.#clock.now().getTime(), ...ended });
  }

  /** One address for each of the networks. */
  #freeAddresses(networks: readonly NetworkPlace[]): Map<string, string> {
    const taken = new Set(this.containers.flatMap((one) => [...one.held.values()]));
    const found = new Map<string, string>();
    for (let n = 2; found.size < networks.length; n++) {
      const address = `10.0.${n >> 8}.${n & 255}`;
      const network = networks[found.size];
      if (network !== undefined && !taken.has(address)) found.set(network.name, address);
    }
    return found;
  }

  #now(): number {
    return this.#clock.now().getTime();
  }

  /** Digest of an image in its registry. */
  #registryDigest(reference: string): string {
    const repository = reference.replace(/(:[^/:]*)?(@.*)?$/, '');
    return `${repository}@sha256:${this.#hash(`manifest ${reference}`)}`;
  }

  #hash(text: string): string {
    return createHash('sha256').update(`setpoint mock ${text}`).digest('hex');
  }
}

function failureOf({ code, message, retryable = true }: ScriptedFailure): RuntimeFailure {
  return new RuntimeFailure(code, message, { retryable });
}

function unavailable(): RuntimeFailure {
  return failureOf({ code: 'runtime_unavailable', message: 'The container engine does not answer' });
}

function shown({ id, digest, labels, script }: Image): LocalImage {
  return { id, digest, labels, onBuild: [], program: script.program ?? [] };
}
