import { describe, expect, test } from 'vitest';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockProber, mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { labels, type ContainerSpec, type RuntimeEvent } from '../../../agent/runtime/runtime.ts';
import { systemClock } from '../../../time/clock.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';

const signal = new AbortController().signal;

function world(): { clock: FakeClock; engine: MockEngine; runtime: ReturnType<typeof mockRuntime> } {
  const clock = new FakeClock();
  const engine = new MockEngine(clock);
  engine.ensureNetwork('sp-1', {});
  return { clock, engine, runtime: mockRuntime(engine) };
}

function spec(image: string, changes: Partial<ContainerSpec> = {}): ContainerSpec {
  return {
    name: image.replace(':', '-'),
    image,
    labels: { [labels.server]: 'server' },
    env: {},
    networks: [{ name: 'sp-1', aliases: ['test'] }],
    restart: 'no',
    ...changes,
  };
}

describe('the mock engine', () => {
  test('keeps its containers when its client goes and another comes', async () => {
    const { clock, engine, runtime } = world();
    engine.addImage('web:1', { local: true });
    const id = await runtime.create(spec('web:1'), signal);
    await runtime.start(id, signal);
    await clock.advance(60_000);
    const next = mockRuntime(engine);
    expect(await next.list('server', signal)).toMatchObject([{ id, state: 'running' }]);
    expect(engine.journal.map(({ verb }) => verb)).toEqual(['create', 'start']);
  });

  test('finishes what its client gave up waiting for', async () => {
    const { clock, engine, runtime } = world();
    engine.addImage('web:1', { local: true, runs: { startBlockMs: 5_000 } });
    const id = await runtime.create(spec('web:1'), signal);
    const killed = new AbortController();
    const starting = runtime.start(id, killed.signal);
    await clock.advance(1_000);
    killed.abort(new Error('Killed'));
    await expect(starting).rejects.toThrow('Killed');
    expect(engine.byName('web-1').state).toBe('created');
    await clock.advance(4_000);
    expect(engine.byName('web-1').state).toBe('running');
  });

  test('restarts with a delay that doubles and is forgotten after a good run', async () => {
    const { clock, engine, runtime } = world();
    engine.addImage('web:1', { local: true, runs: (start) => ({ runForMs: start === 4 ? 20_000 : 0, exitCode: 1 }) });
    const id = await runtime.create(spec('web:1', { restart: 'unless-stopped' }), signal);
    await runtime.start(id, signal);
    const restarts = async (): Promise<number> => (await runtime.inspect(id, signal))!.restartCount;
    await clock.advance(100);
    expect(await restarts()).toBe(1);
    await clock.advance(199);
    expect(await restarts()).toBe(1);
    await clock.advance(1);
    expect(await restarts()).toBe(2);
    await clock.advance(400);
    expect(await restarts()).toBe(3);
    await clock.advance(20_100);
    expect(await restarts()).toBe(4);
  });

  test('starts what has a restart policy when its machine starts again', async () => {
    const { engine, runtime } = world();
    engine.addImage('web:1', { local: true });
    const kept = await runtime.create(spec('web:1', { restart: 'unless-stopped' }), signal);
    const left = await runtime.create(spec('web:1', { name: 'other' }), signal);
    await runtime.start(kept, signal);
    await runtime.start(left, signal);
    await engine.reboot();
    expect((await runtime.inspect(kept, signal))?.state).toBe('running');
    expect(await runtime.inspect(left, signal)).toMatchObject({ state: 'exited', exitCode: 137 });
  });

  test('allows changes by hand, and reports them', async () => {
    const { engine, runtime } = world();
    engine.addImage('web:1', { local: true });
    const events: RuntimeEvent[] = [];
    const reading = (async () => {
      for await (const event of runtime.events('server', signal)) events.push(event);
    })();
    const id = await runtime.create(spec('web:1', { restart: 'unless-stopped' }), signal);
    await runtime.start(id, signal);
    engine.killByHand(id);
    expect((await runtime.inspect(id, signal))?.state).toBe('restarting');
    await engine.stopByHand(id);
    expect((await runtime.inspect(id, signal))?.state).toBe('exited');
    engine.changeByHand(id, { memoryBytes: 1, labels: { [labels.server]: 'server', [labels.specHash]: 'forged' } });
    expect(await runtime.inspect(id, signal)).toMatchObject({
      memoryBytes: 1,
      labels: { [labels.specHash]: 'forged' },
    });
    engine.removeByHand(id);
    expect(await runtime.inspect(id, signal)).toBeUndefined();
    await engine.foreign({ ...spec('other:1'), labels: {} });
    await settle();
    expect(events.map(({ action }) => action)).toEqual(['create', 'start', 'die', 'stop', 'update', 'destroy']);
    engine.down();
    await expect(reading).rejects.toMatchObject({ code: 'runtime_unavailable' });
  });

  test('fails when it is asked to', async () => {
    const { engine, runtime } = world();
    engine.addImage('web:1', { local: true, failCreate: { code: 'no_space', message: 'Full' } });
    await expect(runtime.create(spec('web:1'), signal)).rejects.toMatchObject({ code: 'no_space', retryable: true });
    engine.failNext('list', { code: 'runtime_unavailable', message: 'Once' });
    await expect(runtime.list('server', signal)).rejects.toThrow('Once');
    expect(await runtime.list('server', signal)).toEqual([]);
    engine.down();
    await expect(runtime.list('server', signal)).rejects.toMatchObject({ code: 'runtime_unavailable' });
    engine.up();
    expect(await runtime.list('server', signal)).toEqual([]);
  });

  test('answers probes as its containers would', async () => {
    const { clock, engine, runtime } = world();
    const runs = {
      listenAfterMs: 1_000,
      http: ({ path, runningMs }: { path: string; runningMs: number }) =>
        path === '/ok' && runningMs < 5_000 ? 204 : 503,
    };
    engine.addImage('web:1', { local: true, runs });
    const id = await runtime.create(spec('web:1'), signal);
    await runtime.start(id, signal);
    const address = (await runtime.inspect(id, signal))!.addresses['sp-1']!;
    const probe = (path: string): unknown =>
      mockProber(engine).probe({ type: 'http', address, port: 80, path, timeoutMs: 5_000 }, signal);
    expect(await probe('/ok')).toEqual({ ok: false, reason: 'GET /ok failed: ECONNREFUSED' });
    await clock.advance(1_000);
    expect(await probe('/ok')).toEqual({ ok: true });
    expect(await probe('/bad')).toEqual({ ok: false, reason: 'GET /bad answered 503' });
    await clock.advance(5_000);
    expect(await probe('/ok')).toEqual({ ok: false, reason: 'GET /ok answered 503' });
  });

  test('writes lines in their order where its process was busy', async () => {
    const engine = new MockEngine(systemClock);
    const runtime = mockRuntime(engine);
    engine.ensureNetwork('sp-1', {});
    const lines = Array.from({ length: 60 }, (_, n) => ({ afterMs: n * 10, text: `line ${n}` }));
    engine.addImage('web:1', { local: true, runs: { output: lines, runForMs: 605 } });
    const id = await runtime.create(spec('web:1'), signal);
    // The timers of one duration are a list, which a late process runs through before the next one.
    const others = [20, 50, 100].map((ms) => setInterval(() => undefined, ms));
    await new Promise((resolve) => setTimeout(resolve, 15));
    await runtime.start(id, signal);
    for (const until = performance.now() + 300; performance.now() < until;) continue;
    const written: string[] = [];
    for await (const { data } of runtime.output(id, { since: '2020-01-01T00:00:00Z' }, signal))
      written.push(Buffer.from(data).toString().trim());
    for (const one of others) clearInterval(one);
    expect(written).toEqual(lines.map(({ text }) => text));
  });

  test('writes all lines of a program that ends, where its process was busy until then', async () => {
    const due = new Map<number, () => void>();
    const timer = (ms: number, fn: () => void): (() => void) => {
      due.set(ms, fn);
      return () => due.delete(ms);
    };
    const engine = new MockEngine({ now: () => new Date(0), monotonic: () => 0, timer });
    engine.ensureNetwork('sp-1', {});
    const runtime = mockRuntime(engine);
    const output = [10, 20, 700].map((afterMs) => ({ afterMs, text: `after ${afterMs} ms` }));
    engine.addImage('web:1', { local: true, runs: { output, runForMs: 605 } });
    const id = await runtime.create(spec('web:1'), signal);
    await runtime.start(id, signal);
    due.get(605)?.();
    const written: string[] = [];
    for await (const { data } of runtime.output(id, { since: '1970-01-01T00:00:00Z' }, signal))
      written.push(Buffer.from(data).toString().trim());
    expect(written).toEqual(['after 10 ms', 'after 20 ms']);
    expect(engine.byName('web-1').state).toBe('exited');
  });

  test('makes the same world of the same calls', async () => {
    const play = async (): Promise<unknown> => {
      const { clock, engine, runtime } = world();
      const output = [{ afterMs: 10, text: 'hello' }];
      engine.onPull((reference) =>
        reference === 'web:1' ? { pullTakesMs: 50, runs: { output, runForMs: 100 } } : undefined,
      );
      const pulling = runtime.pull('web:1', signal);
      await clock.advance(50);
      await pulling;
      const id = await runtime.create(spec('web:1', { restart: 'unless-stopped' }), signal);
      await runtime.start(id, signal);
      await clock.advance(1_000);
      return [await runtime.inspect(id, signal), engine.journal];
    };
    expect(await play()).toEqual(await play());
  });
});
