import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plan, planRemoval } from '../../../controllers/rollout/plan.ts';
import type { Rollout, Version } from '../../../controllers/rollout/plan.ts';
import { isDraining, isLive, isReady } from '../../../controllers/rollout/slots.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { Resource } from '../../../store/resource.ts';
import { aServer, object } from '../../harness/objects.ts';
import { serviceSpec } from '../../harness/wire-items.ts';

const owner = aServer();

interface Settings {
  service?: string;
  /** A change replaces the container. */
  mounts?: string;
  /** A change is followed by the running container. */
  digest?: string | undefined;
}

function version(id: string, { service = 'main', mounts = '', digest }: Settings = {}): Version {
  return {
    id,
    owner,
    desired: (slot, restartToken) => ({
      server_id: owner.meta.id,
      project_id: owner.meta.id,
      environment_id: owner.meta.id,
      workload_kind: 'application',
      workload_id: owner.meta.id,
      workload_name: 'db',
      service,
      version: id,
      run: 'running',
      spec: serviceSpec({
        slot,
        ...(restartToken !== undefined && { restart_token: restartToken }),
        ...(digest !== undefined && { image_digest: digest }),
      }),
      spec_hash: `${id}${mounts}`,
    }),
  };
}
const [first, second] = ['0a000000-0000-4000-8000-000000000001', '0a000000-0000-4000-8000-000000000002'].map((id) =>
  version(id),
) as [Version, Version];

/** Instances on a server whose agent carries out one step of one of them at a time. */
class Yard {
  slots: Resource<'assignment'>[] = [];
  /** The most instances that were live at a time, and of these without the ones that only end their connections. */
  most = 0;
  mostServing = 0;
  rollout: Omit<Rollout, 'slots'>;

  constructor(rollout: Omit<Rollout, 'slots'>) {
    this.rollout = rollout;
  }

  step(): boolean {
    const before = JSON.stringify(this.slots);
    for (const action of plan({ ...this.rollout, slots: this.slots })) {
      if (action.do === 'ensure') this.#put(action.id, action.desired);
      const present = this.slots.find(({ meta }) => meta.id === action.id);
      if (action.do === 'stop' && present !== undefined) this.#put(action.id, { ...present.desired, run: 'stopped' });
      if (action.do === 'retire' && present !== undefined) present.meta.deletionRequestedAt = 'now';
    }
    const live = this.slots.filter(isLive);
    this.most = Math.max(this.most, live.length);
    this.mostServing = Math.max(this.mostServing, live.filter((it) => !isDraining(it)).length);
    return before !== JSON.stringify(this.slots);
  }

  /**
   * The agent reports what the instance of that index has come to: one that stops ends its connections unless stable, and
   * one that has stopped stays so.
   */
  report(index: number, isStable: boolean): void {
    const it = this.slots[index];
    if (it === undefined) return;
    if (it.meta.deletionRequestedAt !== undefined) this.slots.splice(index, 1);
    else {
      const isUp = it.desired.run === 'running';
      const hasStopped = it.observed?.phase === 'stopped' && it.observed.observedGeneration === it.meta.generation;
      const isOver = isStable || hasStopped;
      const phase = isUp ? ('running' as const) : isOver ? ('stopped' as const) : ('stopping' as const);
      const draining = phase === 'stopping' && { draining: true };
      const observed = { phase, ready: isUp, stable: isUp && isStable, ...draining, restarts: 0, crash_loop: false };
      it.observed = { ...observed, observedGeneration: it.meta.generation, conditions: [] };
    }
  }

  settle(): void {
    for (let n = 0; n < 200; n++) {
      const isChanged = this.step();
      const before = JSON.stringify(this.slots);
      for (let index = this.slots.length - 1; index >= 0; index--) this.report(index, true);
      if (!isChanged && before === JSON.stringify(this.slots)) return;
    }
    throw new Error('The plan does not settle');
  }

  #put(id: string, desired: DesiredOf<'assignment'>): void {
    const present = this.slots.find(({ meta }) => meta.id === id);
    if (present === undefined) this.slots.push(object('assignment', desired, { id }));
    else if (!isDeepStrictEqual(present.desired, desired)) {
      present.desired = desired;
      present.meta.generation++;
    }
  }
}

const all = (surge: number, replicas: number): Omit<Rollout, 'slots'> => ({
  run: 'running',
  replicas,
  surge,
  exclusive: false,
  restartToken: undefined,
  goal: first,
  mayServe: new Set([first.id, second.id]),
});

