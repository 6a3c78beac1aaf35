import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { instanceDesired } from '../../../controllers/application/instance.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { servicesOf } from '../../../controllers/rollout/services.ts';
import { plan } from '../../../controllers/application/plan.ts';
import { isChanging, stateOf } from '../../../controllers/application/states.ts';
import type { World } from '../../../controllers/application/world.ts';
import { healthOf } from '../../../controllers/rollout/health.ts';
import { isLive, isReady, isStable, isWanted, slotOf } from '../../../controllers/rollout/slots.ts';
import type { Assignment } from '../../../controllers/rollout/slots.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import type { Resource } from '../../../store/resource.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';

type Slot = Resource<'assignment'>;
type DeploymentPhase = ObservedOf<'deployment'>['phase'];

const reported = (overrides: Partial<ObservedOf<'assignment'>> = {}): ObservedOf<'assignment'> => ({
  phase: 'running',
  ready: false,
  stable: false,
  restarts: 0,
  crash_loop: false,
  ...overrides,
});
/** What the agent says of an instance that is to run. */
const reports = {
  unready: reported(),
  ready: reported({ ready: true }),
  stable: reported({ ready: true, stable: true }),
  crashed: reported({ crash_loop: true, phase: 'starting' }),
  preparing: reported({ phase: 'preparing' }),
  waiting: reported({ phase: 'starting', error: { code: 'volume_in_use', message: 'Another instance has it' } }),
};
type Report = keyof typeof reports;

function tokenOf({ desired: { spec } }: Slot): string | undefined {
  return spec.type === 'service' ? spec.restart_token : undefined;
}

/** A world that carries out its own plan, as store and agent would. */
class Town {
  app = anApplication();
  readonly server = aServer();
  readonly deployments: Resource<'deployment'>[] = [];
  slots: Slot[] = [];
  mounted: Resource<'volume'>[] = [];

  deploy(phase: DeploymentPhase = 'deploying'): void {
    const number = this.deployments.length + 1;
    for (const it of this.deployments) {
      if (['queued', 'building', 'deploying'].includes(it.observed?.phase ?? 'queued'))
        this.setPhase(it.desired.number, 'superseded');
    }
    this.deployments.push(aDeployment(this.app, { number }, { phase, image: 'example/web:1' }));
    this.app = {
      ...this.app,
      desired: { ...this.app.desired, run: 'running', deployment_id: this.deployments.at(-1)!.meta.id },
    };
  }

  setPhase(number: number, phase: DeploymentPhase): void {
    const it = this.deployments[number - 1]!;
    this.deployments[number - 1] = { ...it, observed: { ...it.observed!, phase } };
  }

  set(change: Partial<DesiredOf<'application'>>): void {
    this.app = { ...this.app, desired: { ...this.app.desired, ...change } };
  }

  world(): World {
    return {
      app: this.app,
      target: this.deployments.find((it) => it.meta.id === this.app.desired.deployment_id),
      serving: this.deployments.findLast((it) => it.observed?.phase === 'succeeded'),
      slots: this.slots,
      volumes: [],
      server: this.server,
      unreadyTooLong: false,
      mounted: this.mounted,
    };
  }

  /** Carries out the plan once; answers how many writes that took. */
  step(): number {
    let writes = 0;
    for (const action of plan(this.world())) {
      const index = this.slots.findIndex((it) => it.meta.id === action.id);
      const present = this.slots[index];
      if (action.do === 'ensure') {
        if (present === undefined) {
          this.slots.push(object('assignment', action.desired, { id: action.id }));
          writes++;
        } else if (!isDeepStrictEqual(present.desired, object('assignment', action.desired).desired)) {
          this.slots[index] = {
            ...present,
            desired: object('assignment', action.desired).desired,
            meta: { ...present.meta, generation: present.meta.generation + 1 },
          };
          writes++;
        }
      } else if (present !== undefined && action.do === 'stop' && present.desired.run !== 'stopped') {
        this.slots[index] = {
          ...present,
          desired: { ...present.desired, run: 'stopped' },
          meta: { ...present.meta, generation: present.meta.generation + 1 },
        };
        writes++;
      } else if (present !== undefined && action.do === 'retire' && present.meta.deletionRequestedAt === undefined) {
        this.slots[index] = { ...present, meta: { ...present.meta, deletionRequestedAt: 'now' } };
        writes++;
      }
    }
    return writes;
  }

