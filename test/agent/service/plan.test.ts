import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { condemn, imageKey } from '../../../agent/service/drift.ts';
import type { Failure, Memory } from '../../../agent/service/memory.ts';
import { blankMemory, remember, settingsOf } from '../../../agent/service/memory.ts';
import type { Actual } from '../../../agent/engine/observer.ts';
import type { Action, World } from '../../../agent/service/plan.ts';
import { plan } from '../../../agent/service/plan.ts';
import type { ServiceItem } from '../../../agent/service/memory.ts';
import type { ContainerDetail, ContainerState } from '../../../agent/runtime/runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { nameOf, network, service } from '../agent-world.ts';

const now = { monotonic: 1_000_000, wall: new Date('2030-01-01T00:00:00Z') };
const imageId = 'sha256:web';

function desired(changes: Parameters<typeof service>[0] = {}, spec: Parameters<typeof service>[1] = {}): ServiceItem {
  return service({ id: '7c000000-0000-4000-8000-000000000000', ...changes }, spec) as ServiceItem;
}

function actual(item: ServiceItem, changes: Partial<ContainerDetail> = {}, origin: Actual['origin'] = 'made'): Actual {
  const detail: ContainerDetail = {
    id: 'c1',
    name: nameOf(item),
    labels: {
      [labels.assignment]: item.id,
      [labels.specHash]: item.spec_hash,
      ...(item.spec.restart_token === undefined ? {} : { [labels.restartToken]: item.spec.restart_token }),
    },
    state: 'running',
    imageId,
    env: [...Object.entries(item.spec.configuration?.env ?? {}).map(([key, value]) => `${key}=${value}`), 'PATH=/bin'],
    entrypoint: [],
    command: item.spec.command ?? ['serve'],
    exitCode: undefined,
    oomKilled: false,
    restartCount: 0,
    startedAt: '2029-12-31T23:00:00Z',
    finishedAt: '',
    addresses: { [network]: '10.0.0.2' },
    networks: item.spec.networks,
    mounts: [],
    pid: 1,
    memoryBytes: item.spec.limits.memory_bytes ?? 0,
    nanoCpus: item.spec.limits.nano_cpus ?? 0,
    processes: 4096,
    oomScoreAdj: 500,
    shmBytes: 64 * 1024 * 1024,
    stopSignal: '',
    user: '',
    readOnlyRoot: false,
    exposed: [],
    capabilities: { add: [], drop: ['MKNOD', 'NET_RAW'] },
    ...changes,
  };
  const { id, name, labels: ownLabels, state, imageId: image } = detail;
  return { container: { id, name, labels: ownLabels, state, imageId: image }, detail, origin };
}

function failed(changes: Partial<Failure> = {}): Failure {
  const until = now.monotonic + 5;
  return { step: 'create', code: 'image_not_found', message: '', final: true, tries: 1, until, ...changes };
}

function world(changes: Partial<World> & { desired: World['desired'] }): World {
  return {
    tombstone: undefined,
    complete: false,
    actual: [],
    memory: blankMemory,
    networkReady: true,
    ready: false,
    isFollowed: true,
    withdrawn: new Set(),
    drains: new Map(),
    mayWrite: true,
    can: { restart: true, hold: true },
    now,
    ...changes,
  };
}

function knowing(item: ServiceItem, changes: Partial<Memory> = {}): Memory {
  return { ...blankMemory, image: { id: imageId, digest: imageId, of: imageKey(item) }, ...changes };
}

describe('without a container', () => {
  const item = desired();
  test('image, network and creation follow one after the other', () => {
    expect(plan(world({ desired: item, networkReady: false }))).toEqual({ do: 'resolveImage' });
    expect(plan(world({ desired: item, memory: knowing(item), networkReady: false }))).toEqual({ do: 'ensureNetwork' });
    expect(plan(world({ desired: item, memory: knowing(item) }))).toEqual({ do: 'create', name: nameOf(item) });
  });

  test('a failed step waits for its time', () => {
    const failure = failed();
    expect(plan(world({ desired: item, memory: knowing(item, { failure }) }))).toEqual({
      do: 'wait',
      until: failure.until,
    });
    const over = { ...failure, until: now.monotonic };
    expect(plan(world({ desired: item, memory: knowing(item, { failure: over }) }))).toMatchObject({ do: 'create' });
  });

  test('a stopped service needs nothing', () => {
    expect(plan(world({ desired: desired({ run: 'stopped' }) }))).toBeUndefined();
  });
});

