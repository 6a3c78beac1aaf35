import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Ledger, Origin } from './ledger.ts';
import type { Container, ContainerDetail, ContainerRuntime, RuntimeEvent } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';

/** A container of an assignment as it was last observed. */
export interface Actual {
  container: Container;
  /** Absent until the container is inspected; always of the same state as `container`. */
  detail: ContainerDetail | undefined;
  origin: Exclude<Origin, 'foreign'>;
}

interface Seen extends Actual {
  /** Number of the observation: a later one replaces an earlier one. */
  at: number;
  inspectedAt: number;
  /** Number of the last observation that gave a reason to inspect the container. */
  suspectedAt: number;
}

const relistMs = 10_000;
/** All containers are inspected at this interval: a list does not show a changed limit or network. */
const inspectMs = 30_000;
const callMs = 30_000;
const retryMs = { first: 200, most: 5_000 };
const parallelInspections = 8;

/**
 * Observes this agent's containers by one list of all, on every event of the engine and every 10 s. It never shows
 * foreign containers. While the engine does not answer, the last observation stays and `reachable` is false: nothing
 * may be concluded from it.
 */
export class Observer {
  readonly #runtime: ContainerRuntime;
  readonly #server: string;
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #changed: (assignments: ReadonlySet<string>) => void;
  readonly #told: (assignment: string, event: RuntimeEvent) => void;
  readonly #listed: () => void;
  readonly #returned: () => void;
  readonly #silent: (error: unknown) => void;
  readonly #seen = new Map<string, Seen>();
  readonly #removed = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #inspections = new PQueue({ concurrency: parallelInspections });
  readonly #inspecting = new Map<string, Promise<void>>();
  #counter = 0;
  #inspectAllAt = 0;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** Undefined until the first list has been tried. */
  #reachable: boolean | undefined;
  #loops: Promise<unknown> | undefined;

  constructor(deps: {
    runtime: ContainerRuntime;
    server: string;
    ledger: Ledger;
    clock: Clock;
    log: Logger;
    /** Called with the assignments whose containers changed. */
    changed: (assignments: ReadonlySet<string>) => void;
    /** Called with the events of containers of an assignment, each at least once, in their order. */
    told: (assignment: string, event: RuntimeEvent) => void;
    /** Called every 10 s while the engine answers. */
    listed: () => void;
    /** The engine answers, for the first time or again. */
    returned: () => void;
    /** The engine does not answer. Called with every failure. */
    silent: (error: unknown) => void;
  }) {
    this.#runtime = deps.runtime;
    this.#server = deps.server;
    this.#ledger = deps.ledger;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#changed = deps.changed;
    this.#told = deps.told;
    this.#listed = deps.listed;
    this.#returned = deps.returned;
    this.#silent = deps.silent;
  }

  /** True if the last list succeeded. */
  get reachable(): boolean {
    return this.#reachable === true;
  }

  /** Resolves after the first list. From then on the observation is kept up to date until disposal. */
  async start(): Promise<void> {
    const { signal } = this.#closing;
    for (let delay = retryMs.first; !signal.aborted; delay = Math.min(delay * 2, retryMs.most)) {
      try {
        await this.relist();
        break;
      } catch {
        await wait(this.#clock, delay, signal);
      }
    }
    this.#loops = Promise.allSettled([this.#tick(signal), this.#listen(signal)]);
  }

  /** Every container of the agent. */
  all(): Iterable<Actual> {
    return this.#seen.values();
  }

  of(assignment: string): Actual[] {
    return [...this.#seen.values()].filter((it) => it.container.labels[labels.assignment] === assignment);
  }

  /** Assignments that have a container. */
  assignments(): Set<string> {
    return new Set([...this.#seen.values()].flatMap((it) => it.container.labels[labels.assignment] ?? []));
  }

  ids(): Set<string> {
    return new Set(this.#seen.keys());
  }

  /**
   * Resolves when a list that began after this call has ended. Concurrent calls share one list.
   * @throws RuntimeFailure if the engine fails; Error if it does not answer within 30 s
   */
  relist(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#run();
    const next = this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#run();
      });
    this.#next = next;
    return next;
  }

  /** Inspects one container again. @throws RuntimeFailure */
  async refresh(id: string): Promise<void> {
    const at = ++this.#counter;
    using limit = deadline(this.#clock, callMs, 'Inspecting a container', this.#closing.signal);
    const detail = await this.#runtime.inspect(id, limit.signal);
    const changed = new Set<string>();
    this.#noteDetail(id, detail, at, changed);
    if (changed.size > 0) this.#changed(changed);
  }

  /** Records a container that the agent itself just made. */
  note(container: Container): void {
    this.#seen.set(container.id, {
      container,
      detail: undefined,
      origin: 'made',
      at: ++this.#counter,
      inspectedAt: 0,
      suspectedAt: 0,
    });
  }

  /** Records that the agent itself removed a container. */
  noteRemoved(id: string): void {
    this.#seen.delete(id);
    this.#removed.set(id, ++this.#counter);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    await this.#loops;
    await Promise.all(this.#inspecting.values());
  }

  #run(): Promise<void> {
    const run = this.#list().finally(() => {
      this.#running = undefined;
    });
    this.#running = run;
    return run;
  }

