import { readdir, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { wait } from '../../time/clock.ts';
import { Ledger } from '../../agent/engine/ledger.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { failNextOf } from '../harness/failing-files.ts';
import { AgentWorld, nameOf, network, service } from './agent-world.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

/** What a server allows by itself: a port below is kept by the one who had it. */
const fromThousand = { from: 1024, to: 65_535, reserved: [], own: [], bindings: [] };
const healthy = { port: 8080, health: { path: '/healthz' } };

function done(verb: string): number {
  return world.engine.journal.filter((it) => it.verb === verb).length;
}

describe('a service', () => {
  test('runs, becomes ready by its health check and stable ten seconds later', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 2_000);
    expect(world.report(item)).toMatchObject({
      generation: 1,
      phase: 'running',
      ready: true,
      stable: false,
      restarts: 0,
    });
    await world.until('stable', () => world.report(item)?.stable === true, 11_000);
    expect(world.container(item)?.mutable.restart).toBe('unless-stopped');
    expect(done('create')).toBe(1);
  });

  test('without a health check is ready after it ran for ten seconds', async () => {
    await world.start();
    const item = service();
    await world.snapshot(item);
    await world.until('running', () => world.report(item)?.phase === 'running', 2_000);
    await world.pass(9_000);
    expect(world.report(item)).toMatchObject({ ready: false, stable: false });
    await world.until('ready', () => world.report(item)?.ready === true, 2_000);
    expect(world.report(item)).toMatchObject({ ready: true, stable: true });
  });

  test('that never answers its health check is reported as unhealthy and is left alone', async () => {
    world.engine.addImage('sick:1', { local: true, runs: { http: 503 } });
    await world.start();
    const item = service({}, { ...healthy, image: 'sick:1' });
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.code === 'unhealthy', 40_000);
    expect(world.report(item)).toMatchObject({
      phase: 'running',
      ready: false,
      error: { code: 'unhealthy', message: 'GET /healthz answered 503' },
    });
    expect(done('stop')).toBe(0);
  });

  test('that listens elsewhere than it is to says so after a few seconds, and why its check fails', async () => {
    const listeners = [{ address: '127.0.0.1', port: 80 }];
    world.engine.addImage('shy:1', { local: true, runs: { http: () => undefined, listeners } });
    await world.start();
    const item = service({}, { ...healthy, image: 'shy:1' });
    await world.snapshot(item);
    await world.until('noted', () => (world.report(item)?.notes?.length ?? 0) > 1, 10_000);
    const message = expect.stringContaining(
      'It listens on 127.0.0.1:80, which nothing outside of its container reaches',
    );
    expect(world.report(item)?.notes).toEqual([
      { type: 'Unreachable', reason: 'Loopback', message },
      { type: 'HealthCheck', reason: 'Failing', message: 'GET /healthz failed: ECONNREFUSED' },
    ]);
    await world.until('reported', () => world.report(item)?.error?.code === 'unhealthy', 40_000);
    expect(world.report(item)?.error?.message).toMatch(/^GET \/healthz failed: ECONNREFUSED. It listens on 127/);
  });

  test('whose image has a port that nobody set says so', async () => {
    world.engine.addImage('port:1', { local: true, exposed: [9000, 3000] });
    await world.start();
    const [unset, set, composed] = [
      service({}, { image: 'port:1' }),
      service({}, { ...healthy, image: 'port:1' }),
      service({ service: 'cache' }, { image: 'port:1' }),
    ];
    await world.snapshot(unset, set, composed);
    const running = [unset, set, composed].map((it) => () => world.report(it)?.phase === 'running');
    await world.until('running', () => running.every((is) => is()), 5_000);
    expect(world.report(unset)?.notes).toMatchObject([
      { type: 'PortNotSet', message: expect.stringContaining('set exposed_port to 3000') },
    ]);
    for (const it of [set, composed]) expect(world.report(it)?.notes).toBeUndefined();
  });

  test('that fails three health checks in a row is not ready until it answers again', async () => {
    let status = 200;
    world.engine.addImage('moody:1', { local: true, runs: { http: () => status } });
    await world.start();
    const item = service({}, { ...healthy, image: 'moody:1' });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true);
    status = 500;
    await world.until('unready', () => world.report(item)?.ready === false, 15_000);
    expect(world.report(item)?.error).toEqual({ code: 'unhealthy', message: 'GET /healthz answered 500' });
    status = 200;
    await world.until('ready again', () => world.report(item)?.ready === true, 5_000);
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('whose image is nowhere fails with the reason and runs once the image appears', async () => {
    await world.start();
    const item = service({}, { image: 'missing:1' });
    await world.snapshot(item);
    await world.until('failed', () => world.report(item)?.phase === 'failed', 5_000);
    expect(world.report(item)?.error).toMatchObject({ code: 'image_not_found' });
    world.engine.addImage('missing:1', { local: true });
    await world.until('running', () => world.report(item)?.phase === 'running');
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('that cannot be made is tried less and less often, and reported after three tries', async () => {
    const message = 'The engine refuses';
    for (let tries = 0; tries < 6; tries += 1)
      world.engine.failNext('create', { code: 'create_failed', message, retryable: true });
    await world.start();
    const item = service();
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.message === message, 5_000);
    expect(world.report(item)).toMatchObject({ phase: 'failed', error: { code: 'create_failed' } });
    // It waits 1, 2, 4, 8, 16 and 32 s.
    await world.pass(55_000);
    expect(done('create')).toBe(0);
    await world.until('running', () => world.report(item)?.phase === 'running', 15_000);
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('that cannot be started is made anew less and less often, and reported after three tries', async () => {
    const message = 'The engine refuses';
    for (let tries = 0; tries < 6; tries += 1)
      world.engine.failNext('start', { code: 'create_failed', message, retryable: true });
    await world.start();
    const item = service();
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.message === message, 15_000);
    await world.pass(40_000);
    expect(done('start')).toBe(0);
    await world.until('running', () => world.report(item)?.phase === 'running', 30_000);
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('is not pulled onto a disk that is nearly full', async () => {
    world.engine.addImage('remote:1');
    world.disk = { freeBytes: 100e6, totalBytes: 100e9 };
    await world.start();
    const item = service({}, { image: 'remote:1' });
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.code === 'no_space', 5_000);
    expect(done('pull')).toBe(0);
    world.disk = { freeBytes: 50e9, totalBytes: 100e9 };
    await world.until('running', () => world.report(item)?.phase === 'running');
  });

  test('is reported with the digest of the image that it runs', async () => {
    const { digest } = world.engine.addImage('pulled:1', { digest: `pulled@sha256:${'a'.repeat(64)}` });
    await world.start();
    const item = service({}, { image: 'pulled:1' });
    await world.snapshot(item);
    await world.until('running', () => world.report(item)?.phase === 'running');
    expect(world.report(item)?.image_digest).toBe(digest);
    // The control plane pins what was found: that changes nothing here.
    await world.delta([{ ...item, generation: 2, spec: { ...item.spec, image_digest: digest } as typeof item.spec }]);
    await world.until('taken up', () => world.report(item)?.generation === 2);
    await world.pass(1_000);
    expect(done('create')).toBe(1);
    // What the tag names by now is asked for by each deployment.
    expect(world.wanted).toMatchObject([{ reference: 'pulled:1', pinned: undefined, refresh: true }]);
  });
});

describe('a service that exits', () => {
  test('at once is started with growing delays and reported as a crash loop with its last output', async () => {
    world.engine.addImage('broken:1', {
      local: true,
      runs: { runForMs: 100, exitCode: 1, output: [{ afterMs: 10, text: 'cannot open database', stream: 'stderr' }] },
    });
    await world.start();
    const item = service({}, { image: 'broken:1' });
    await world.snapshot(item);
    await world.until('first exit', () => world.report(item)?.error?.code === 'exited', 5_000);
    const { error } = world.report(item)!;
    expect(error?.message).toBe('The process exited with code 1: cannot open database');
    expect(world.report(item)).toMatchObject({ crash_loop: false, exit_code: 1, ready: false });
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 15_000);
    expect(world.report(item)?.error).toEqual(error);
    expect(world.report(item)?.last_output).toBe('cannot open database');
    const before = done('start');
    await world.pass(60_000, 500);
    expect(done('start') - before).toBeLessThanOrEqual(5);
    expect(done('create')).toBe(1);
    expect(world.container(item)?.mutable.restart).toBe('no');
  });

  test('again after it ran well is reported with the output of its latest series of exits', async () => {
    let says: string | undefined = 'no database';
    const fails = (text: string) => ({
      runForMs: 100,
      exitCode: 1,
      output: [{ afterMs: 10, text, stream: 'stderr' as const }],
    });
    world.engine.addImage('moody:1', { local: true, runs: () => (says === undefined ? {} : fails(says)) });
    await world.start();
    const item = service({}, { image: 'moody:1' });
    await world.snapshot(item);
    const loops = (now: boolean): Promise<void> =>
      world.until('crash loop', () => world.report(item)?.crash_loop === now, 400_000, 500);
    await loops(true);
    says = undefined;
    await loops(false);
    says = 'no queue';
    world.engine.killByHand(world.container(item)!.id, 1);
    await loops(true);
    expect(world.report(item)?.last_output?.split('\n').at(-1)).toBe('no queue');
    expect(world.report(item)?.error?.message).toContain('no queue');
  });

  test('and then runs for ten seconds is in no crash loop any more, also where it counts as stable sooner', async () => {
    let isBroken = true;
    world.engine.addImage('moody:1', { local: true, runs: () => (isBroken ? { runForMs: 100, exitCode: 1 } : {}) });
    await world.start();
    const item = service({}, { image: 'moody:1', min_healthy_seconds: 1 });
    await world.snapshot(item);
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 15_000);
    isBroken = false;
    await world.until('stable', () => world.report(item)?.stable === true, 30_000);
    expect(world.report(item)?.crash_loop).toBe(true);
    await world.until('no crash loop', () => world.report(item)?.crash_loop === false, 10_000);
  });

  test('where the engine cannot start it again, is replaced with the same delays and reports', async () => {
    world.engine.addImage('broken:1', {
      local: true,
      runs: { runForMs: 100, exitCode: 1, output: [{ afterMs: 10, text: 'cannot open database', stream: 'stderr' }] },
    });
    await world.start({}, mockRuntime(world.engine, { restart: false, hold: false }));
    const item = service({}, { image: 'broken:1' });
    await world.snapshot(item);
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 15_000);
    const message = 'The process exited with code 1: cannot open database';
    expect(world.report(item)).toMatchObject({ ready: false, exit_code: 1, error: { code: 'exited', message } });
    expect(world.report(item)?.events?.items.map(({ reason }) => reason)).toEqual(
      expect.arrayContaining(['ProcessExited']),
    );
    expect(world.report(item)?.events?.items.filter(({ drift }) => drift)).toEqual([]);
    const before = done('create');
    expect(before).toBeGreaterThan(2);
    await world.pass(60_000, 500);
    expect(done('create') - before).toBeLessThanOrEqual(5);
    expect(done('create') - before).toBeGreaterThanOrEqual(1);
    expect(done('start')).toBe(done('create'));
    expect(done('setRestart')).toBe(0);
    expect(world.engine.containers.length).toBeLessThanOrEqual(1);
  });

  test('on an engine that restarts nothing comes back by the agent', async () => {
    world.engine.addImage('web:2', { local: true });
    await world.start({}, mockRuntime(world.engine, { restart: true, hold: false }));
    const item = service({}, { ...healthy, image: 'web:2' });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 20_000);
    const { id } = world.container(item)!;
    world.engine.killByHand(id, 3);
    await world.until('exit', () => world.report(item)?.exit_code === 3, 5_000);
    await world.until('stable again', () => world.report(item)?.stable === true, 30_000);
    expect(world.container(item)?.id).toBe(id);
    expect(done('setRestart')).toBe(0);
  });

  test('is no crash loop any more once it runs', async () => {
    world.engine.addImage('late:1', {
      local: true,
      runs: (start) => (start <= 3 ? { runForMs: 100, exitCode: 1 } : {}),
    });
    await world.start();
    const item = service({}, { ...healthy, image: 'late:1' });
    await world.snapshot(item);
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 15_000);
    await world.until('stable', () => world.report(item)?.stable === true, 60_000);
    expect(world.report(item)).toMatchObject({ phase: 'running', crash_loop: false, restarts: 3 });
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('after it was healthy is brought back by the engine, and a crash loop is taken over from it', async () => {
    let crashing = false;
    world.engine.addImage('web:2', { local: true, runs: () => (crashing ? { runForMs: 50, exitCode: 3 } : {}) });
    await world.start();
    const item = service({}, { ...healthy, image: 'web:2' });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 20_000);
    crashing = true;
    world.engine.killByHand(world.container(item)!.id, 3);
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 30_000);
    await world.until('taken over', () => world.container(item)?.mutable.restart === 'no', 30_000);
    expect(world.report(item)?.phase).toBe('running');
    crashing = false;
    await world.until('ready again', () => world.report(item)?.stable === true, 400_000, 500);
    await world.until('policy', () => world.container(item)?.mutable.restart === 'unless-stopped');
  });

  test('again and again after some good seconds is in a crash loop, with its code, while the engine starts it', async () => {
    let isBroken = true;
    const output = [{ afterMs: 12_000, text: 'connection lost', stream: 'stderr' as const }];
    const dies = { runForMs: 13_000, exitCode: 7, output };
    world.engine.addImage('slow:1', { local: true, runs: () => (isBroken ? dies : {}) });
    await world.start();
    const item = service({}, { ...healthy, image: 'slow:1' });
    await world.snapshot(item);
    await world.until('crash loop', () => world.report(item)?.crash_loop === true, 60_000);
    expect(world.container(item)?.mutable.restart).toBe('unless-stopped');
    const lines = expect.stringMatching(/^(connection lost\n?)+$/);
    const last = { code: 7, lines };
    await world.until('ready again', () => world.report(item)?.ready === true, 10_000);
    const looping = { crash_loop: true, exit_code: 7, last_exit: last, last_output: lines };
    expect(world.report(item)).toMatchObject({ ...looping, phase: 'running' });
    const message = 'The process exited with code 7 and is started again: connection lost';
    const told = world.report(item)?.events?.items.filter(({ reason }) => reason === 'ProcessExited');
    expect(told).toHaveLength(3);
    expect(told).toMatchObject([{ message }, { message }, { message }]);
    const restarts = world.report(item)?.restarts ?? 0;
    await world.pass(60_000, 500);
    // the engine starts it again at once, as its starts are good
    expect((world.report(item)?.restarts ?? 0) - restarts).toBeGreaterThanOrEqual(3);
    expect(world.report(item)).toMatchObject(looping);
    isBroken = false;
    await world.until('no crash loop', () => world.report(item)?.crash_loop === false, 700_000, 500);
    expect(world.report(item)).toMatchObject({ ready: true, last_exit: last });
  });

  test('of a child that was killed for memory says so and counts it, while the first process goes on', async () => {
    await world.start();
    const item = service({}, { ...healthy, memory_bytes: 64 * 1024 * 1024 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 20_000);
    expect(world.report(item)).not.toHaveProperty('notes');
    for (const kills of [1, 2]) {
      world.engine.killChildForMemory(world.container(item)!.id);
      await world.until('counted', () => world.report(item)?.memory_kills === kills, 5_000);
    }
    const than = 'its limit of 64 MiB: set a higher memory_limit, or let it use less';
    expect(world.report(item)).toMatchObject({
      ready: true,
      notes: [
        {
          type: 'MemoryKills',
          reason: 'OutOfMemory',
          message: `Processes of an instance were killed as it used more memory than ${than}`,
        },
      ],
    });
    expect(world.report(item)?.events?.items).toMatchObject([
      { reason: 'MemoryKill', message: `A process was killed as the instance used more memory than ${than}` },
    ]);
    await world.until('forgotten', () => world.report(item)?.notes === undefined, 3_700_000, 60_000);
    expect(world.report(item)?.memory_kills).toBe(2);
  });

  test.each([
    [{ memory_bytes: 64 * 1024 * 1024 }, 'its limit of 64 MiB: set a higher memory_limit, or let it use less'],
    [{}, 'the share that an instance without a limit gets: set a memory_limit, or let it use less'],
  ])('for lack of memory says so: %o', async (limits, than) => {
    world.engine.addImage('greedy:1', { local: true, runs: { runForMs: 100, exitCode: 137, oom: true } });
    await world.start();
    const item = service({}, { image: 'greedy:1', ...limits });
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.code === 'out_of_memory', 5_000);
    expect(world.report(item)?.error?.message).toBe(`The process was killed as it used more memory than ${than}`);
  });

  test.each([
    { policy: 'no', exitCode: 0, phase: 'succeeded' },
    { policy: 'no', exitCode: 2, phase: 'failed' },
    { policy: 'on-failure', exitCode: 0, phase: 'succeeded' },
  ] as const)(
    'with code $exitCode and policy $policy has $phase and is not started again',
    async ({ policy, exitCode, phase }) => {
      world.engine.addImage('once:1', { local: true, runs: { runForMs: 500, exitCode } });
      await world.start();
      const item = service({}, { image: 'once:1', restart_policy: policy });
      await world.snapshot(item);
      await world.until('ended', () => world.report(item)?.phase === phase, 5_000);
      await world.pass(30_000, 500);
      expect(done('start')).toBe(1);
      expect(world.report(item)).toMatchObject({ phase, exit_code: exitCode, ready: false });
      expect(world.report(item)?.error?.code).toBe(exitCode === 0 ? undefined : 'exited');
    },
  );

  test('with an error and policy on-failure is started again', async () => {
    world.engine.addImage('flaky:1', {
      local: true,
      runs: (start) => (start === 1 ? { runForMs: 500, exitCode: 2 } : {}),
    });
    await world.start();
    const item = service({}, { ...healthy, image: 'flaky:1', restart_policy: 'on-failure' });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 30_000);
    expect(done('start')).toBe(2);
    expect(world.container(item)?.mutable.restart).toBe('no');
  });
});

