import { pino, type Logger } from 'pino';
import { Registry } from 'prom-client';
import type { AnyController } from '../../../controllers/runtime/graph.ts';
import { startControllers, type Background, type Controllers } from '../../../controllers/runtime/manager.ts';
import { type Mirror } from '../../../store/mirror.ts';
import { startMirror } from '../../../store/store-mirror.ts';
import { openRepository, type Repository } from '../../../store/repo.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Store } from '../../../store/store.ts';
import { uuidv5 } from '../../../store/uuid.ts';
import { CountingStore } from '../../harness/counting-store.ts';
import { FenceCheckingStore } from '../../harness/fence-checking-store.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { LaggingStore } from '../../harness/lagging-store.ts';
import { desiredState } from '../../harness/states.ts';

export const tenant = 'acme';

export interface RigOptions {
  controllers?: readonly AnyController[];
  background?: readonly Background[];
  /** What the controllers see instead of the store itself: one with faults. */
  wrap?: (store: Store) => Store;
  strict?: boolean;
  clock?: FakeClock;
  random?: () => number;
  log?: Logger;
}

/**
 * Controllers on a real store in memory, on a clock that moves when told. Disposing throws if they wrote anything
 * without the fence of their term.
 */
export interface Rig extends AsyncDisposable {
  readonly clock: FakeClock;
  readonly store: CountingStore;
  readonly mirror: Mirror;
  /** Holds the mirror back. */
  readonly lag: Pick<LaggingStore, 'hold' | 'release'>;
  readonly repo: Repository;
  readonly registry: Registry;
  readonly controllers: Controllers;
  /** Another replica of the same controllers on the same store. */
  replica(name: string, controllers: readonly AnyController[], background?: readonly Background[]): Controllers;
  /** Resolves when nothing runs, nothing is written and the mirror has seen everything. Time stands still. */
  rest(): Promise<void>;
  /** Sum of the series of a metric whose labels match. */
  metric(name: string, labels?: Record<string, string>): Promise<number>;
}

export async function openRig(options: RigOptions = {}): Promise<Rig> {
  const clock = options.clock ?? new FakeClock();
  const log = options.log ?? pino({ level: 'silent' });
  const inner = await openSqlite({ path: ':memory:', clock });
  const store = new CountingStore(inner);
  const lag = new LaggingStore(store);
  const mirror = startMirror({ store: lag, clock, log });
  await mirror.ready;
  const registry = new Registry();
  const checked: FenceCheckingStore[] = [];
  const start = (
    name: string,
    metrics: Registry,
    controllers: readonly AnyController[] = [],
    background: readonly Background[] = [],
  ): Controllers => {
    const fenced = new FenceCheckingStore(options.wrap?.(store) ?? store);
    checked.push(fenced);
    return startControllers({
      store: fenced,
      mirror,
      clock,
      random: options.random ?? (() => 0),
      log,
      registry: metrics,
      replica: name,
      controllers,
      background,
      strict: options.strict ?? true,
      kinds: [],
    });
  };
  const controllers = start('first', registry, options.controllers, options.background);
  const started = [controllers];
  const metric = async (name: string, labels: Record<string, string> = {}): Promise<number> => {
    const found = await registry.getSingleMetric(name)?.get();
    const values = found?.values.filter((it) =>
      Object.entries(labels).every(([key, value]) => it.labels[key] === value),
    );
    return (values ?? []).reduce((sum, { value }) => sum + value, 0);
  };
  return {
    clock,
    store,
    mirror,
    lag,
    registry,
    controllers,
    repo: openRepository(store, tenant, clock),
    replica(name, these, background) {
      const made = start(name, new Registry(), these, background);
      started.push(made);
      return made;
    },
    async rest() {
      let before = '';
      for (let round = 0; round < 1000; round++) {
        await settle();
        const runs = await metric('setpoint_reconcile_total');
        const busy = (await metric('setpoint_queue_depth')) + (await metric('setpoint_queue_running'));
        const now = `${runs} ${store.committed} ${store.conflicts} ${await store.revision()} ${mirror.applied}`;
        if (now === before && busy === 0 && mirror.applied >= (await store.revision())) return;
        before = now;
      }
      throw new Error(`It does not come to rest: runs, commits, conflicts, revision and mirror are at ${before}`);
    },
    metric,
    async [Symbol.asyncDispose]() {
      const stopping = Promise.all(started.map((it) => it[Symbol.asyncDispose]()));
      await clock.advance(10_000);
      await stopping;
      await mirror.close();
      await store.close();
      const unfenced = checked.flatMap((it) => it.unfenced);
      if (unfenced.length > 0) throw new Error(`Written without the fence of the term: ${unfenced.join(', ')}`);
    },
  };
}

/** An id that is the same in every run of a test. */
export function id(name: string): string {
  return uuidv5('00000000-0000-4000-8000-000000000000', name);
}

/** Creates a project, which is what the tests of the runtime reconcile. */
export async function createProject(repo: Repository, name: string): Promise<string> {
  const unit = repo.begin();
  unit.create(
    'project',
    id(name),
    desiredState('project', {
      name,
      owner_id: id('owner'),
      default_environment_id: id('environment'),
    }),
  );
  await unit.commit();
  return id(name);
}
