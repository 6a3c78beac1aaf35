import { mainService, hostNetwork } from '../../agent-protocol/workload.ts';
import type { WireNote } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Prober } from '../runtime/probe.ts';
import type { ContainerRuntime, Listener } from '../runtime/runtime.ts';
import type { World } from './plan.ts';

/** A process that is to listen on a port. */
interface Subject {
  /** Changes with every new process. */
  key: string;
  container: string;
  pid: number;
  /** Monotonic time at which the process started. */
  since: number;
  /** Its address in its first network. */
  address: string;
  port: number;
  /** Whether its port is the `exposed_port` of an application, and not one of a compose file. */
  isExposed: boolean;
}

/** Time that a process has before it is looked at, and between two looks: they become rarer. */
const firstMs = 5_000;
const growth = 1.5;
const mostMs = 30_000;
const callMs = 5_000;

/**
 * Returns the process that is to listen on a port; `undefined` where none runs, and where an answer through the port
 * showed that it does. Pure.
 */
export function listeningSubject(world: World, is: { ready: boolean; published: boolean }): Subject | undefined {
  const { desired, memory, actual } = world;
  const { run } = memory;
  const running = actual.find(({ container }) => container.id === run?.container && container.state === 'running');
  if (desired?.run !== 'running' || desired.workload_kind !== 'application') return undefined;
  if (run === undefined || running?.detail === undefined) return undefined;
  const { probe, ports, networks } = desired.spec;
  const isProbed = probe?.type === 'http' || probe?.type === 'tcp';
  const port = isProbed ? probe.port : ports[0]?.port;
  const isAnswered = is.ready && (isProbed || (is.published && ports.some(({ publish }) => publish !== undefined)));
  const address = running.detail.addresses[networks[0].name] ?? '';
  if (port === undefined || isAnswered || networks[0].name === hostNetwork || address === '') return undefined;
  return {
    key: `${run.container} ${run.startedAt}`,
    container: run.container,
    pid: running.detail.pid,
    since: run.since,
    address,
    port,
    isExposed: desired.service === mainService,
  };
}

/**
 * Finds out where the process of an instance listens as long as nothing was answered by its port: on the loopback of its
 * container, on another port, for IPv6 alone, or nowhere.
 */
export class Listening implements Disposable {
  readonly #clock: Clock;
  readonly #runtime: Pick<ContainerRuntime, 'listeners'>;
  readonly #prober: Prober;
  readonly #changed: () => void;
  #subject: Subject | undefined;
  #watch: AbortController | undefined;
  #note: WireNote | undefined;

  constructor(deps: {
    clock: Clock;
    runtime: Pick<ContainerRuntime, 'listeners'>;
    prober: Prober;
    changed: () => void;
  }) {
    this.#clock = deps.clock;
    this.#runtime = deps.runtime;
    this.#prober = deps.prober;
    this.#changed = deps.changed;
  }

  /** Why its port is not reached; `undefined` as long as that is not known. */
  get note(): WireNote | undefined {
    return this.#note;
  }

  /** Looks at this process from now on; `undefined`: at none. Does nothing if it is the same one. */
  observe(subject: Subject | undefined): void {
    if (subject?.key === this.#subject?.key && subject?.port === this.#subject?.port) return;
    this.#subject = subject;
    this.#watch?.abort();
    this.#note = undefined;
    if (subject === undefined) return;
    const watch = new AbortController();
    this.#watch = watch;
    void this.#look(subject, watch.signal);
  }

  [Symbol.dispose](): void {
    this.observe(undefined);
  }

  async #look(subject: Subject, signal: AbortSignal): Promise<void> {
    const due = Math.max(0, subject.since + firstMs - this.#clock.monotonic());
    for (let ms = due, delay = firstMs; ; ms = delay, delay = Math.min(delay * growth, mostMs)) {
      // aborted: another process is looked at, or none
      const isOver = await wait(this.#clock, ms, signal).then(
        () => signal.aborted,
        () => true,
      );
      if (isOver) return;
      // a look that fails shows nothing
      const note = await this.#find(subject, signal).catch(() => this.#note ?? unknown);
      if (signal.aborted) return;
      if (note === unknown) continue;
      if (note?.message !== this.#note?.message) {
        this.#note = note;
        this.#changed();
      }
      // it listens where it is to, or that cannot be known
      if (note === undefined) return;
    }
  }

  async #find(subject: Subject, signal: AbortSignal): Promise<WireNote | undefined> {
    const { container: id, pid, address, port } = subject;
    using limit = deadline(this.#clock, callMs, 'Looking for listening programs', signal);
    const listeners = await this.#runtime.listeners({ id, pid }, limit.signal);
    if (listeners === undefined) return undefined;
    const found = judge(listeners, subject);
    if (found !== 'by IPv6') return found;
    // the socket of IPv6 may take connections of IPv4 as well
    const { ok } = await this.#prober.probe({ type: 'tcp', address, port, timeoutMs: callMs }, limit.signal);
    return ok === false ? noteOf('IPv6Alone', `It listens on port ${port} for IPv6 alone: ${remedy(port)}`) : undefined;
  }
}

/** Nothing was found out yet. */
const unknown = Symbol('unknown');

const loopback = /^(127\.|::1$|::ffff:127\.)/;
const shown = 3;

/** Why a port is not reached; `undefined` if it is, `by IPv6` if it may be for IPv6 alone. Pure. */
export function judge(
  listeners: readonly Listener[],
  { port, isExposed }: Pick<Subject, 'port' | 'isExposed'>,
): WireNote | 'by IPv6' | undefined {
  const open = listeners.filter(({ address }) => !loopback.test(address));
  const here = open.filter((it) => it.port === port);
  if (here.some(({ address }) => !address.includes(':') || address.startsWith('::ffff:'))) return undefined;
  if (here.length > 0) return 'by IPv6';
  const closed = listeners.filter(({ address }) => loopback.test(address));
  const inside = closed.find((it) => it.port === port) ?? (open.length === 0 ? closed.toSorted(byPort)[0] : undefined);
  if (inside !== undefined) {
    const at = inside.address.includes(':') ? `[${inside.address}]` : inside.address;
    const message = `It listens on ${at}:${inside.port}, which nothing outside of its container reaches: ${remedy(port)}`;
    return noteOf('Loopback', message);
  }
  const ports = [...new Set(open.toSorted(byPort).map((it) => it.port))].slice(0, shown);
  const [first] = ports;
  if (first === undefined) return noteOf('Nothing', `Nothing in it listens on a port yet: ${remedy(port)}`);
  const other = isExposed ? `set exposed_port to ${first}` : 'name that port in the compose file';
  return noteOf('OtherPort', `It listens on port ${ports.join(', ')} and not on ${port}: ${remedy(port)}, or ${other}`);
}

function remedy(port: number): string {
  return `let it listen on 0.0.0.0:${port}, as many programs do by HOST and PORT`;
}

function byPort(a: Listener, b: Listener): number {
  return a.port - b.port;
}

function noteOf(reason: string, message: string): WireNote {
  return { type: 'Unreachable', reason, message };
}