describe('what is done to a container from outside', () => {
  async function running(spec = {}) {
    await world.start();
    const item = service({}, { ...healthy, ...spec });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 20_000);
    await world.pass(200);
    return { item, id: world.container(item)!.id };
  }

  test('a removed one returns at once, without a look at the image', async () => {
    const { item, id } = await running();
    const asked = done('pull');
    world.engine.removeByHand(id);
    await world.until('back', () => world.report(item)?.ready === true && world.report(item)?.container_id !== id, 500);
    expect(done('pull')).toBe(asked);
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'ContainerRemoved', drift: true }]);
  });

  test('a stopped one is started, and its report never goes back to an earlier phase', async () => {
    const { item, id } = await running();
    const phases = new Set<string>();
    world.agent.backend.onReport((changed) => phases.add(world.agent.backend.report(changed)!.phase));
    await world.engine.stopByHand(id);
    await world.until('back', () => world.report(item)?.restarts === 1 && world.report(item)?.ready === true, 500);
    expect(world.report(item)).toMatchObject({ container_id: id });
    expect([...phases]).toEqual(['running']);
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'ContainerStopped', drift: true }]);
  });

  test('a paused one goes on', async () => {
    const { item, id } = await running();
    world.engine.pauseByHand(id);
    await world.until('running', () => world.container(item)?.state === 'running', 500);
    expect(done('create')).toBe(1);
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'ContainerPaused', drift: true }]);
  });

  test.each([
    ['environment', { env: { GREETING: 'other' } }],
    ['memory', { memoryBytes: 5_000_000 }],
    ['command', { command: ['sleep', '1'] }],
  ])('one whose %s was changed is replaced', async (_, change) => {
    const { item, id } = await running();
    world.engine.changeByHand(id, change);
    await world.until(
      'replaced',
      () => world.report(item)?.ready === true && world.report(item)?.container_id !== id,
      2_000,
    );
    expect(world.container(item)?.mutable.env).toEqual({ GREETING: 'hello' });
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'ContainerChanged', drift: true }]);
  });

  test('one that wrote more than a tenth of the disk is replaced, which is reported once', async () => {
    const { item, id } = await running();
    const gibibyte = 1024 ** 3;
    world.disk = { freeBytes: 30 * gibibyte, totalBytes: 50 * gibibyte };
    const other = service({}, healthy);
    await world.delta([other]);
    await world.until('ready', () => world.report(other)?.ready === true, 5_000);
    const measured = world.container(other)!;
    const limit = 5 * gibibyte;
    expect(Number(measured.mutable.labels[labels.storage])).toBe(limit);

    world.engine.changeByHand(measured.id, { writtenBytes: limit });
    await world.pass(125_000, 500);
    expect(world.container(other)?.id).toBe(measured.id);
    world.engine.changeByHand(measured.id, { writtenBytes: limit + 1 });
    await world.until('replaced', () => world.container(other)?.id !== measured.id, 66_000);
    await world.until('ready', () => world.report(other)?.ready === true, 5_000);
    const events = world.report(other)?.events?.items ?? [];
    expect(events.filter(({ reason }) => reason === 'StorageExceeded')).toHaveLength(1);
    expect(events.at(-1)?.message).toContain('wrote 5120 MiB into its container, more than its limit of 5120 MiB');
    expect(world.container(item)?.id).toBe(id);
  });

  test('one that wrote too much into a volume of its image is replaced, and told to bind one', async () => {
    const gibibyte = 1024 ** 3;
    world.disk = { freeBytes: 30 * gibibyte, totalBytes: 50 * gibibyte };
    world.engine.addImage('keeps:1', { local: true, volumes: ['/cache', '/data'] });
    let used = 0;
    await world.start({}, { ...mockRuntime(world.engine), volumeUsage: () => Promise.resolve(used) });
    const item = service({}, { ...healthy, image: 'keeps:1' });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const message =
      'What it writes to /cache, /data is gone with its next container, as a restart makes one: setpoint create volume NAME, then setpoint bind NAME APPLICATION /cache';
    expect(world.report(item)?.notes).toEqual([{ type: 'DataNotKept', reason: 'VolumeOfImage', message }]);
    const { id } = world.container(item)!;
    used = 2.5 * gibibyte;
    await world.pass(125_000, 500);
    expect(world.container(item)?.id).toBe(id);
    used += 1;
    await world.until('replaced', () => world.container(item)?.id !== id, 66_000);
    const told = world.report(item)?.events?.items.find(({ reason }) => reason === 'StorageExceeded');
    expect(told?.message).toContain('most of it to /cache, more than its limit of 5120 MiB');
    expect(told?.message).toContain('setpoint bind VOLUME APPLICATION /cache');
  });

  test('what fills the disk quickly is not given a minute', async () => {
    const { item, id } = await running();
    await world.pass(61_000, 500);
    const limit = Number(world.container(item)?.mutable.labels[labels.storage]);
    world.engine.changeByHand(id, { writtenBytes: 2 * limit });
    world.disk = { ...world.disk, freeBytes: world.disk.freeBytes - limit };
    await world.until('replaced', () => world.container(item)?.id !== id, 6_000);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    expect(world.engine.containers).toHaveLength(1);
    expect(Number(world.container(item)?.mutable.labels[labels.storage])).toBe(limit);
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'StorageExceeded' }]);
  });

  test('a measurement that is not answered is given up, and the next one is not waited for', async () => {
    const { item, id } = await running();
    const limit = Number(world.container(item)?.mutable.labels[labels.storage]);
    await world.stop();
    const runtime = mockRuntime(world.engine);
    let asked = 0;
    const written: typeof runtime.written = async (container, signal) => {
      asked += 1;
      if (asked > 1) return runtime.written(container, signal);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    };
    await world.start({}, { ...runtime, written });
    world.engine.changeByHand(id, { writtenBytes: 2 * limit });
    await world.until('measured once', () => asked === 1, 70_000, 500);
    await world.until('replaced', () => world.container(item)?.id !== id, 130_000, 500);
  });

  test('a container that cannot be measured leaves the limits of the others in force', async () => {
    const { item, id } = await running();
    const other = service({}, healthy);
    await world.delta([other]);
    await world.until('ready', () => world.report(other)?.ready === true, 5_000);
    const containers = [world.container(item)!, world.container(other)!];
    const limit = Number(containers[0]?.mutable.labels[labels.storage]);
    await world.stop();
    const runtime = mockRuntime(world.engine);
    const written: typeof runtime.written = (container, signal) =>
      container === id ? Promise.reject(new Error('Its files cannot be read')) : runtime.written(container, signal);
    await world.start({}, { ...runtime, written });
    for (const it of containers) world.engine.changeByHand(it.id, { writtenBytes: 2 * limit });
    await world.until('replaced', () => world.container(other)?.id !== containers[1]?.id, 130_000, 500);
    expect(world.container(item)?.id).toBe(id);
  });

  test('one that was made without a limit is left alone', async () => {
    const { item, id } = await running();
    const { [labels.storage]: _, ...others } = world.container(item)!.mutable.labels;
    world.engine.changeByHand(id, { labels: others, writtenBytes: 1e15 });
    await world.pass(130_000, 500);
    expect(world.container(item)?.id).toBe(id);
  });

  test('one that was taken off its network is replaced, and no port leads to where it was', async () => {
    const { item, id } = await running({ publish_port: 8081 });
    const address = world.container(item)!.address;
    expect(world.ports.machine.backends(8081)).toMatchObject([{ address }]);
    const before = world.ports.machine.journal.length;
    world.engine.disconnectByHand(id);
    await world.until(
      'replaced',
      () => world.report(item)?.ready === true && world.report(item)?.container_id !== id,
      2_000,
    );
    const [first, ...later] = world.ports.machine.journal.slice(before).map((ports) => ports.get(8081));
    expect(first).toEqual([]);
    expect(later.at(-1)).toMatchObject([{ address: world.container(item)!.address }]);
    expect(world.report(item)?.events?.items).toMatchObject([{ reason: 'ContainerChanged', drift: true }]);
  });

  test('one made anew under the same name is replaced, whatever its labels say', async () => {
    const { item, id } = await running();
    const copy = world.container(item)!.mutable;
    world.engine.down();
    world.engine.up();
    world.engine.removeByHand(id);
    const forged = await world.engine.foreign({
      name: nameOf(item),
      image: 'web:1',
      labels: copy.labels,
      env: { GREETING: 'hello', EVIL: '1' },
      networks: [{ name: network, aliases: ['web'] }],
      restart: 'no',
    });
    await world.until(
      'replaced',
      () => world.report(item)?.ready === true && ![id, forged.id].includes(world.report(item)!.container_id!),
      15_000,
    );
    expect(world.engine.containers.some((it) => it.id === forged.id)).toBe(false);
  });

  test('a stranger that took the name without our labels is left alone, and the conflict is reported', async () => {
    await world.start();
    const item = service();
    const stranger = await world.engine.foreign({
      name: nameOf(item),
      image: 'web:1',
      labels: {},
      env: {},
      networks: [{ name: 'bridge', aliases: ['x'] }],
      restart: 'no',
    });
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.code === 'name_taken', 5_000);
    await world.pass(30_000, 500);
    expect(stranger.state).toBe('running');
    world.engine.removeByHand(stranger.id);
    await world.until('running', () => world.report(item)?.phase === 'running', 120_000, 500);
  });

  test('a foreign container with a copy of our labels is never touched', async () => {
    const { item } = await running();
    const stranger = await world.engine.foreign({
      name: 'copy',
      image: 'web:1',
      labels: { ...world.container(item)!.mutable.labels },
      env: {},
      networks: [{ name: network, aliases: ['x'] }],
      restart: 'no',
    });
    await world.snapshot();
    await world.until('gone', () => world.report(item)?.gone === true, 15_000);
    await world.pass(30_000, 500);
    expect(stranger.state).toBe('running');
    expect(world.engine.containers.map(({ name }) => name)).toEqual(['copy']);
  });
});