  /** The agent does what it is told with one instance. */
  agent(index: number, report: Report): void {
    const it = this.slots[index];
    if (it === undefined) return;
    if (it.meta.deletionRequestedAt !== undefined) {
      this.slots.splice(index, 1);
      return;
    }
    const observed = it.desired.run === 'stopped' ? reported({ phase: 'stopped' }) : reports[report];
    this.slots[index] = { ...it, observed: { ...observed, observedGeneration: it.meta.generation, conditions: [] } };
  }

  settle(report: Report = 'stable'): void {
    for (let i = 0; i < 200; i++) {
      const writes = this.step();
      const before = JSON.stringify(this.slots);
      for (let index = this.slots.length - 1; index >= 0; index--) this.agent(index, report);
      if (writes === 0 && before === JSON.stringify(this.slots)) return;
    }
    throw new Error('The plan does not settle');
  }

  of(number: number): Slot[] {
    return this.slots.filter((it) => it.desired.version === this.deployments[number - 1]!.meta.id);
  }
}

describe('the plan of an application', () => {
  it('starts every instance of a first deployment and then is quiet', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    expect(town.of(1).filter(isReady)).toHaveLength(3);
    expect(town.step()).toBe(0);
  });

  it('replaces instances one by one and stops an older one only when a new one stays ready', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.deploy();
    town.step();
    expect(town.of(2)).toHaveLength(1);
    expect(town.of(1).filter(isWanted)).toHaveLength(3);
    town.agent(town.slots.indexOf(town.of(2)[0]!), 'stable');
    town.step();
    expect(town.of(1).filter(isWanted)).toHaveLength(2);
    town.settle();
    expect(town.of(2).filter(isReady)).toHaveLength(3);
    expect(town.of(1).filter(isWanted)).toHaveLength(0);
    town.setPhase(2, 'succeeded');
    town.settle();
    expect(town.of(1)).toHaveLength(0);
  });

  describe.each([1, 2, 3])('a rollout over %i ready instances', (replicas) => {
    const successors = (...states: Report[]): Town => {
      const town = new Town();
      town.set({ replicas });
      town.deploy();
      town.settle();
      town.setPhase(1, 'succeeded');
      town.deploy();
      for (const [index, state] of states.entries()) {
        town.step();
        // The older one that it replaces ends, which lets the next one start.
        for (const it of town.of(1)) if (!isWanted(it)) town.agent(town.slots.indexOf(it), 'stable');
        town.step();
        const next = town.of(2)[index];
        if (next !== undefined) town.agent(town.slots.indexOf(next), state);
      }
      town.step();
      return town;
    };
    const all = (state: Report): Report[] => Array.from({ length: replicas }, () => state);

    it.each<[string, Report[], number]>([
      ['nobody has answered', all('unready'), replicas],
      ['the first one has answered', ['ready'], replicas],
      ['the first one stays', ['stable'], replicas - 1],
      ['the first one keeps exiting', ['crashed'], replicas],
      ['the first one stays and the next one has answered', ['stable', 'ready'], replicas - 1],
      ['all stay', all('stable'), 0],
    ])('when %s: %o leaves %i older', (_when, states, older) => {
      expect(
        successors(...states)
          .of(1)
          .filter(isWanted),
      ).toHaveLength(older);
    });

    it('waits until the first new one stays, and then goes on to its end', () => {
      const town = successors(...all('ready'));
      expect(town.of(2).filter(isReady)).toHaveLength(1);
      expect(town.step()).toBe(0);
      town.settle('stable');
      expect(town.of(1).filter(isWanted)).toEqual([]);
    });
  });

  it('loses nothing when the new revision answers and then keeps exiting', () => {
    const town = new Town();
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.deploy();
    for (const report of ['ready', 'unready', 'ready', 'crashed'] as const) {
      town.step();
      town.agent(town.slots.indexOf(town.of(2)[0]!), report);
      town.step();
      expect(town.of(1).filter(isReady)).toHaveLength(1);
    }
    town.setPhase(2, 'failed');
    town.settle();
    expect(town.of(1).filter(isReady)).toHaveLength(1);
    expect(town.of(2)).toEqual([]);
  });

  it('returns to the last success when the new revision fails, with the same records', () => {
    const town = new Town();
    town.set({ replicas: 2 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    const ids = town.of(1).map((it) => it.meta.id);
    town.deploy();
    town.step();
    town.agent(town.slots.indexOf(town.of(2)[0]!), 'stable');
    town.step();
    expect(town.of(1).filter(isWanted)).toHaveLength(1);
    town.setPhase(2, 'failed');
    town.settle();
    expect(town.of(2)).toHaveLength(0);
    expect(
      town
        .of(1)
        .filter(isReady)
        .map((it) => it.meta.id),
    ).toEqual(ids);
  });

  it('stops without creating, and starts the same instances again', () => {
    const town = new Town();
    town.set({ replicas: 2 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    const ids = town.slots.map((it) => it.meta.id);
    town.set({ run: 'stopped' });
    expect(plan(town.world()).every((it) => it.do === 'stop')).toBe(true);
    town.settle();
    expect(stateOf(town.world()).phase).toBe('stopped');
    town.set({ run: 'running' });
    town.settle();
    expect(town.slots.filter(isReady).map((it) => it.meta.id)).toEqual(ids);
  });

  it('starts nothing that was stopped while what was asked for since comes, or has failed', () => {
    const town = new Town();
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.set({ run: 'stopped' });
    town.settle();
    town.deploy('building');
    town.set({ starts_from: 2 });
    expect(town.step()).toBe(0);
    town.setPhase(2, 'deploying');
    town.step();
    expect(town.slots.filter(isWanted).map(({ desired }) => desired.version)).toEqual([town.deployments[1]!.meta.id]);
    town.setPhase(2, 'failed');
    town.settle();
    expect(town.slots.filter(isWanted)).toEqual([]);
    // a start runs what served
    town.set({ starts_from: undefined });
    town.settle();
    expect(town.of(1).filter(isReady)).toHaveLength(1);
  });

  describe('where it writes to a volume', () => {
    const replaced = (): Town => {
      const town = new Town();
      town.set({ mounts: [{ volume_id: randomUUID(), path: '/data', read_only: false }] });
      town.deploy();
      town.settle();
      town.setPhase(1, 'succeeded');
      town.deploy();
      town.step();
      return town;
    };
    const report = (town: Town, it: Report): void => town.agent(town.slots.indexOf(town.of(2)[0]!), it);

    it('ends the older instance once the image of the new one is there, and not before', () => {
      const town = replaced();
      for (const one of [undefined, 'preparing'] as const) {
        expect([town.of(1).filter(isWanted).length, town.of(2).filter(isWanted).length]).toEqual([1, 1]);
        if (one !== undefined) report(town, one);
        town.step();
      }
      expect(town.of(1).filter(isReady)).toHaveLength(1);
      report(town, 'waiting');
      expect(healthOf(town.slots, town.deployments[1]!.meta.id, 1)).toMatchObject({ isComing: false, failures: [] });
      town.step();
      expect([town.of(1).filter(isWanted).length, town.of(2).filter(isWanted).length]).toEqual([0, 1]);
      town.settle();
      town.setPhase(2, 'succeeded');
      town.settle();
      expect([town.of(1).length, town.of(2).filter(isReady).length]).toEqual([0, 1]);
    });

    it('leaves the older instance alone where the new one gets no image', () => {
      const town = replaced();
      const [{ meta }] = town.of(1) as [Slot];
      report(town, 'preparing');
      town.step();
      town.setPhase(2, 'failed');
      town.settle();
      expect(town.slots.map((it) => [it.meta.id, it.meta.generation])).toEqual([[meta.id, meta.generation]]);
    });

    it('returns to the older instance where the new one fails after that', () => {
      const town = replaced();
      report(town, 'waiting');
      town.step();
      report(town, 'crashed');
      town.setPhase(2, 'failed');
      town.settle();
      expect([town.of(1).filter(isReady).length, town.of(2)]).toEqual([1, []]);
    });
  });

  it('makes no instance before its volume is copied, and stops and leaves alone what runs', () => {
    const town = new Town();
    const copyFrom = { docker_volume: 'blog_data', containers: [] };
    const volume = object('volume', desiredState('volume', { copy_from: copyFrom }));
    town.mounted = [volume];
    town.deploy();
    expect([town.step(), town.slots]).toEqual([0, []]);
    town.mounted = [{ ...volume, observed: { phase: 'bound', copied: true, observedGeneration: 1, conditions: [] } }];
    town.settle();
    expect(town.slots).toHaveLength(1);
    town.mounted = [volume];
    expect(town.step()).toBe(0);
    town.set({ run: 'stopped' });
    expect(town.step()).toBe(1);
    expect(town.slots.map(({ desired }) => desired.run)).toEqual(['stopped']);
  });

  it('scales down by stopping the highest slots and up by starting them again', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.set({ replicas: 1 });
    town.settle();
    expect(town.slots.filter(isReady).map((it) => it.meta.id)).toEqual([
      assignmentId.slot(town.deployments[0]!.meta.id, 0),
    ]);
    expect(town.slots).toHaveLength(3);
    town.set({ replicas: 3 });
    town.settle();
    expect(town.slots.filter(isReady)).toHaveLength(3);
  });

  it('restarts one ready instance at a time, while another one covers it', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.set({ restart_token: 'again' });
    const renewed = (): Assignment[] =>
      town.slots.filter((it) => it.desired.spec.type === 'service' && it.desired.spec.restart_token === 'again');
    town.step();
    expect(renewed().map(slotOf)).toEqual([3]);
    expect(town.slots.filter(isReady)).toHaveLength(3);
    expect(town.step()).toBe(0);
    town.agent(town.slots.indexOf(renewed()[0] as Slot), 'ready');
    town.step();
    expect(renewed().map(slotOf)).toEqual([0, 3]);
    expect(town.slots.filter(isReady)).toHaveLength(3);
    expect(stateOf(town.world())).toMatchObject({ ready: 'true', reason: 'Covered' });
    expect(town.step()).toBe(0);
    town.agent(town.slots.indexOf(renewed()[0] as Slot), 'unready');
    expect(stateOf(town.world())).toMatchObject({ ready: 'true', reason: 'Covered' });
    expect(isChanging(town.world())).toBe(true);
    expect(town.step()).toBe(0);
    town.settle();
    expect(renewed()).toHaveLength(4);
    expect(town.slots.filter(isWanted).map(slotOf)).toEqual([0, 1, 2]);
    expect(stateOf(town.world())).toMatchObject({ ready: 'true', reason: 'Running' });
  });

  it('scales down only as far as those that remain are ready', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.agent(0, 'unready');
    town.set({ replicas: 1 });
    town.step();
    expect(town.slots.filter(isWanted).map(slotOf)).toEqual([0, 1]);
    town.agent(0, 'ready');
    town.step();
    expect(town.slots.filter(isWanted).map(slotOf)).toEqual([0]);
  });

  it('gives other mounts to one ready instance at a time, once the one that covers it stays', () => {
    const town = new Town();
    town.set({ replicas: 3 });
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    expect(isChanging(town.world())).toBe(false);
    town.set({ mounts: [{ volume_id: randomUUID(), path: '/data', read_only: true }] });
    const mounting = () =>
      town.slots.filter(({ desired: { spec } }) => spec.type === 'service' && spec.mounts.length > 0);
    for (const slot of [3, 0, 1, 2]) {
      expect(isChanging(town.world())).toBe(true);
      town.step();
      expect(mounting().map(slotOf)).toContain(slot);
      const last = mounting().find((it) => slotOf(it) === slot)!;
      town.agent(town.slots.indexOf(last), 'ready');
      if (slot < 2 || slot === 3) expect(town.step()).toBe(0);
      town.agent(town.slots.indexOf(mounting().find((it) => slotOf(it) === slot)!), 'stable');
    }
    town.settle();
    expect(isChanging(town.world())).toBe(false);
    expect(town.slots.filter(isWanted).map(slotOf)).toEqual([0, 1, 2]);
  });

  it('believes no report that is older than what it wants', () => {
    const town = new Town();
    town.deploy();
    town.settle();
    town.setPhase(1, 'succeeded');
    town.set({ run: 'stopped' });
    town.settle();
    town.set({ run: 'running' });
    town.step();
    town.set({ run: 'stopped' });
    town.step();
    expect(town.slots.filter(isLive)).toHaveLength(1);
    expect(stateOf(town.world()).phase).toBe('running');
  });

  it('removes every instance of a deleted application and nothing while its server is unknown', () => {
    const town = new Town();
    town.deploy();
    town.settle();
    expect(plan({ ...town.world(), server: undefined })).toEqual([]);
    town.app = { ...town.app, meta: { ...town.app.meta, deletionRequestedAt: 'now' } };
    town.settle();
    expect(town.slots).toEqual([]);
  });

  it('gives the same hash to the same instance whatever changes around it', () => {
    const town = new Town();
    town.deploy();
    const deployment = town.deployments[0]!;
    const [service] = servicesOf(town.app, deployment);
    const input = { app: town.app, deployment, service: service!, slot: 0, restartToken: undefined };
    const plain = instanceDesired({ ...input, server: town.server });
    const changed = instanceDesired({ ...input, server: aServer({ direct_ports_enabled: true }), restartToken: 'x' });
    expect(changed.spec_hash).toBe(plain.spec_hash);
    expect(instanceDesired({ ...input, server: town.server, slot: 1 }).spec_hash).not.toBe(plain.spec_hash);
  });
});

