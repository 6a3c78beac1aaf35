import { wait, type Clock } from '../../../time/clock.ts';
import { RuntimeFailure } from '../runtime.ts';
import type {
  Container,
  ContainerDetail,
  ContainerSpec,
  Listener,
  Mount,
  MountDetail,
  NetworkPlace,
  OutputChunk,
  OutputOptions,
  RunOptions,
  RunResult,
  Usage,
} from '../runtime.ts';
import { Feed } from './feed.ts';
import type { MockFiles } from './mock-files.ts';
import type { RunScript, Script } from './script.ts';

/** Delays of restarts, as those of a real engine: they double, and start anew after a run of 10 s. */
const restart = { firstMs: 100, mostMs: 60_000, forgottenAfterMs: 10_000 };
const maxRecorded = 10_000;
/** What is kept of the output of a program. */
const maxOutputBytes = 4096;

/** Settings of a container that can be changed from outside. */
export interface Mutable extends Pick<
  ContainerDetail,
  | 'entrypoint'
  | 'command'
  | 'mounts'
  | 'memoryBytes'
  | 'nanoCpus'
  | 'processes'
  | 'oomScoreAdj'
  | 'shmBytes'
  | 'stopSignal'
  | 'user'
  | 'readOnlyRoot'
  | 'capabilities'
> {
  labels: Record<string, string>;
  env: Record<string, string>;
  writtenBytes: number;
  restart: ContainerSpec['restart'];
}

/** One container of the mock engine. A script and a clock determine when its processes start and exit. */
export class MockContainer {
  readonly id: string;
  readonly name: string;
  readonly networks: ContainerSpec['networks'];
  readonly imageId: string;
  readonly exposed: readonly number[];
  readonly anonymousVolumes: readonly string[];
  readonly files: MockFiles;
  readonly mutable: Mutable;
  /** Connections to it that are open; they end with its process. */
  connections = 0;
  readonly #script: Script;
  readonly #clock: Clock;
  readonly #changed: (action: string) => void;
  readonly #timers = new Set<() => void>();
  readonly #output = new Feed<OutputChunk>();
  readonly #record: (OutputChunk & { at: string })[] = [];
  /** What the present run has still to write, by time. */
  #unsaid: readonly Line[] = [];
  #state: Container['state'] = 'created';
  #run: RunScript = {};
  #starts = 0;
  #restarts = 0;
  #delayMs = restart.firstMs;
  #exitCode: number | undefined;
  #oom = false;
  /** A stop was requested: the container is not restarted, however its process ends. */
  #asked = false;
  #startedAt = '';
  #finishedAt = '';
  #since = 0;
  /** Addresses of the container by network; `undefined` while it does not run. */
  #addresses: ReadonlyMap<string, string> | undefined;
  /** Networks that it was taken off. */
  readonly #left = new Set<string>();
  #stopped = Promise.withResolvers<void>();
  /** Programs that did not end in time, by user and command, with the time of their end. */
  #unfinished = new Map<string, number>();

  constructor(what: {
    id: string;
    spec: ContainerSpec;
    anonymousVolumes: readonly string[];
    files: MockFiles;
    imageId: string;
    exposed: readonly number[];
    script: Script;
    clock: Clock;
    changed: (action: string) => void;
  }) {
    const { spec } = what;
    this.id = what.id;
    this.name = spec.name;
    this.networks = spec.networks;
    this.imageId = what.imageId;
    this.exposed = what.exposed;
    this.anonymousVolumes = what.anonymousVolumes;
    this.files = what.files;
    this.mutable = settings(spec);
    this.#script = what.script;
    this.#clock = what.clock;
    this.#changed = what.changed;
  }

  get state(): Container['state'] {
    return this.#state;
  }

  /** Its address in its first network; `undefined` while it does not run. */
  get address(): string | undefined {
    return this.#addresses?.get(this.networks[0].name);
  }