describe('a network', () => {
  test('that was removed is made again, and the container that cannot start without it as well', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const codes = new Set<string | undefined>();
    world.agent.backend.onReport((id) => codes.add(world.agent.backend.report(id)?.error?.code));
    const { id } = world.container(item)!;
    await world.engine.stopByHand(id);
    world.engine.removeNetwork(network);
    await world.until(
      'replaced',
      () => world.report(item)?.ready === true && world.report(item)?.container_id !== id,
      30_000,
    );
    expect(codes).not.toContain('create_failed');
  });
});

describe('a change of what is desired', () => {
  test('stop takes the instance out of the ports first, and it stays stopped through a reboot', async () => {
    await world.start();
    const item = service({}, { ...healthy, publish_port: 8080 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    expect(world.ports.machine.backends(8080)).toHaveLength(1);
    await world.delta([{ ...item, generation: 2, run: 'stopped' }]);
    await world.until('withdrawn', () => world.ports.machine.backends(8080)?.length !== 1, 1_000);
    expect(world.container(item)?.state).toBe('running');
    await world.until('stopped', () => world.report(item)?.phase === 'stopped', 5_000);
    expect(world.report(item)).toMatchObject({ generation: 2, ready: false });
    await world.engine.reboot();
    await world.pass(15_000, 500);
    expect(world.engine.containers.filter((it) => it.state === 'running')).toEqual([]);
    await world.delta([{ ...item, generation: 3, run: 'running' }]);
    await world.until('ready', () => world.report(item)?.generation === 3 && world.report(item)?.ready === true, 5_000);
  });

  test.each([
    ['is killed, which is told', { ignoreTerm: true }, ['KilledAtStop']],
    ['in time is not', { stopTakesMs: 20_000 }, undefined],
  ])('a process that is to end and does so late %s', async (_, runs, told) => {
    world.engine.addImage('slow:1', { local: true, runs });
    await world.start();
    const item = service({}, { ...healthy, image: 'slow:1', grace_seconds: 25 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 20_000);
    await world.delta([{ ...item, generation: 2, run: 'stopped' }]);
    await world.until('stopped', () => world.report(item)?.phase === 'stopped', 40_000);
    expect(world.report(item)?.events?.items.map(({ reason }) => reason)).toEqual(told);
  });

  test('a stop that is taken back at once leaves the instance in service', async () => {
    await world.start();
    const item = service({}, { ...healthy, publish_port: 80 });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 20_000);
    await world.delta([{ ...item, generation: 2, run: 'stopped' }]);
    await world.until('withdrawn', () => world.ports.machine.backends(80)?.length === 0, 1_000, 5);
    await world.delta([{ ...item, generation: 3 }]);
    await world.until('ready', () => world.report(item)?.generation === 3 && world.report(item)?.ready === true, 5_000);
    expect(world.ports.machine.backends(80)).toEqual([{ address: world.container(item)?.address, port: 8080 }]);
    await world.until('policy', () => world.container(item)?.mutable.restart === 'unless-stopped', 5_000);
  });

  test('a new restart token replaces the container once; an equal one does nothing', async () => {
    await world.start();
    const item = service({}, { ...healthy, restart_token: 'a' });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const tokens = ['b', 'c', 'd'];
    for (const [index, token] of tokens.entries())
      await world.delta([
        { ...item, generation: 2 + index, spec: { ...item.spec, restart_token: token } as typeof item.spec },
      ]);
    await world.until(
      'ready',
      () => world.report(item)?.generation === 4 && world.report(item)?.ready === true,
      10_000,
    );
    expect(world.container(item)?.mutable.labels[labels.restartToken]).toBe('d');
    expect(done('create')).toBeLessThanOrEqual(3);
    await world.snapshot({ ...item, generation: 4, spec: { ...item.spec, restart_token: 'd' } as typeof item.spec });
    await world.pass(500);
    const before = world.engine.journal.length;
    await world.pass(15_000, 500);
    expect(world.engine.journal.length).toBe(before);
  });

  test('a new spec replaces the container only once its image is there', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const id = world.container(item)!.id;
    const next = {
      ...item,
      generation: 2,
      spec_hash: 'hash-2',
      spec: { ...item.spec, image: 'web:2' } as typeof item.spec,
    };
    await world.delta([next]);
    await world.until('reported', () => world.report(item)?.error?.code === 'image_not_found', 5_000);
    expect(world.container(item)).toMatchObject({ id, state: 'running' });
    expect(world.report(item)).toMatchObject({ generation: 2, ready: false });
    world.engine.addImage('web:2', { pullTakesMs: 2_000 });
    await world.until('replaced', () => world.report(item)?.ready === true, 120_000, 500);
    expect(world.container(item)?.id).not.toBe(id);
  });

  test('a pull that is under way is given up when something else is wanted', async () => {
    world.engine.addImage('huge:1', { pullTakesMs: 600_000 });
    await world.start();
    const item = service({}, { image: 'huge:1' });
    await world.snapshot(item);
    await world.until('pulling', () => done('pull') === 1, 5_000);
    await world.delta([
      { ...item, generation: 2, spec_hash: 'hash-2', spec: { ...item.spec, image: 'web:1' } as typeof item.spec },
    ]);
    await world.until('running', () => world.report(item)?.phase === 'running', 2_000);
    expect(done('pull')).toBe(1);
    expect(world.engine.containers.map(({ imageId }) => imageId)).toEqual([
      (await mockRuntime(world.engine).image('web:1', AbortSignal.timeout(1_000)))?.id,
    ]);
  });

  test('what is dropped goes away, is reported as gone until that is acknowledged, and then forgotten', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    await world.delta([], [item.id]);
    expect(world.report(item)).toBeDefined();
    await world.until('gone', () => world.report(item)?.gone === true, 5_000);
    expect(world.engine.containers).toEqual([]);
    await world.stop();
    await world.start();
    await world.until('still reported', () => world.report(item)?.gone === true, 5_000);
    world.agent.backend.acknowledged([world.report(item)!], new Set([item.id]));
    await world.pass(100);
    expect(world.report(item)?.gone).toBe(true);
    world.agent.backend.acknowledged([world.report(item)!], new Set());
    await world.until('forgotten', () => world.report(item) === undefined, 1_000);
    await world.stop();
    await world.start();
    await world.agent.settled();
    expect(world.agent.backend.reports()).toEqual([]);
  });

  test('a removal whose acknowledgement does not get to the disk is reported again at the next connection', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    await world.delta([], [item.id]);
    await world.until('gone', () => world.report(item)?.gone === true, 5_000);
    await failNextOf('datasync');
    world.agent.backend.acknowledged([world.report(item)!], new Set());
    await world.pass(1_000);
    expect(world.agent.backend.reports()).toMatchObject([{ id: item.id, gone: true }]);
    await world.stop();
    await world.start();
    await world.until('still reported', () => world.report(item)?.gone === true, 5_000);
    world.agent.backend.acknowledged([world.report(item)!], new Set());
    await world.until('forgotten', () => world.report(item) === undefined, 1_000);
  });

  test('an outdated copy of an item is refused, and repeated ones change nothing', async () => {
    await world.start();
    const item = service({ generation: 5 }, healthy);
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 15_000);
    await world.pass(500);
    const before = world.engine.journal.length;
    const reports: string[] = [];
    world.agent.backend.onReport((id) => reports.push(id));
    const outdated = world.delta([{ ...item, generation: 4, spec_hash: 'old', run: 'stopped' }]);
    await expect(outdated).rejects.toThrow('must not go back to a lower generation');
    await world.delta([item, item]);
    await world.snapshot(item);
    await world.pass(15_000, 500);
    expect(world.engine.journal.length).toBe(before);
    expect(reports).toEqual([]);
    expect(world.report(item)?.generation).toBe(5);
  });

  test('two instances of one workload share its port while one takes over from the other', async () => {
    await world.start();
    const old = service({}, { ...healthy, publish_port: 80 });
    const next = service({ workload_id: old.workload_id }, { ...healthy, publish_port: 80 });
    await world.snapshot(old);
    await world.until('ready', () => world.report(old)?.ready === true, 5_000);
    await world.delta([next]);
    await world.until('both', () => world.ports.machine.backends(80)?.length === 2, 5_000);
    await world.delta([], [old.id]);
    await world.until('gone', () => world.report(old)?.gone === true, 5_000);
    expect(world.ports.machine.backends(80)).toEqual([{ address: world.container(next)?.address, port: 8080 }]);
    expect(world.ports.history.filter((it) => it === '[[80,[]]]').length).toBeLessThanOrEqual(1);
  });

  test('a port that another program or workload has is reported, not waited for, and had by a new instance', async () => {
    world.ports.machine.take(80);
    await world.start();
    const refused = service({}, { ...healthy, publish_port: 80 });
    await world.snapshot(refused);
    await world.until('reported', () => world.report(refused)?.error?.code === 'port_taken', 5_000);
    expect(world.report(refused)).toMatchObject({
      ready: false,
      error: { message: expect.stringContaining('Port 80 of the server is taken by another program') },
    });
    world.ports.machine.free(80);
    await world.pass(60_000, 500);
    expect(world.ports.machine.backends(80)).toBeUndefined();
    expect(world.report(refused)?.error?.code).toBe('port_taken');
    const first = service({ workload_id: refused.workload_id }, { ...healthy, publish_port: 80 });
    await world.delta([first], [refused.id]);
    await world.until('ready', () => world.report(first)?.ready === true, 10_000);
    const second = service({}, { ...healthy, publish_port: 80 });
    await world.delta([second]);
    await world.until('reported', () => world.report(second)?.error?.code === 'port_taken', 5_000);
    expect(world.report(first)?.ready).toBe(true);
    await world.delta([], [first.id]);
    await world.until('gone', () => world.report(first)?.gone === true, 5_000);
    await world.pass(60_000, 500);
    expect(world.ports.machine.backends(80)).toBeUndefined();
  });

  test('a port that does not answer the instance behind it is reported once by an event', async () => {
    const notice = 'Port 80 of the server does not answer the instance behind it';
    world.ports.machine.notices.set(80, notice);
    await world.start();
    const item = service({}, { ...healthy, publish_port: 80 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    await world.pass(60_000, 500);
    const events = world.report(item)?.events?.items.filter(({ reason }) => reason === 'PortPartlyOpen');
    expect(events).toMatchObject([{ type: 'warning', message: notice, drift: false }]);
  });

  test('a port that the control plane keeps from applications is refused', async () => {
    await world.start();
    const ports = { from: 1024, to: 65_535, reserved: [], own: [7070], bindings: [] };
    world.agent.backend.configure({ logRetentionDays: 7, ports });
    const item = service({}, { ...healthy, publish_port: 7070 });
    await world.snapshot(item);
    await world.until('reported', () => world.report(item)?.error?.code === 'port_taken', 5_000);
    expect(world.ports.machine.backends(7070)).toBeUndefined();
  });
});