describe('with a container', () => {
  const item = desired();
  const table: [string, Partial<ContainerDetail>, Partial<World>, Action | undefined][] = [
    ['a created one is started', { state: 'created', startedAt: '' }, {}, { do: 'start', id: 'c1' }],
    ['a paused one goes on', { state: 'paused' }, {}, { do: 'unpause', id: 'c1' }],
    ['a running one is left alone', {}, {}, undefined],
    [
      'a ready one is entrusted to the engine',
      {},
      { ready: true },
      { do: 'setRestart', id: 'c1', restart: 'unless-stopped' },
    ],
    ['an exited one is started', { state: 'exited', exitCode: 1 }, {}, { do: 'start', id: 'c1' }],
    ['a restarting one is the engine’s affair at first', { state: 'restarting' }, {}, undefined],
  ];
  test.each(table)('%s', (_, changes, more, action) => {
    expect(plan(world({ desired: item, memory: knowing(item), actual: [actual(item, changes)], ...more }))).toEqual(
      action,
    );
  });

  describe('on an engine that cannot do everything', () => {
    const exited = [actual(item, { state: 'exited', exitCode: 1 })];
    const step = (can: World['can'], more: Partial<World>): Action | undefined =>
      plan(world({ desired: item, memory: knowing(item), can, ...more }));

    test('an exited one is replaced where it cannot be started again, after the same delay', () => {
      const can = { restart: false, hold: true };
      expect(step(can, { actual: exited })).toEqual({ do: 'remove', id: 'c1', again: true });
      const memory = knowing(item, { startNotBefore: now.monotonic + 5 });
      expect(step(can, { actual: exited, memory })).toEqual({ do: 'wait', until: now.monotonic + 5 });
      expect(step(can, { actual: [actual(item, { state: 'created', startedAt: '' })] })).toMatchObject({ do: 'start' });
      expect(step(can, { actual: [] })).toMatchObject({ do: 'create' });
    });

    test('one that ended for good is not replaced', () => {
      const once = desired({}, { restart_policy: 'no' });
      const before = { exits: 0, quickExits: 0, ends: [] };
      const end = { container: 'c1', startedAt: '', code: 0, outOfMemory: false, byEngine: false };
      const exit = { ...end, series: '', before };
      const there = [actual(once, { state: 'exited', exitCode: 0 })];
      const ended = { desired: once, actual: there, memory: knowing(once, { exit }) };
      for (const restart of [true, false]) expect(step({ restart, hold: true }, ended)).toBeUndefined();
    });

    test('a ready one is not entrusted to an engine that restarts nothing, nor taken back from it', () => {
      const can = { restart: true, hold: false };
      expect(step(can, { actual: [actual(item)], ready: true })).toBeUndefined();
      const memory = knowing(item, { quickExits: 2 });
      expect(step(can, { actual: exited, memory })).toEqual({ do: 'start', id: 'c1' });
      const surplus = [actual(item, { name: 'sp-other-7c000000' })];
      const withdrawn = new Set(['c1']);
      expect(step(can, { actual: surplus, withdrawn })).toEqual({ do: 'stop', id: 'c1', graceSeconds: 10 });
    });
  });

  test('a crash loop is taken over from the engine', () => {
    const memory = knowing(item, { quickExits: 2 });
    const there = [actual(item, { state: 'restarting' })];
    expect(plan(world({ desired: item, memory, actual: there }))).toEqual({
      do: 'setRestart',
      id: 'c1',
      restart: 'no',
    });
    const held = { ...memory, policy: { container: 'c1', restart: 'no' as const } };
    expect(plan(world({ desired: item, memory: held, actual: there }))).toEqual({
      do: 'stop',
      id: 'c1',
      graceSeconds: 0,
    });
  });

  test.each([
    ['another spec', { labels: { [labels.assignment]: item.id, [labels.specHash]: 'other' } }],
    ['another name', { name: 'sp-other-7c000000' }],
    ['another environment', { env: ['GREETING=other'] }],
    ['another limit', { memoryBytes: 1 }],
    ['no network', { addresses: {} }],
    [
      'a restart token that is no longer wanted',
      { labels: { [labels.assignment]: item.id, [labels.specHash]: item.spec_hash, [labels.restartToken]: 'x' } },
    ],
  ])('one with %s is withdrawn, held, stopped, removed, in this order', (_, changes) => {
    const there = actual(item, changes);
    const step = (more: Partial<World>): Action | undefined =>
      plan(world({ desired: item, memory: knowing(item), actual: [there], ...more }));
    // ports may still lead to it
    expect(step({ isFollowed: false })).toMatchObject({ do: 'wait' });
    expect(step({})).toEqual({ do: 'withdraw', id: 'c1' });
    const withdrawn = new Set(['c1']);
    expect(step({ withdrawn })).toEqual({ do: 'setRestart', id: 'c1', restart: 'no' });
    const memory = knowing(item, { policy: { container: 'c1', restart: 'no' } });
    expect(step({ withdrawn, memory })).toEqual({ do: 'stop', id: 'c1', graceSeconds: 10 });
    const gone = {
      ...there,
      container: { ...there.container, state: 'exited' as const },
      detail: { ...there.detail!, state: 'exited' as const },
    };
    // What made it drift may not show once it stopped: that it is to go is remembered.
    expect(plan(world({ desired: item, memory: { ...memory, unstartable: 'c1' }, actual: [gone], withdrawn }))).toEqual(
      { do: 'remove', id: 'c1' },
    );
  });

  test('one is not replaced before the image of its successor is here', () => {
    const next = desired({ spec_hash: 'hash-2' });
    expect(plan(world({ desired: next, actual: [actual(item)] }))).toEqual({ do: 'resolveImage' });
    const memory = { ...blankMemory, failure: failed() };
    expect(plan(world({ desired: next, actual: [actual(item)], memory }))).toMatchObject({ do: 'wait' });
  });

  test('one with the limits that it got by default stays, and so does one of an agent that gave none', () => {
    const given = {
      [labels.assignment]: item.id,
      [labels.specHash]: item.spec_hash,
      [labels.defaults]: '4096 800000000',
    };
    const step = (changes: Partial<ContainerDetail>): Action | undefined =>
      plan(world({ desired: item, memory: knowing(item), actual: [actual(item, changes)] }));
    expect(step({})).toBeUndefined();
    expect(step({ labels: given, memoryBytes: 4096, nanoCpus: 800_000_000 })).toBeUndefined();
    expect(step({ labels: given, memoryBytes: 8192, nanoCpus: 800_000_000 })).toEqual({ do: 'withdraw', id: 'c1' });
    expect(step({ labels: given, memoryBytes: 4096, nanoCpus: 0 })).toEqual({ do: 'withdraw', id: 'c1' });
  });

  test('one that this process made is compared with itself, not with how the engine shows it', () => {
    const there = actual(item, { memoryBytes: 4096 });
    const baseline = { container: 'c1', settings: settingsOf(there.detail!), own: true };
    expect(plan(world({ desired: item, memory: knowing(item, { baseline }), actual: [there] }))).toBeUndefined();
  });

  test.each<Partial<ContainerDetail>>([
    { env: ['GREETING=other'] },
    { entrypoint: ['/other'] },
    { command: ['other'] },
    { memoryBytes: 1 },
    { nanoCpus: 1 },
    { processes: 0 },
    { oomScoreAdj: 0 },
    { shmBytes: 1 },
    { stopSignal: 'SIGINT' },
    { user: 'root' },
    { readOnlyRoot: true },
    { capabilities: { add: ['NET_RAW'], drop: [] } },
  ])('one that no longer is as this process made it is replaced: %j', (changes) => {
    const baseline = { container: 'c1', settings: settingsOf(actual(item).detail!), own: true };
    const memory = knowing(item, { baseline });
    expect(plan(world({ desired: item, memory, actual: [actual(item, changes)] }))).toEqual({
      do: 'withdraw',
      id: 'c1',
    });
  });

  test('one of an earlier process of the agent is compared with the limit of processes that it is to have', () => {
    const limited = desired({}, { limits: { processes: 100 } });
    const step = (it: ServiceItem, processes: number): Action | undefined =>
      plan(world({ desired: it, memory: knowing(it), actual: [actual(it, { processes })] }));
    expect(step(limited, 100)).toBeUndefined();
    expect(step(limited, 0)).toEqual({ do: 'withdraw', id: 'c1' });
    expect(step(item, 7)).toBeUndefined();
  });
});

