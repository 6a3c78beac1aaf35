import type { Clock } from '../../../agent-protocol/clock.ts';
import type { Container, ContainerDetail, ContainerSpec, OutputChunk, OutputOptions } from '../runtime.ts';
import { Feed } from './feed.ts';
import type { RunScript, Script } from './script.ts';

/** Delays of restarts, as those of a real engine: they double, and start anew after a run of 10 s. */
const restart = { firstMs: 100, mostMs: 60_000, forgottenAfterMs: 10_000 };
const maxRecorded = 10_000;

/** Settings of a container that can be changed from outside. */
export interface Mutable {
  labels: Record<string, string>;
  env: Record<string, string>;
  command: string[];
  memoryBytes: number;
  nanoCpus: number;
  writtenBytes: number;
  restart: ContainerSpec['restart'];
}

/** One container of the mock engine. A script and a clock determine when its processes start and exit. */
export class MockContainer {
  readonly id: string;
  readonly name: string;
  readonly network: string;
  readonly imageId: string;
  readonly mutable: Mutable;
  readonly #script: Script;
  readonly #clock: Clock;
  readonly #changed: (action: string) => void;
  readonly #timers = new Set<() => void>();
  readonly #output = new Feed<OutputChunk>();
  readonly #record: (OutputChunk & { at: string })[] = [];
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
  #address: string | undefined;
  #connected = true;
  #stopped = Promise.withResolvers<void>();

  constructor(what: {
    id: string;
    spec: ContainerSpec;
    imageId: string;
    script: Script;
    clock: Clock;
    changed: (action: string) => void;
  }) {
    const { spec } = what;
    this.id = what.id;
    this.name = spec.name;
    this.network = spec.network;
    this.imageId = what.imageId;
    this.mutable = {
      labels: { ...spec.labels },
      env: { ...spec.env },
      command: [...(spec.command ?? [])],
      memoryBytes: spec.memoryBytes ?? 0,
      nanoCpus: spec.nanoCpus ?? 0,
      writtenBytes: 0,
      restart: spec.restart,
    };
    this.#script = what.script;
    this.#clock = what.clock;
    this.#changed = what.changed;
  }

  get state(): Container['state'] {
    return this.#state;
  }

  /** Its address; `undefined` while it does not run. */
  get address(): string | undefined {
    return this.#address;
  }

  /** True while it is attached to its network. */
  get connected(): boolean {
    return this.#connected;
  }

  /** Takes it off its network for good: a start does not attach it again. */
  disconnect(): void {
    this.#connected = false;
    this.#changed('disconnect');
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
    const { mutable } = this;
    return {
      ...this.summary(),
      env: Object.entries(mutable.env).map(([name, value]) => `${name}=${value}`),
      command: mutable.command,
      exitCode: this.#state === 'running' || this.#state === 'paused' ? undefined : this.#exitCode,
      oomKilled: this.#oom,
      restartCount: this.#restarts,
      startedAt: this.#startedAt,
      finishedAt: this.#finishedAt,
      addresses: this.#address === undefined || !this.#connected ? {} : { [this.network]: this.#address },
      pid: this.#address === undefined ? 0 : 1000 + this.#starts,
      memoryBytes: mutable.memoryBytes,
      nanoCpus: mutable.nanoCpus,
    };
  }

  /** Starts it by a call, not by the restart policy: restarts are counted from here. */
  start(address: string): void {
    this.#restarts = 0;
    this.#delayMs = restart.firstMs;
    this.#asked = false;
    this.#clear();
    this.#begin(address);
  }

  /** Ends the process. Unless that was `asked` for, the restart policy decides what follows. */
  exit(code: number, how: { oom?: boolean; asked: boolean }): void {
    const address = this.#address;
    if (address === undefined) return;
    this.#clear();
    this.#address = undefined;
    this.#exitCode = code;
    this.#oom = how.oom ?? false;
    this.#finishedAt = this.#clock.now().toISOString();
    this.#state = !how.asked && !this.#asked && this.mutable.restart === 'unless-stopped' ? 'restarting' : 'exited';
    this.#output.end();
    this.#stopped.resolve();
    if (this.#oom) this.#changed('oom');
    this.#changed('die');
    if (this.#state !== 'restarting') return;
    const ranMs = this.#clock.monotonic() - this.#since;
    this.#delayMs = ranMs >= restart.forgottenAfterMs ? restart.firstMs : this.#delayMs;
    this.#after(this.#delayMs, () => {
      this.#restarts += 1;
      this.#begin(address);
    });
    this.#delayMs = Math.min(this.#delayMs * 2, restart.mostMs);
  }

  /** Asks the process to end and kills it after `graceMs`. Also ends restarts. */
  async stop(graceMs: number): Promise<void> {
    this.#asked = true;
    if (this.#address === undefined) {
      if (this.#state !== 'restarting') return;
      this.#clear();
      this.#state = 'exited';
      this.#changed('stop');
      return;
    }
    const { ignoreTerm, stopTakesMs = 0 } = this.#run;
    const kills = ignoreTerm === true || stopTakesMs > graceMs;
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
    const runningMs = this.#clock.monotonic() - this.#since;
    const { http = 200, listenAfterMs = 0 } = this.#run;
    if (this.#state !== 'running' || runningMs < listenAfterMs) return undefined;
    return typeof http === 'number' ? http : http({ port, path, runningMs });
  }

  /** Writes a line as output of the process. */
  write(text: string, stream: OutputChunk['stream'] = 'stdout'): void {
    const chunk = { stream, data: Buffer.from(`${text}\n`), at: this.#clock.now().toISOString() };
    this.#record.push(chunk);
    if (this.#record.length > maxRecorded) this.#record.shift();
    this.#output.push({ stream, data: chunk.data });
  }

  output(options: OutputOptions, signal: AbortSignal): AsyncIterable<OutputChunk> {
    const { since } = options;
    const recorded = since === undefined ? [] : this.#record.filter(({ at }) => Date.parse(at) >= Date.parse(since));
    const over = this.#state === 'exited';
    return over ? recordOnly(recorded) : this.#output.subscribe(signal, recorded);
  }

  #begin(address: string): void {
    this.#run = this.next;
    this.#starts += 1;
    this.#address = address;
    this.#state = 'running';
    this.#oom = false;
    this.#since = this.#clock.monotonic();
    this.#startedAt = this.#clock.now().toISOString();
    this.#stopped = Promise.withResolvers();
    const { runForMs, exitCode = 0, oom = false, output = [] } = this.#run;
    for (const { afterMs, text, stream } of output) this.#after(afterMs, () => this.write(text, stream));
    if (runForMs !== undefined) this.#after(runForMs, () => this.exit(exitCode, { oom, asked: false }));
    this.#changed('start');
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

async function* recordOnly<T>(recorded: readonly T[]): AsyncGenerator<T> {
  yield* recorded;
}