describe('what an agent does not know', () => {
  const unknown = (id: string, generation: number) => ({
    ...service({ id, generation }),
    spec: { type: 'machine', kernel: 'linux', priority: 'low' },
  });

  test('is reported as such, and what runs of it stays as it is until it is known again or taken back', async () => {
    await world.start();
    const item = service({}, { ...healthy, publish_port: 8080 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const before = world.engine.journal.length;
    const [same, other] = [unknown(item.id, 2), unknown('22222222-0000-4000-8000-000000000000', 1)];
    await world.delta([same, other]);
    await world.pass(15_000, 500);
    const message = 'The agent of the server is too old for this kind of workload (machine): upgrade the agent';
    const outdated = { phase: 'failed', ready: false, error: { code: 'agent_outdated', message } };
    expect([world.report(same), world.report(other)]).toMatchObject([
      { ...outdated, generation: 2 },
      { ...outdated, generation: 1 },
    ]);
    expect(world.agent.backend.reports()).toMatchObject([{ id: item.id }, { id: other.id }]);
    expect(world.engine.journal.slice(before).filter(({ verb }) => verb !== 'setRestart')).toEqual([]);
    expect(world.ports.machine.backends(8080)).toHaveLength(1);

    await world.stop();
    await world.start();
    await world.pass(15_000, 500);
    expect(world.container(item)?.state).toBe('running');
    expect(world.report(same)).toMatchObject({ ...outdated, generation: 2 });
    await world.delta([{ ...item, generation: 3 }], [other.id]);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    expect(world.report(item)).toMatchObject({ generation: 3, phase: 'running' });
    expect(done('create')).toBe(1);

    await world.delta([unknown(item.id, 4)]);
    await world.delta([], [item.id]);
    await world.until('gone', () => world.report(item)?.gone === true, 20_000);
    expect(world.engine.containers).toEqual([]);
  });
});

describe('an agent that starts again', () => {
  test('adopts what runs: nothing is touched, readiness is known at once, ports lead on', async () => {
    await world.start();
    const items = [service({}, { ...healthy, publish_port: 80 }), service()];
    await world.snapshot(...items);
    await world.until('stable', () => items.every((it) => world.report(it)?.stable === true), 20_000);
    await world.pass(500);
    const ids = world.engine.containers.map(({ id }) => id);
    const before = world.engine.journal.length;
    const mapped = world.ports.history.length;
    await world.stop();
    expect(world.ports.machine.backends(80)).toHaveLength(1);
    await world.pass(30_000, 500);
    await world.start();
    await world.agent.settled();
    expect(items.map((it) => world.report(it)?.stable)).toEqual([true, true]);
    await world.pass(15_000, 500);
    expect(world.engine.containers.map(({ id }) => id)).toEqual(ids);
    expect(world.engine.journal.slice(before).filter(({ verb }) => verb !== 'setRestart')).toEqual([]);
    expect(new Set(world.ports.history.slice(mapped - 1)).size).toBe(1);
  });

  test('has inspected an instance that does not answer yet, and waits no longer', async () => {
    world.engine.addImage('slow:1', { local: true, runs: { http: 503 } });
    await world.start();
    const item = service({}, { ...healthy, image: 'slow:1' });
    await world.snapshot(item);
    await world.until('running', () => world.report(item)?.phase === 'running', 5_000);
    await world.stop();
    const runtime = mockRuntime(world.engine);
    const inspect: typeof runtime.inspect = async (id, signal) => {
      await wait(world.clock, 300, signal);
      return runtime.inspect(id, signal);
    };
    await world.start({}, { ...runtime, inspect });
    let isSettled = false;
    void world.agent.settled().then(() => (isSettled = true));
    await world.until('settled', () => isSettled, 2_000);
    expect(world.report(item)).toMatchObject({ phase: 'running', ready: false });
  });

  test('and cannot record what the engine has tries again, and ports then follow its instances', async () => {
    await world.start();
    const [item, other] = [
      service({}, { ...healthy, publish_port: 80 }),
      service({}, { ...healthy, publish_port: 81 }),
    ];
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    await world.stop();
    using _ = vi.spyOn(Ledger.prototype, 'complete').mockRejectedValueOnce(new Error('No space left on device'));
    await world.start();
    await world.snapshot(item, other);
    await world.until('published', () => world.ports.machine.backends(81)?.length === 1, 20_000);
    expect(world.ports.machine.backends(80)).toHaveLength(1);
  });

  test('without a control plane it removes nothing, and after a snapshot what is not in it', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const orphan = await world.engine.foreign({
      name: 'sp-old-11111111',
      image: 'web:1',
      labels: { [labels.server]: world.server, [labels.assignment]: '11111111-0000-4000-8000-000000000000' },
      env: {},
      networks: [{ name: network, aliases: ['x'] }],
      restart: 'no',
    });
    await world.stop();
    await import('node:fs/promises').then(({ rm }) => rm(`${world.dir}/ledger`));
    await world.start();
    await world.pass(30_000, 500);
    expect(orphan.state).toBe('running');
    await world.snapshot(item);
    await world.until('removed', () => !world.engine.containers.includes(orphan), 15_000);
    expect(world.report(item)?.ready).toBe(true);
    expect(done('create')).toBe(1);
  });

  test('with a damaged desired set touches nothing until it is sent again', async () => {
    await world.start();
    const item = service({}, { ...healthy, publish_port: 80 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    world.agent.backend.configure({ logRetentionDays: 7, ports: fromThousand });
    await world.stop();
    await writeFile(`${world.dir}/desired`, 'not what was written');
    await world.start();
    await world.pass(30_000, 500);
    expect(world.agent.backend.position()).toBeUndefined();
    expect(world.container(item)?.state).toBe('running');
    expect(world.ports.machine.backends(80)).toHaveLength(1);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    expect(world.ports.machine.backends(80)).toHaveLength(1);
    expect(done('create')).toBe(1);
  });

  test('with a damaged configuration goes on with what runs, port and repair included, and makes nothing until it comes', async () => {
    await world.start();
    const { spec, ...rest } = service({}, { ...healthy, publish_port: 80 });
    if (spec.type !== 'service') throw new Error('Must be a service');
    const { configuration, ...others } = spec;
    const item = { ...rest, spec: { ...others, config: 'of the deployment' } };
    const configurations = [{ id: 'of the deployment', env: configuration?.env ?? {} }];
    const at = (revision: number) => ({ incarnation: 'one', revision });
    await world.agent.backend.snapshot(at(1), [item], [], configurations);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    world.agent.backend.configure({ logRetentionDays: 7, ports: fromThousand });
    await world.stop();
    const folder = `${world.dir}/desired-configurations`;
    for (const file of await readdir(folder)) await writeFile(`${folder}/${file}`, 'damage');

    await world.start();
    await world.until('ready', () => world.report(item)?.ready === true, 15_000);
    const first = world.container(item)!;
    expect(world.ports.machine.backends(80)).toHaveLength(1);
    world.engine.killByHand(first.id, 1);
    expect(first.state).not.toBe('running');
    await world.until('ready', () => world.report(item)?.ready === true, 15_000);

    world.engine.removeByHand(first.id);
    await world.pass(30_000, 500);
    expect(world.engine.containers).toEqual([]);
    await world.agent.backend.snapshot(at(2), [item], [], configurations);
    await world.until('ready', () => world.report(item)?.ready === true, 15_000);
    expect(world.ports.machine.backends(80)).toHaveLength(1);
    expect(done('create')).toBe(2);
  });

  test('keeps the port of an instance that the engine takes long to report', async () => {
    await world.start();
    const item = service({}, { ...healthy, publish_port: 80 });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    world.agent.backend.configure({ logRetentionDays: 7, ports: fromThousand });
    await world.stop();
    const runtime = mockRuntime(world.engine);
    const answersAt = world.clock.monotonic() + 15_000;
    const inspect: typeof runtime.inspect = async (id, signal) => {
      await wait(world.clock, Math.max(0, answersAt - world.clock.monotonic()), signal);
      return runtime.inspect(id, signal);
    };
    await world.start({}, { ...runtime, inspect });
    await world.until('ready', () => world.report(item)?.ready === true, 60_000);
    expect(world.ports.machine.backends(80)).toHaveLength(1);
  });

  test('leads the port also to an instance that was ready while a step of it took long', async () => {
    await world.start();
    const { workload_id, project_id } = service();
    const items = [1, 2].map(() => service({ workload_id, project_id }, { ...healthy, publish_port: 80 }));
    await world.snapshot(...items);
    await world.until('stable', () => items.every((it) => world.report(it)?.stable === true), 30_000);
    world.agent.backend.configure({ logRetentionDays: 7, ports: fromThousand });
    const pinned = items.map((it) => ({
      ...it,
      generation: 2,
      spec: { ...it.spec, image_digest: world.report(it)?.image_digest } as typeof it.spec,
    }));
    await world.snapshot(...pinned);
    await world.stop();
    expect(world.ports.machine.backends(80)).toHaveLength(2);

    const before = world.ports.history.length;
    const runtime = mockRuntime(world.engine);
    let asked = 0;
    const image: typeof runtime.image = async (reference, signal) => {
      asked += 1;
      if (asked > 1) await wait(world.clock, 30_000, signal);
      return runtime.image(reference, signal);
    };
    const agent = await world.start({}, { ...runtime, image });
    await world.until('ready', () => pinned.every((it) => world.report(it)?.ready === true), 20_000);
    await agent.settled();
    expect(asked).toBe(2);
    for (const rules of world.ports.history.slice(before))
      expect(new Map<number, unknown[]>(JSON.parse(rules)).get(80)).toHaveLength(2);
  });

  test('adopts a container whose creation it never saw succeed', async () => {
    const item = service({}, healthy);
    await world.start();
    const creating = world.engine.create.bind(world.engine);
    world.engine.create = (spec) => {
      creating(spec);
      throw new Error('The connection to the engine was lost');
    };
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 10_000);
    expect(world.engine.containers).toHaveLength(1);
  });

  test('keeps one of two containers of an assignment: the one with its name', async () => {
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 5_000);
    const one = world.container(item)!;
    await world.stop();
    const { rm } = await import('node:fs/promises');
    await rm(`${world.dir}/ledger`);
    const twin = await world.engine.foreign({
      name: `sp-renamed-${item.id.slice(0, 8)}`,
      image: 'web:1',
      labels: { ...one.mutable.labels },
      env: { GREETING: 'hello' },
      networks: [{ name: network, aliases: ['x'] }],
      restart: 'no',
    });
    await world.start();
    await world.until('one left', () => world.engine.containers.length === 1, 15_000);
    expect(world.container(item)?.id).toBe(one.id);
    expect(twin.state).not.toBe('running');
  });

  test('on a machine that was rebooted starts what the engine did not', async () => {
    await world.start();
    const item = service({}, { ...healthy, restart_policy: 'on-failure' });
    await world.snapshot(item);
    await world.until('stable', () => world.report(item)?.stable === true, 15_000);
    await world.stop();
    await world.engine.reboot();
    expect(world.container(item)?.state).toBe('exited');
    await world.start();
    await world.until('ready', () => world.report(item)?.ready === true, 2_000);
  });
});

describe('an engine that does not answer', () => {
  test('stops nothing and makes nothing; what happened meanwhile is set right when it returns', async () => {
    await world.start();
    const [kept, lost] = [service({}, healthy), service({}, healthy)];
    await world.snapshot(kept, lost);
    await world.until('ready', () => [kept, lost].every((it) => world.report(it)?.ready === true), 5_000);
    const keptId = world.container(kept)!.id;
    world.engine.down();
    await world.pass(20_000, 500);
    world.engine.removeByHand(world.container(lost)!.id);
    await world.pass(60_000, 1_000);
    expect(world.report(kept)?.phase).toBe('running');
    await world.until('unready', () => world.report(lost)?.ready === false, 15_000);
    world.engine.up();
    await world.until('back', () => [kept, lost].every((it) => world.report(it)?.ready === true), 30_000);
    expect(world.container(kept)?.id).toBe(keptId);
    expect(world.engine.containers).toHaveLength(2);
  });

  test('in the middle of a step: the step is taken up again when it returns, also where nothing changed', async () => {
    await world.start();
    const item = service({}, healthy);
    world.engine.failNext('image', { code: 'runtime_unavailable', message: 'The container engine does not answer' });
    world.engine.failNext('list', { code: 'runtime_unavailable', message: 'The container engine does not answer' });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 15_000);
    expect(done('create')).toBe(1);
    expect(world.report(item)?.error).toBeUndefined();
  });

  test('reports nothing of what it cannot know, and that it knows nothing', async () => {
    world.engine.down();
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    expect(world.agent.backend.reports()).toMatchObject([{ id: item.id, unknown: true }]);
    expect(world.agent.backend.engine().trouble).toMatchObject({ reason: 'EngineUnusable' });
    world.engine.up();
    await world.until('ready', () => world.report(item)?.ready === true, 20_000);
    expect(world.report(item)?.unknown).toBeUndefined();
    expect(world.agent.backend.engine()).toEqual({ version: '1.0' });
  });

  test('for a moment, as in a restart, is no trouble; for longer it is, until it answers again', async () => {
    await world.start();
    await world.until('its version is known', () => world.agent.backend.engine().version === '1.0');
    world.engine.down();
    await world.pass(9_000, 500);
    expect(world.agent.backend.engine().trouble).toBeUndefined();
    await world.until('in trouble', () => world.agent.backend.engine().trouble !== undefined, 15_000, 500);
    world.engine.up();
    await world.until('out of trouble', () => world.agent.backend.engine().trouble === undefined, 15_000, 500);
  });

  test('says nothing of a service without a health check, which may have ended', async () => {
    await world.start();
    const item = service();
    await world.snapshot(item);
    await world.until('it runs', () => world.container(item)?.state === 'running', 5_000);
    world.engine.down();
    world.engine.killByHand(world.container(item)!.id);
    await world.pass(30_000, 500);
    expect(world.report(item)).toMatchObject({ ready: false, stable: false });
  });

  test('fails no step: what was under way when it went waits, however often that happens', async () => {
    const real = mockRuntime(world.engine);
    let outages = 0;
    await world.start(
      {},
      {
        ...real,
        create(...call) {
          if (outages < 5) world.engine.down();
          outages += 1;
          return real.create(...call);
        },
      },
    );
    const item = service({}, healthy);
    const errors = new Set<unknown>();
    world.agent.backend.onReport((id) => errors.add(world.agent.backend.report(id)?.error?.code));
    await world.snapshot(item);
    for (let n = 1; n <= 5; n += 1) {
      await world.until('it is away', () => outages === n, 30_000);
      await world.pass(500);
      world.engine.up();
    }
    await world.until('ready', () => world.report(item)?.ready === true, 30_000);
    expect([...errors]).toEqual([undefined]);
  });

  test('at the start: the desired set is taken and carried out later', async () => {
    world.engine.down();
    await world.start();
    const item = service({}, healthy);
    await world.snapshot(item);
    await world.pass(15_000, 500);
    expect(world.report(item)).toMatchObject({ phase: 'pending', ready: false });
    await world.delta([], ['22222222-0000-4000-8000-000000000000']);
    expect(world.report({ id: '22222222-0000-4000-8000-000000000000' })?.gone).toBeUndefined();
    world.engine.up();
    await world.until('ready', () => world.report(item)?.ready === true, 20_000);
    await world.until('gone', () => world.report({ id: '22222222-0000-4000-8000-000000000000' })?.gone === true, 5_000);
  });
});