describe('a rollout without surge', () => {
  it('ends the older instances before one of the new version starts', () => {
    const yard = new Yard(all(0, 1));
    yard.settle();
    yard.rollout = { ...yard.rollout, goal: second };
    yard.step();
    expect(yard.slots.map(({ desired }) => `${desired.version} ${desired.run}`)).toEqual([`${first.id} stopped`]);
    yard.step();
    expect(yard.slots).toHaveLength(1);
    yard.report(0, true);
    yard.step();
    expect(yard.slots.map(({ desired }) => `${desired.version} ${desired.run}`)).toEqual([
      `${first.id} stopped`,
      `${second.id} running`,
    ]);
  });

  it('waits for an instance whose end was not reported, however long that takes', () => {
    const yard = new Yard(all(0, 1));
    yard.settle();
    yard.rollout = { ...yard.rollout, goal: second };
    for (let n = 0; n < 50; n++) yard.step();
    expect(yard.slots.filter(({ desired }) => desired.version === second.id)).toEqual([]);
  });
});

describe.each([0, 1, 2, 5])('a rollout with a surge of %d', (surge) => {
  const moves = fc.array(
    fc.oneof(
      fc.constant('step' as const),
      fc.record({ index: fc.nat(5), isStable: fc.boolean() }),
      fc.record({ goal: fc.constantFrom(first, second, undefined) }),
      fc.record({ run: fc.constantFrom('running' as const, 'stopped' as const) }),
      fc.record({ restartToken: fc.constantFrom('a', 'b', undefined) }),
    ),
    { maxLength: 60 },
  );

  it('never has more live instances than it may, and ends with what shall run', () => {
    fc.assert(
      fc.property(moves, fc.integer({ min: 0, max: 3 }), (given, replicas) => {
        const yard = new Yard(all(surge, replicas));
        for (const move of given) {
          if (move === 'step') yard.step();
          else if ('index' in move) yard.report(move.index, move.isStable);
          else yard.rollout = { ...yard.rollout, ...move };
        }
        yard.settle();
        if (surge === 0) expect(yard.most).toBeLessThanOrEqual(replicas);
        expect(yard.mostServing).toBeLessThanOrEqual(replicas + surge);
        expect(yard.most).toBeLessThanOrEqual(2 * replicas + surge);
        const { goal, run } = yard.rollout;
        const live = yard.slots.filter(isLive);
        if (run === 'stopped') expect(live).toEqual([]);
        else if (goal !== undefined) {
          expect(live.filter(isReady)).toHaveLength(replicas);
          expect(live.every(({ desired }) => desired.version === goal.id)).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('a running service whose instances have to be replaced', () => {
  /** Its containers, which run on while the agent has not yet replaced them. */
  class Served extends Yard {
    readonly up = new Set<string>();

    override step(): boolean {
      const before = new Map(this.slots.map(({ meta, desired }) => [meta.id, desired]));
      const isChanged = super.step();
      for (const { meta, desired } of this.slots)
        if (!isSameContainer(before.get(meta.id), desired)) this.up.delete(meta.id);
      return isChanged;
    }

    override report(index: number, isStable: boolean): void {
      super.report(index, isStable);
      const it = this.slots[index];
      if (it !== undefined && isReady(it)) this.up.add(it.meta.id);
    }
  }

  const isSameContainer = (a: DesiredOf<'assignment'> | undefined, b: DesiredOf<'assignment'>): boolean =>
    a?.run === b.run && a.spec_hash === b.spec_hash && isDeepStrictEqual(tokenOf(a), tokenOf(b));
  const tokenOf = ({ spec }: DesiredOf<'assignment'>) => (spec.type === 'service' ? spec.restart_token : undefined);

  const moves = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('step' as const) },
      { weight: 4, arbitrary: fc.record({ index: fc.nat(2), isStable: fc.boolean() }) },
      fc.record({ mounts: fc.constantFrom('', ' /data', ' /cache') }),
      fc.record({ digest: fc.constantFrom(undefined, 'sha256:a') }),
      fc.record({ restartToken: fc.constantFrom('a', 'b', undefined) }),
    ),
    { maxLength: 60 },
  );

  it('keeps as many as its replicas up, or one less without a surge, while mounts and settings change and restarts are asked for', () => {
    fc.assert(
      fc.property(moves, fc.integer({ min: 1, max: 3 }), fc.constantFrom(0, 1, 2, 4), (given, replicas, surge) => {
        const yard = new Served(all(surge, replicas));
        yard.settle();
        let settings: Settings = {};
        for (const move of given) {
          if (move === 'step') yard.step();
          else if ('index' in move) yard.report(move.index, move.isStable);
          else if ('restartToken' in move) yard.rollout = { ...yard.rollout, ...move };
          else {
            settings = { ...settings, ...move };
            yard.rollout = { ...yard.rollout, goal: version(first.id, settings) };
          }
          expect(yard.up.size).toBeGreaterThanOrEqual(surge === 0 ? replicas - 1 : replicas);
        }
        yard.settle();
        expect(yard.mostServing).toBeLessThanOrEqual(replicas + surge);
        const { goal, restartToken } = yard.rollout;
        const live = yard.slots.filter(isLive);
        expect(live).toHaveLength(replicas);
        for (const { desired } of live) {
          const { slot } = desired.spec as { slot: number }; // all are services
          expect(desired).toMatchObject({ ...goal?.desired(slot, restartToken) });
        }
      }),
      { numRuns: 500 },
    );
  });

  it('replaces one for other mounts only while one that has stayed ready with them covers it', () => {
    const yard = new Yard(all(1, 3));
    yard.settle();
    yard.rollout = { ...yard.rollout, goal: version(first.id, { mounts: ' /data' }) };
    const replaced = () => yard.slots.filter(({ desired }) => desired.spec_hash !== first.id).length;
    yard.step();
    expect(replaced()).toBe(1);
    yard.report(3, false);
    expect(yard.step()).toBe(false);
    yard.report(3, true);
    yard.step();
    expect(replaced()).toBe(2);
    yard.report(0, false);
    expect(yard.step()).toBe(false);
    yard.report(0, true);
    yard.step();
    expect(replaced()).toBe(3);
  });

  it('gives other mounts at once to those that are known not to be ready', () => {
    const yard = new Yard(all(1, 3));
    yard.step();
    for (const it of yard.slots)
      it.observed = {
        phase: 'failed',
        ready: false,
        stable: false,
        restarts: 0,
        crash_loop: false,
        observedGeneration: 1,
        conditions: [],
      };
    yard.rollout = { ...yard.rollout, goal: version(first.id, { mounts: ' /data' }) };
    yard.step();
    expect(new Set(yard.slots.map(({ desired }) => desired.spec_hash))).toEqual(new Set([`${first.id} /data`]));
  });

  it.each([0, 1])(
    'runs what has come to its end once more when it is asked to, and nothing beside it: surge %d',
    (surge) => {
      const yard = new Yard(all(surge, 2));
      yard.step();
      for (const it of yard.slots)
        it.observed = {
          phase: 'succeeded',
          ready: false,
          stable: false,
          restarts: 0,
          crash_loop: false,
          observedGeneration: 1,
          conditions: [],
        };
      expect(yard.step()).toBe(false);
      yard.rollout = { ...yard.rollout, restartToken: 'again' };
      yard.step();
      const tokens = yard.slots.map(({ desired: { spec } }) => spec.type === 'service' && spec.restart_token);
      expect(tokens).toEqual(['again', 'again']);
    },
  );
});

describe('an instance of another version than the goal', () => {
  const doneTo = (yard: Yard) =>
    plan({ ...yard.rollout, slots: yard.slots }).filter(({ id }) => id === yard.slots[0]!.meta.id);

  it('stays while it is ready and nothing covers it, also if its version may not serve any more', () => {
    const yard = new Yard({ ...all(1, 1), goal: second });
    yard.settle();
    yard.rollout = { ...yard.rollout, goal: first, mayServe: new Set([first.id]) };
    expect(doneTo(yard)).toEqual([]);
    yard.step();
    yard.report(1, true);
    expect(doneTo(yard)).toEqual([{ do: 'retire', id: yard.slots[0]!.meta.id }]);
  });

  it('stays while it becomes ready if its version may serve, and goes at once if not', () => {
    const yard = new Yard({ ...all(1, 1), goal: second });
    yard.step();
    yard.rollout = { ...yard.rollout, goal: first };
    expect(doneTo(yard)).toEqual([]);
    yard.rollout = { ...yard.rollout, mayServe: new Set([first.id]) };
    expect(doneTo(yard)).toEqual([{ do: 'retire', id: yard.slots[0]!.meta.id }]);
  });
});

describe('the instances of a service', () => {
  it('have ids of their own for each service of a version', () => {
    const rollout = { ...all(1, 1), goal: version(first.id, { service: 'cache' }) };
    expect(plan({ ...rollout, slots: [] })).toMatchObject([
      { do: 'ensure', id: assignmentId.slot(first.id, 0, 'cache') },
    ]);
    expect(assignmentId.slot(first.id, 0, 'cache')).not.toBe(assignmentId.slot(first.id, 0));
  });

  it('are all removed with their workload', () => {
    const yard = new Yard(all(1, 3));
    yard.settle();
    expect(planRemoval(yard.slots)).toEqual(yard.slots.map(({ meta }) => ({ do: 'retire', id: meta.id })));
  });
});