describe('what is not desired', () => {
  const item = desired();
  test('is left alone while nobody knows', () => {
    expect(plan(world({ desired: undefined, actual: [actual(item)] }))).toBeUndefined();
  });
  test('goes when it was taken back, or when the set is known to be complete', () => {
    const tombstone = { generation: 1, grace_seconds: 3, drain_seconds: 0, acknowledged: false };
    for (const more of [{ tombstone }, { complete: true }])
      expect(plan(world({ desired: undefined, actual: [actual(item)], ...more }))).toEqual({
        do: 'withdraw',
        id: 'c1',
      });
    const memory = { ...blankMemory, policy: { container: 'c1', restart: 'no' as const } };
    const withdrawn = new Set(['c1']);
    expect(plan(world({ desired: undefined, actual: [actual(item)], tombstone, memory, withdrawn }))).toEqual({
      do: 'stop',
      id: 'c1',
      graceSeconds: 3,
    });
  });
});

const states: ContainerState[] = ['created', 'running', 'paused', 'restarting', 'exited', 'dead'];
const worlds = fc
  .record({
    run: fc.constantFrom('running', 'stopped', 'absent'),
    policy: fc.constantFrom('always', 'on-failure', 'no'),
    complete: fc.boolean(),
    buried: fc.boolean(),
    networkReady: fc.boolean(),
    ready: fc.boolean(),
    knowsImage: fc.boolean(),
    quickExits: fc.nat(4),
    failed: fc.boolean(),
    containers: fc.array(
      fc.record({
        state: fc.constantFrom(...states),
        origin: fc.constantFrom('made', 'intended', 'named'),
        hash: fc.constantFrom('hash-1', 'hash-0'),
        named: fc.boolean(),
        inspected: fc.boolean(),
        connected: fc.boolean(),
      }),
      { maxLength: 3 },
    ),
    withdrawn: fc.boolean(),
    mayWrite: fc.boolean(),
    can: fc.record({ restart: fc.boolean(), hold: fc.boolean() }),
    /** The engine does not restart the first container by itself. */
    held: fc.boolean(),
  })
  .map((it): World => {
    const item = desired(
      { run: it.run === 'stopped' ? 'stopped' : 'running' },
      { restart_policy: it.policy as 'always' },
    );
    const containers = it.containers.map((one, index): Actual => {
      const made = actual(
        item,
        {
          id: `c${index}`,
          state: one.state,
          name: one.named && index === 0 ? nameOf(item) : `sp-x${index}-7c000000`,
          labels: { [labels.assignment]: item.id, [labels.specHash]: one.hash },
          addresses: one.connected ? { [network]: '10.0.0.2' } : {},
        },
        one.origin as Actual['origin'],
      );
      return one.inspected ? made : { ...made, detail: undefined };
    });
    const failure = failed({ code: 'create_failed', final: false, until: now.monotonic + 10 });
    return world({
      desired: it.run === 'absent' ? undefined : item,
      complete: it.complete,
      tombstone: it.buried ? { generation: 1, grace_seconds: 1, drain_seconds: 0, acknowledged: false } : undefined,
      actual: containers,
      networkReady: it.networkReady,
      ready: it.ready,
      can: it.can,
      mayWrite: it.mayWrite,
      withdrawn: new Set(it.withdrawn ? containers.map(({ container }) => container.id) : []),
      memory: {
        ...(it.knowsImage ? knowing(item) : blankMemory),
        quickExits: it.quickExits,
        ...(it.failed ? { failure } : {}),
        ...(it.held ? { policy: { container: 'c0', restart: 'no' as const } } : {}),
      },
    });
  });

