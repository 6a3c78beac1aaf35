import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../../time/clock.ts';
import { kinds, type KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';
import { controllersLead } from '../../store/replicas.ts';
import { openRepository, type Repository } from '../../store/repo.ts';
import type { Store } from '../../store/store.ts';
import { aborted } from './aborted.ts';
import { EventRecorder } from './events.ts';
import { expiryTime } from './expiry-time.ts';
import { checkGraph, describeGraph, type AnyController } from './graph.ts';
import { campaign, type Term } from './leader.ts';
import { limits } from './limits.ts';
import type { LoopDeps } from './loop-deps.ts';
import { ControllerLoop } from './loop.ts';
import { controllerMetrics, type ControllerMetrics } from './metrics.ts';
import { Notifier } from './notify.ts';
import { unattendedMetric } from './unattended.ts';

/** Work of the leader beside the controllers. */
export interface Background {
  readonly name: string;
  /** Must return soon after the signal of the term aborted. Its writes carry the fence of the term. */
  run(term: Term, deps: BackgroundDeps): Promise<void>;
}

/** What background work may use. */
export type BackgroundDeps = Pick<
  LoopDeps,
  'store' | 'mirror' | 'clock' | 'random' | 'log' | 'pool' | 'metrics' | 'repository' | 'notify' | 'expiryTime'
>;

export interface ControllersOptions {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  log: Logger;
  registry: Registry;
  /** Id of this replica, for display. */
  replica: string;
  controllers: readonly AnyController[];
  background: readonly Background[];
  /** A verdict that breaks a law of the status fails its run: for development and tests. */
  strict: boolean;
  /** Kinds whose finalizers must all be held by `controllers`. Default: all. */
  kinds?: readonly KindName[];
}

/** The controllers of this replica: they run while it leads, and wait while another replica leads. */
export interface Controllers extends AsyncDisposable {
  readonly isLeader: boolean;
  readonly metrics: ControllerMetrics;
  /** Kinds, their controllers, and what those read and write. */
  describeGraph(): string;
  /** Queues every object again, in the background. */
  resync(): void;
}

/**
 * Starts to campaign for the leadership, and runs the controllers while this replica leads. Disposing drains them and
 * gives the leadership up.
 *
 * @throws Error if the declarations of the controllers contradict each other.
 */
export function startControllers(options: ControllersOptions): Controllers {
  const { store, mirror, clock, random, log, controllers, replica } = options;
  checkGraph(controllers, options.kinds ?? (Object.keys(kinds) as KindName[])); // the keys of `kinds` are the names
  const metrics = controllerMetrics(options.registry);
  unattendedMetric(options.registry, mirror, replica);
  const repositories = new Map<string, Repository>();
  let expiry: (() => number) | undefined;
  // of the replica and not of a term: what a term with a wrong clock wrote is not believed by the next one
  const startExpiry = (): (() => number) => (expiry ??= expiryTime({ mirror, clock, log }));
  void mirror.ready.then(startExpiry, () => undefined);
  const shared: Omit<BackgroundDeps, 'notify' | 'expiryTime'> = {
    store,
    mirror,
    clock,
    random,
    log,
    metrics,
    pool: new PQueue({ concurrency: limits.queue.total }),
    repository: (tenant) => {
      const known = repositories.get(tenant) ?? openRepository(store, tenant, clock);
      repositories.set(tenant, known);
      return known;
    },
  };
  const stop = new AbortController();
  let isLeader = false;
  let loops: readonly ControllerLoop<KindName>[] = [];
  const leading = (is: boolean): void => {
    isLeader = is;
    metrics.leading(is);
  };
  leading(false);

  async function lead(term: Term): Promise<void> {
    await using recorder = new EventRecorder({
      store,
      mirror,
      clock,
      log,
      guards: () => [term.fence],
      onDropped: () => metrics.droppedEvent(),
      onWritten: () => metrics.wrote('events', 'event'),
    });
    const notifier = new Notifier({
      view: (tenant) => mirror.tenant(tenant),
      repository: shared.repository,
      onWritten: () => metrics.wrote('notifications', 'notify'),
    });
    const deps: LoopDeps = {
      ...shared,
      concurrency: limits.queue.concurrency,
      strict: options.strict,
      expiryTime: startExpiry(),
      event: (of, event) => recorder.record(of, event),
      notify: (of, key, notification) => notifier.notify(term.fence, of, key, notification),
    };
    const started = controllers.map((controller) => new ControllerLoop(controller, term, deps));
    const background = options.background.map((work) => runInBackground(work, term, deps));
    for (const loop of started) loop.start();
    loops = started;
    leading(true);
    await aborted(term.signal);
    leading(false);
    loops = [];
    await Promise.all([...background, ...started.map((loop) => loop[Symbol.asyncDispose]())]);
  }

  const candidate = { store, mirror, clock, random, log, name: controllersLead, replica };
  const campaigning = campaign(candidate, lead, stop.signal);
  return {
    metrics,
    get isLeader() {
      return isLeader;
    },
    describeGraph: () => describeGraph(controllers),
    resync() {
      for (const loop of loops) loop.resync();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await campaigning;
    },
  };
}

/** Runs background work; its failure ends neither the term nor the controllers. */
async function runInBackground(work: Background, term: Term, deps: BackgroundDeps): Promise<void> {
  const log = deps.log.child({ background: work.name });
  try {
    await work.run(term, { ...deps, log });
  } catch (error) {
    if (!term.signal.aborted)
      log.error(
        { err: error },
        'Background work of the leader ended by an error, which is a bug: restart this control plane to run it again',
      );
  }
}