  async #list(): Promise<void> {
    const at = ++this.#counter;
    const changed = new Set<string>();
    let containers: Container[];
    try {
      using limit = deadline(this.#clock, callMs, 'Listing containers', this.#closing.signal);
      containers = await this.#runtime.list(this.#server, limit.signal);
    } catch (error) {
      if (this.#reachable !== false && !this.#closing.signal.aborted)
        this.#log.warn(
          { err: error },
          'The container engine does not answer: instances go on, and no instance is changed until it answers',
        );
      this.#reachable = false;
      if (!this.#closing.signal.aborted) this.#silent(error);
      throw error;
    }
    const returned = this.#reachable !== true;
    this.#reachable = true;
    const now = this.#clock.monotonic();
    const all = now >= this.#inspectAllAt;
    if (all) this.#inspectAllAt = now + inspectMs;
    const listed = new Set<string>();
    for (const container of containers) {
      listed.add(container.id);
      this.#noteListed(container, at, all, changed);
    }
    for (const [id, seen] of this.#seen) {
      if (listed.has(id) || seen.at > at) continue;
      this.#seen.delete(id);
      noteAssignment(seen.container, changed);
    }
    for (const [id, removedAt] of this.#removed) if (removedAt < at) this.#removed.delete(id);
    if (changed.size > 0) this.#changed(changed);
    if (returned) {
      this.#log.info('The container engine answers');
      this.#returned();
    }
    this.#inspectSuspects();
  }

  #noteListed(container: Container, at: number, inspect: boolean, changed: Set<string>): void {
    if ((this.#removed.get(container.id) ?? 0) > at) return;
    const origin = this.#ledger.origin(container);
    if (origin === 'foreign') return;
    const known = this.#seen.get(container.id);
    if (known !== undefined && known.at > at) return;
    const same =
      known !== undefined && known.container.state === container.state && known.container.name === container.name;
    this.#seen.set(container.id, {
      container,
      origin,
      at,
      detail: same ? known.detail : undefined,
      inspectedAt: same ? known.inspectedAt : 0,
      suspectedAt: !same || inspect ? at : known.suspectedAt,
    });
    if (!same) noteAssignment(container, changed);
  }

  /** Inspections are not part of the list: a container that the engine is slow to inspect must not delay the others. */
  #inspectSuspects(): void {
    for (const { container, inspectedAt, suspectedAt } of this.#seen.values())
      if (suspectedAt > inspectedAt && !this.#inspecting.has(container.id))
        this.#inspecting.set(container.id, this.#inspectLater(container.id));
  }

  async #inspectLater(id: string): Promise<void> {
    try {
      await this.#inspections.add(() => this.refresh(id));
    } catch (error) {
      // The next list starts another inspection.
      this.#log.debug({ err: error, container: id }, 'Container could not be inspected');
      this.#inspecting.delete(id);
      return;
    }
    this.#inspecting.delete(id);
    // There may be a new reason to inspect it.
    this.#inspectSuspects();
  }

  #noteDetail(id: string, detail: ContainerDetail | undefined, at: number, changed: Set<string>): void {
    const known = this.#seen.get(id);
    if (known === undefined || known.at > at) return;
    if (detail === undefined) {
      this.#seen.delete(id);
      noteAssignment(known.container, changed);
      return;
    }
    if (JSON.stringify(known.detail) !== JSON.stringify(detail)) noteAssignment(detail, changed);
    const { id: _, ...rest } = detail;
    const container: Container = { id, name: rest.name, labels: rest.labels, state: rest.state, imageId: rest.imageId };
    this.#seen.set(id, { ...known, container, detail, at, inspectedAt: at });
  }

  async #tick(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await wait(this.#clock, relistMs, signal);
      await this.relist().then(this.#listed, () => undefined);
    }
  }

  /** Events are only hints at the state: each one causes a list, and so does every gap in them. */
  async #listen(signal: AbortSignal): Promise<void> {
    for (let delay = retryMs.first; ; delay = Math.min(delay * 2, retryMs.most)) {
      try {
        const events = this.#runtime.events(this.#server, signal)[Symbol.asyncIterator]();
        let next = events.next();
        // This list shows what happened before the first event could arrive.
        this.relist().catch(() => undefined);
        for (let it = await next; it.done !== true; it = await next) {
          next = events.next();
          delay = retryMs.first;
          this.#hint(it.value);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#log.debug({ err: error }, 'Events of the container engine ended');
      }
      await wait(this.#clock, delay, signal);
    }
  }

  #hint(event: RuntimeEvent): void {
    const seen = this.#seen.get(event.containerId);
    if (seen === undefined && event.labels[labels.server] !== this.#server) return; // a foreign container
    if (seen !== undefined) {
      seen.suspectedAt = ++this.#counter;
      const assignment = seen.container.labels[labels.assignment];
      if (assignment !== undefined) this.#told(assignment, event);
    }
    this.relist().catch(() => undefined);
  }
}

function noteAssignment(container: Container, into: Set<string>): void {
  const assignment = container.labels[labels.assignment];
  if (assignment !== undefined) into.add(assignment);
}