describe('in any world', () => {
  test('creates only where there is no container and one is wanted', () => {
    fc.assert(
      fc.property(worlds, (it) => {
        const action = plan(it);
        if (action?.do !== 'create') return;
        expect(it.actual).toEqual([]);
        expect(it.desired?.run).toBe('running');
      }),
      { numRuns: 5_000 },
    );
  });

  test('starts only the one that stands for the assignment, while no other one is left', () => {
    let starts = 0;
    fc.assert(
      fc.property(worlds, (it) => {
        const action = plan(it);
        if (action?.do !== 'start' && action?.do !== 'unpause') return;
        if (action.do === 'unpause' && (it.desired?.run !== 'running' || it.actual.length > 1)) return; // to be stopped
        starts += 1;
        expect(it.actual.map(({ container }) => container.id)).toEqual([action.id]);
        expect(it.desired?.run).toBe('running');
      }),
      { numRuns: 20_000 },
    );
    expect(starts).toBeGreaterThan(10);
  });

  test('touches nothing that is not desired unless it is known not to be', () => {
    let unknown = 0;
    fc.assert(
      fc.property(worlds, (it) => {
        if (it.desired !== undefined || it.complete || it.tombstone !== undefined) return;
        unknown += 1;
        expect(plan(it)).toBeUndefined();
      }),
      { numRuns: 5_000 },
    );
    expect(unknown).toBeGreaterThan(50);
  });

  test('stops only what was taken out of the ports and out of the engine’s hands', () => {
    let stops = 0;
    fc.assert(
      fc.property(worlds, (it) => {
        const action = plan(it);
        if (action?.do !== 'stop' || action.graceSeconds === 0) return;
        expect(it.withdrawn.has(action.id)).toBe(true);
        if (!it.can.hold) return;
        stops += 1;
        expect(it.memory.policy).toEqual({ container: action.id, restart: 'no' });
      }),
      { numRuns: 15_000 },
    );
    expect(stops).toBeGreaterThan(50);
  });

  test('asks an engine for nothing that it cannot do', () => {
    let seen = 0;
    fc.assert(
      fc.property(worlds, (it) => {
        const action = plan(it);
        if (action?.do === 'setRestart') {
          seen += 1;
          expect(it.can.hold).toBe(true);
        }
        if (action?.do !== 'start') return;
        const one = it.actual.find(({ container }) => container.id === action.id);
        if (one?.container.state !== 'exited') return;
        expect(it.can.restart).toBe(true);
        seen += 1;
      }),
      { numRuns: 20_000 },
    );
    expect(seen).toBeGreaterThan(10);
  });

  test('makes and starts nothing while another service writes to its volumes', () => {
    fc.assert(
      fc.property(worlds, (it) => {
        expect(['create', 'start']).not.toContain(plan({ ...it, mayWrite: false })?.do);
      }),
    );
  });

  test('comes to an end when every step succeeds, with exactly the container that is wanted', () => {
    fc.assert(
      fc.property(worlds, (first) => {
        let it = { ...first, mayWrite: true };
        let made = 0;
        for (let steps = 0; steps < 60; steps += 1) {
          it = { ...it, memory: condemn(remember(it.memory, it.actual[0], it.now), it.desired, it.actual) };
          const action = plan(it);
          if (action === undefined) break;
          it = perform(it, action, () => (made += 1));
          expect(it.actual.filter(({ container }) => container.state === 'running').length).toBeLessThanOrEqual(
            first.actual.length + 1,
          );
        }
        expect(plan(it)).toBeUndefined();
        if (it.desired?.run === 'running') expect(it.actual).toHaveLength(1);
        else if (it.desired !== undefined || it.complete || it.tombstone !== undefined) expect(it.actual).toEqual([]);
        expect(made).toBeLessThanOrEqual(1);
      }),
      { numRuns: 3_000 },
    );
  });
});