  /** Its addresses in the networks that it is on; none while it does not run. */
  get addresses(): ReadonlyMap<string, string> {
    return new Map([...(this.#addresses ?? [])].filter(([network]) => !this.#left.has(network)));
  }

  /** Its addresses, also those in networks that it was taken off. */
  get held(): ReadonlyMap<string, string> {
    return this.#addresses ?? new Map();
  }

  /** The networks that it is on, or will be on once it starts. */
  get places(): NetworkPlace[] {
    return this.networks.filter(({ name }) => !this.#left.has(name));
  }

  /** Takes it off a network for good: a start does not attach it again. */
  disconnect(network: string): void {
    this.#left.add(network);
    this.#changed('disconnect');
  }

  /** Programs that it has for terminals. */
  get installed(): readonly string[] {
    return this.#run.installed ?? ['/bin/sh', 'cat'];
  }

  /** Resolves when the present run ends. */
  get stopped(): Promise<void> {
    return this.#stopped.promise;
  }

  /** Script of its next run. */
  get next(): RunScript {
    return typeof this.#script === 'function' ? this.#script(this.#starts + 1) : this.#script;
  }

  summary(): Container {
    const { id, name, imageId } = this;
    return { id, name, imageId, labels: { ...this.mutable.labels }, state: this.#state };
  }

  detail(): ContainerDetail {
    const { labels: _, env, writtenBytes: _written, restart: _restart, ...shown } = this.mutable;
    return {
      ...this.summary(),
      ...shown,
      exposed: this.exposed,
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      exitCode: this.#state === 'running' || this.#state === 'paused' ? undefined : this.#exitCode,
      oomKilled: this.#oom,
      restartCount: this.#restarts,
      startedAt: this.#startedAt,
      finishedAt: this.#finishedAt,
      addresses: Object.fromEntries(this.addresses),
      networks: this.places
        .map(({ name, aliases }) => ({ name, aliases: aliases.toSorted() }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      pid: this.#addresses === undefined ? 0 : 1000 + this.#starts,
      ...this.#health(),
    };
  }

  /** What it has used since its start; `undefined` while it does not run. */
  usage(): Usage | undefined {
    if (this.#addresses === undefined) return undefined;
    const none = { cpuMs: 0, memoryBytes: 1024 ** 2, receivedBytes: 0, sentBytes: 0, readBytes: 0, writtenBytes: 0 };
    return this.#run.usage?.(this.#runningMs) ?? none;
  }

  /**
   * Starts it by a call, not by the restart policy: restarts are counted from here. `addresses` has one for each of its
   * networks.
   */
  start(addresses: ReadonlyMap<string, string>): void {
    this.#restarts = 0;
    this.#delayMs = restart.firstMs;
    this.#asked = false;
    this.#clear();
    this.#begin(addresses);
  }

  /** Ends the process. Unless that was `asked` for, the restart policy decides what follows. */
  exit(code: number, how: { oom?: boolean; asked: boolean }): void {
    const addresses = this.#addresses;
    if (addresses === undefined) return;
    this.#clear();
    this.#addresses = undefined;
    this.#exitCode = code;
    this.#oom = how.oom ?? false;
    this.#finishedAt = this.#clock.now().toISOString();
    this.#state = !how.asked && !this.#asked && this.mutable.restart === 'unless-stopped' ? 'restarting' : 'exited';
    this.files.forgetMemory();
    this.#output.end();
    this.#stopped.resolve();
    if (this.#oom) this.#changed('oom');
    this.#changed('die');
    if (this.#state !== 'restarting') return;
    const ranMs = this.#clock.monotonic() - this.#since;
    this.#delayMs = ranMs >= restart.forgottenAfterMs ? restart.firstMs : this.#delayMs;
    this.#after(this.#delayMs, () => {
      this.#restarts += 1;
      this.#begin(addresses);
    });
    this.#delayMs = Math.min(this.#delayMs * 2, restart.mostMs);
  }

  /** Asks the process to end and kills it after `graceMs`. Also ends restarts. */
  async stop(graceMs: number): Promise<void> {
    this.#asked = true;
    if (this.#addresses === undefined) {
      if (this.#state !== 'restarting') return;
      this.#clear();
      this.#state = 'exited';
      this.#changed('stop');
      return;
    }
    const { ignoreTerm, stopsOn, stopTakesMs = 0 } = this.#run;
    const asked = this.mutable.stopSignal || 'SIGTERM';
    const ignores = stopsOn === undefined ? ignoreTerm === true && asked === 'SIGTERM' : stopsOn !== asked;
    const kills = ignores || stopTakesMs > graceMs;
    const stopped = this.#stopped.promise;
    if (kills) this.#after(graceMs, () => this.exit(137, { asked: true }));
    else if (stopTakesMs === 0) this.exit(0, { asked: true });
    else this.#after(stopTakesMs, () => this.exit(0, { asked: true }));
    await stopped;
    this.#changed('stop');
  }

  pause(paused: boolean): void {
    if (this.#state !== (paused ? 'running' : 'paused')) return;
    this.#state = paused ? 'paused' : 'running';
    this.#changed(paused ? 'pause' : 'unpause');
  }

  /** Kills the process. Nothing happens to the container afterwards. */
  destroy(): void {
    this.exit(137, { asked: true });
    this.#clear();
    this.#output.end();
    this.#changed('destroy');
  }

  /** Returns the HTTP status of an answer; `undefined` if nothing listens. */
  answer(port: number, path: string): number | undefined {
    const runningMs = this.#runningMs;
    const { http = 200, listenAfterMs = 0 } = this.#run;
    if (this.#state !== 'running' || runningMs < listenAfterMs) return undefined;
    return typeof http === 'number' ? http : http({ port, path, runningMs });
  }

  /** Where its programs listen; `undefined` if the script does not say. */
  get listeners(): readonly Listener[] | undefined {
    return this.#state === 'running' ? this.#run.listeners : undefined;
  }

  /** True if it accepts connections to the port. */
  listens(port: number): boolean {
    const { listenAfterMs = 0, tcp = () => true } = this.#run;
    return this.#state === 'running' && this.#runningMs >= listenAfterMs && tcp(port);
  }

  /** Runs a program in it. @throws RuntimeFailure `exited` if it does not run, or ends before the program does */
  async run(command: readonly string[], { user, timeoutMs }: RunOptions, signal: AbortSignal): Promise<RunResult> {
    if (this.#state !== 'running') throw notRunning();
    const key = JSON.stringify([user, command]);
    const now = this.#clock.monotonic();
    if ((this.#unfinished.get(key) ?? 0) > now) return { exitCode: undefined, output: '' };
    const script = this.#run.programs?.({ command, user, runningMs: this.#runningMs }) ?? {};
    const { exitCode = 0, output = '', takesMs = 0 } = script;
    if (takesMs > timeoutMs) this.#unfinished.set(key, now + takesMs);
    if (takesMs > 0) {
      const over = new AbortController();
      void this.#stopped.promise.then(() => over.abort(notRunning()));
      await wait(this.#clock, Math.min(takesMs, timeoutMs), AbortSignal.any([signal, over.signal]));
    }
    const written = Buffer.from(output).subarray(-maxOutputBytes).toString();
    return takesMs > timeoutMs ? { exitCode: undefined, output: written } : { exitCode, output: written };
  }

  /** Writes a line as output of the process. */
  write(text: string, stream: OutputChunk['stream'] = 'stdout'): void {
    const chunk = { stream, data: Buffer.from(`${text}\n`), at: this.#clock.now().toISOString() };
    this.#record.push(chunk);
    if (this.#record.length > maxRecorded) this.#record.shift();
    this.#output.push({ stream, data: chunk.data });
  }

  output(options: OutputOptions, signal: AbortSignal): AsyncIterable<OutputChunk> {
    const { since, recorded } = options;
    if (since === undefined) return afterRecord([], undefined, this.#output.subscribe(signal));
    const live = this.#state === 'exited' ? [] : this.#output.subscribe(signal);
    const record = this.#record.filter(({ at }) => Date.parse(at) >= Date.parse(since));
    return afterRecord(record, recorded, live);
  }

  get #runningMs(): number {
    return this.#clock.monotonic() - this.#since;
  }

  #health(): Pick<ContainerDetail, 'health'> {
    const { health } = this.#run;
    const isAlive = this.#state === 'running' || this.#state === 'paused';
    return health === undefined || !isAlive ? {} : { health: health(this.#runningMs) };
  }

  #begin(addresses: ReadonlyMap<string, string>): void {
    this.#run = this.next;
    this.#starts += 1;
    this.#addresses = addresses;
    this.#state = 'running';
    this.#oom = false;
    this.#since = this.#clock.monotonic();
    this.#startedAt = this.#clock.now().toISOString();
    this.#stopped = Promise.withResolvers();
    this.#unfinished = new Map();
    const { runForMs, exitCode = 0, oom = false, output = [] } = this.#run;
    this.#unsaid = output.toSorted((a, b) => a.afterMs - b.afterMs);
    this.#speak();
    if (runForMs !== undefined) this.#after(runForMs, () => this.#endItself(runForMs, { exitCode, oom }));
    this.#changed('start');
  }

  /** Writes lines at their times, in this order also where a busy process is late: timers of their own would not keep it. */
  #speak(): void {
    const [next] = this.#unsaid;
    if (next === undefined) return;
    this.#after(Math.max(0, next.afterMs - this.#runningMs), () => {
      this.#say(Math.max(next.afterMs, this.#runningMs));
      this.#speak();
    });
  }

  /** Writes what is due after this time of the run. */
  #say(runningMs: number): void {
    const later = this.#unsaid.filter(({ afterMs }) => afterMs > runningMs);
    const due = this.#unsaid.slice(0, this.#unsaid.length - later.length);
    this.#unsaid = later;
    for (const { text, stream } of due) this.write(text, stream);
  }

  /** The program ends by itself. A late timer may bring this before the last lines: a program says them first. */
  #endItself(runForMs: number, { exitCode, oom }: { exitCode: number; oom: boolean }): void {
    this.#say(runForMs);
    this.exit(exitCode, { oom, asked: false });
  }

  #after(ms: number, fn: () => void): void {
    const cancel = this.#clock.timer(ms, () => {
      this.#timers.delete(cancel);
      fn();
    });
    this.#timers.add(cancel);
  }

  #clear(): void {
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
  }
}

type Line = NonNullable<RunScript['output']>[number];

async function* afterRecord<T>(
  record: readonly T[],
  recorded: (() => void) | undefined,
  live: AsyncIterable<T> | readonly T[],
): AsyncGenerator<T> {
  yield* record;
  recorded?.();
  yield* live;
}

/** The failure of a program in a container that does not run, or does not exist. */
export function notRunning(): RuntimeFailure {
  const message = 'Cannot run a program in the container: it does not run';
  return new RuntimeFailure('exited', message, { retryable: true });
}

/** The settings of a new container, with the defaults of an engine. */
function settings(spec: ContainerSpec): Mutable {
  const { add = [], drop = [] } = spec.capabilities ?? {};
  return {
    labels: { ...spec.labels },
    env: { ...spec.env },
    entrypoint: spec.entrypoint ?? [],
    command: spec.command ?? [],
    mounts: (spec.mounts ?? []).map(mountDetail).toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    memoryBytes: spec.memoryBytes ?? 0,
    nanoCpus: spec.nanoCpus ?? 0,
    processes: spec.processes ?? 4096,
    oomScoreAdj: spec.oomScoreAdj ?? 500,
    shmBytes: spec.shmBytes ?? 64 * 1024 * 1024,
    stopSignal: spec.stopSignal ?? '',
    user: spec.user ?? '',
    readOnlyRoot: spec.readOnlyRoot ?? false,
    capabilities: {
      add: add.toSorted(),
      drop: ['MKNOD', ...(add.includes('NET_RAW') ? [] : ['NET_RAW']), ...drop].toSorted(),
    },
    writtenBytes: 0,
    restart: spec.restart,
  };
}

function mountDetail(one: Mount): MountDetail {
  const { type, path } = one;
  switch (type) {
    case 'volume':
      return { type, source: one.volume, path, readOnly: one.readOnly, sizeBytes: 0 };
    case 'tmpfs':
      return { type, source: '', path, readOnly: false, sizeBytes: one.sizeBytes };
    case 'file':
      return { type, source: one.source, path, readOnly: true, sizeBytes: 0 };
    case 'folder':
      return { type, source: one.source, path, readOnly: false, sizeBytes: 0 };
  }
}