describe('any sequence of deployments, failures, scalings and agent answers', () => {
  const event = fc.oneof(
    fc.record({ do: fc.constant('deploy' as const) }),
    fc.record({ do: fc.constant('end' as const), phase: fc.constantFrom('succeeded', 'failed', 'cancelled') }),
    fc.record({ do: fc.constant('scale' as const), replicas: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ do: fc.constant('run' as const), run: fc.constantFrom('running', 'stopped') }),
    fc.record({ do: fc.constant('restart' as const), token: fc.string({ minLength: 1, maxLength: 3 }) }),
    fc.record({
      do: fc.constant('agent' as const),
      index: fc.nat(8),
      report: fc.constantFrom('unready', 'ready', 'stable', 'crashed'),
    }),
    fc.record({ do: fc.constant('plan' as const) }),
  );

  it('never starts beyond one surge, never stops what nothing covers, and settles', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const town = new Town();
        for (const it of events) {
          if (it.do === 'deploy') town.deploy();
          else if (it.do === 'end') endTarget(town, it.phase);
          else if (it.do === 'scale') town.set({ replicas: it.replicas });
          else if (it.do === 'run') town.set({ run: it.run as 'running' | 'stopped' });
          else if (it.do === 'restart') town.set({ restart_token: it.token });
          else if (it.do === 'agent') town.agent(it.index % Math.max(1, town.slots.length), it.report as Report);
          else checkedStep(town);
        }
        if (town.world().target?.observed?.phase === 'deploying') endTarget(town, 'succeeded');
        town.settle();
        expect(town.step()).toBe(0);
        const { serving } = town.world();
        const wanted = town.app.desired.run === 'running' && serving !== undefined ? town.app.desired.replicas : 0;
        expect(town.slots.filter(isReady)).toHaveLength(wanted);
        expect(town.slots.filter(isReady).every((slot) => slot.desired.version === serving?.meta.id)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  function endTarget(town: Town, phase: DeploymentPhase): void {
    const target = town.world().target;
    if (target?.observed?.phase === 'deploying') town.setPhase(target.desired.number, phase);
  }

  function checkedStep(town: Town): void {
    const { replicas, run } = town.app.desired;
    const live = town.slots.filter(isLive);
    const liveBefore = live.length;
    const readyBefore = town.slots.filter(isReady).length;
    const wantedBefore = new Set(town.slots.filter(isWanted).map((it) => it.meta.id));
    const tokensBefore = new Map(town.slots.map((it) => [it.meta.id, tokenOf(it)]));
    const areReady = new Set(town.slots.filter(isReady).map((it) => it.meta.id));
    town.step();
    const started = town.slots.filter((it) => isWanted(it) && !wantedBefore.has(it.meta.id));
    const startedFresh = started.filter((it) => !live.some((old) => old.meta.id === it.meta.id));
    if (startedFresh.length > 0) expect(liveBefore + startedFresh.length).toBeLessThanOrEqual(replicas + 1);
    if (run === 'stopped') expect(started).toEqual([]);
    const readyAfter = town.slots.filter(isReady).length;
    const restarted = town.slots.filter(
      (it) => areReady.has(it.meta.id) && isWanted(it) && tokensBefore.get(it.meta.id) !== tokenOf(it),
    ).length;
    expect(restarted).toBeLessThanOrEqual(1);
    const { target } = town.world();
    const older = othersThan(town, target?.meta.id).filter((it) => areReady.has(it.meta.id));
    const isProven = town.slots.some((it) => it.desired.version === target?.meta.id && isStable(it));
    if (run === 'running' && target?.observed?.phase === 'deploying' && older.length > 0 && !isProven)
      expect(older.some((it) => isReady(town.slots.find(({ meta }) => meta.id === it.meta.id)!))).toBe(true);
    if (run === 'running' && town.world().serving !== undefined)
      expect(readyAfter).toBeGreaterThanOrEqual(Math.min(readyBefore, replicas));
  }

  function othersThan(town: Town, target: string | undefined): Slot[] {
    return town.slots.filter((it) => it.desired.version !== target);
  }
});