/** What a step does to a world in which everything works. */
function perform(it: World, action: Action, made: () => void): World {
  const item = it.desired;
  const change = (id: string, how: (one: Actual) => Actual | undefined): World => ({
    ...it,
    actual: it.actual.flatMap((one) => (one.container.id === id ? (how(one) ?? []) : [one])),
  });
  const to =
    (state: ContainerState) =>
    (one: Actual): Actual => ({
      ...one,
      container: { ...one.container, state },
      detail: { ...(one.detail ?? actual(item ?? desired()).detail!), state },
    });
  switch (action.do) {
    case 'resolveImage':
      return { ...it, memory: { ...it.memory, image: { id: imageId, digest: imageId, of: imageKey(item!) } } };
    case 'ensureNetwork':
      return { ...it, networkReady: true };
    case 'create':
      made();
      return {
        ...it,
        memory: { ...it.memory, created: 'new' },
        actual: [actual(item!, { id: 'new', state: 'running' })],
      };
    case 'start':
    case 'unpause':
      return change(action.id, to('running'));
    case 'stop':
      return change(action.id, to('exited'));
    case 'inspect':
      return change(action.id, (one) => to(one.container.state)(one));
    case 'setRestart':
      return { ...it, memory: { ...it.memory, policy: { container: action.id, restart: action.restart } } };
    case 'withdraw':
      return {
        ...it,
        withdrawn: new Set([...it.withdrawn, action.id]),
        memory: { ...it.memory, stopping: action.id },
      };
    case 'drain':
      return { ...it, now: { ...it.now, monotonic: action.until } };
    case 'remove':
      return change(action.id, () => undefined);
    case 'wait':
      return { ...it, now: { ...it.now, monotonic: action.until } };
  }
}
