import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import type { TaskSpec } from '../../agent-protocol/task-types.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { decodeLogChunks } from '../../agent-protocol/log-stream.ts';
import type { LogLine, LogPage } from '../../agent-protocol/logs.ts';
import { decodeSamples, MetricsPage } from '../../agent-protocol/metrics.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { AgentUpdate } from '../../agent-protocol/server-settings.ts';
import type { RunBuild } from '../../agent/tasks/build-task.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import type { ReadHead } from '../../agent/tasks/read-head.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { buildSpec } from '../harness/wire-items.ts';
import { AgentWorld, network, service } from './agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

function build(changes: Partial<TaskSpec<'build'>> = {}): WireAssignment {
  return { ...service(), spec: buildSpec({ deadline_seconds: 60, ...changes }) };
}

const signal = (): AbortSignal => new AbortController().signal;

async function lines(workload: string): Promise<LogLine[]> {
  const query = { workload_id: workload, tail: 1000 };
  const page = (await world.agent.backend.call({ method: 'logs.read', query }, signal())) as LogPage;
  return page.lines;
}

/** Builds that end when the test says so. */
function scripted() {
  const begun: { id: string; line: (text: string) => void; end: PromiseWithResolvers<void>; signal: AbortSignal }[] =
    [];
  const run: RunBuild = async (item, { line }, stop) => {
    const end = Promise.withResolvers<void>();
    begun.push({ id: item.id, line, end, signal: stop });
    stop.addEventListener('abort', () => end.reject(stop.reason as Error), { once: true });
    line('Step 1/1 : FROM scratch');
    await end.promise;
    line('Successfully built');
    return { image: 'sha256:built', commit: 'c0ffee', commitMessage: 'Make it work' };
  };
  return { begun, run };
}

describe('an update of the agent', () => {
  const update = { version: '1.1.0', requestedAt: '2030-01-01T00:00:00.000Z' };

  test('is asked for by a control plane that proved itself, and by no other', async () => {
    const asked: AgentUpdate[] = [];
    const failure = { version: '1.1.0', requested_at: update.requestedAt, reason: 'NotTrusted', message: 'm' };
    const { backend } = await world.start({ updater: { failure, ask: (it) => void asked.push(it) } });
    backend.trusts(false);
    backend.configure({ logRetentionDays: 7, update });
    expect(asked).toEqual([]);
    backend.trusts(true);
    backend.configure({ logRetentionDays: 7 });
    expect(asked).toEqual([]);
    backend.configure({ logRetentionDays: 7, update });
    expect(asked).toEqual([update]);
    expect(backend.updateFailure()).toEqual(failure);
  });

  test('is nothing to an agent that cannot be replaced', async () => {
    const { backend } = await world.start();
    backend.configure({ logRetentionDays: 7, update });
    expect(backend.updateFailure()).toBeUndefined();
  });
});

describe('values of variables of what no agent made', () => {
  const params = async (): Promise<CallParams> => {
    const { id } = await world.engine.foreign({
      name: 'web',
      image: 'web:1',
      labels: {},
      env: { TOKEN: 'hunter2' },
      networks: [{ name: 'theirs', aliases: [] }],
      restart: 'no',
    });
    return { method: 'survey.values', containers: [id] };
  };

  test('are for a control plane that proved itself, and for no other', async () => {
    const { backend } = await world.start({ serverShells: { open: () => Promise.reject(new Error('not asked for')) } });
    const asked = await params();
    backend.trusts(false);
    await expect(backend.call(asked, signal())).rejects.toMatchObject({ code: 'forbidden' });
    backend.trusts(true);
    expect(await backend.call(asked, signal())).toMatchObject({ containers: [{ env: { TOKEN: 'hunter2' } }] });
  });

  test('stay on a machine whose operator allows no terminals of it', async () => {
    const { backend } = await world.start();
    backend.trusts(true);
    await expect(backend.call(await params(), signal())).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('--no-server-terminals'),
    });
  });
});

describe('a build', () => {
  test('runs once, reports its result with every line, and never runs again', async () => {
    const { begun, run } = scripted();
    await world.start({ build: run });
    const item = build();
    await world.snapshot(item);
    await world.until('running', () => begun.length === 1, 2_000);
    expect(world.report(item)?.phase).toBe('running');
    begun[0]!.end.resolve();
    await world.until('succeeded', () => world.report(item)?.phase === 'succeeded', 2_000);
    expect(world.report(item)).toMatchObject({
      image_digest: 'sha256:built',
      commit: 'c0ffee',
      commit_message: 'Make it work',
    });
    expect(
      (await lines(item.workload_id)).map(({ stream, message, instance_id: id }) => [stream, message, id]),
    ).toEqual([
      ['build', 'Step 1/1 : FROM scratch', item.id],
      ['build', 'Successfully built', item.id],
    ]);
    await world.stop();
    await world.start({ build: run });
    await world.until('reported again', () => world.report(item)?.phase === 'succeeded', 2_000);
    await world.snapshot({ ...item, generation: 2 });
    await world.until('taken up', () => world.report(item)?.generation === 2, 2_000);
    expect(begun).toHaveLength(1);
    await world.delta([], [item.id]);
    await world.until('gone', () => world.report(item)?.gone === true, 2_000);
  });

  test('that was interrupted by the end of the agent runs again within its attempt', async () => {
    const { begun, run } = scripted();
    await world.start({ build: run });
    const item = build();
    await world.snapshot(item);
    await world.until('running', () => begun.length === 1, 2_000);
    await world.stop();
    expect(begun[0]!.signal.aborted).toBe(true);
    await world.start({ build: run });
    await world.until('running again', () => begun.length === 2, 2_000);
    begun[1]!.end.resolve();
    await world.until('succeeded', () => world.report(item)?.phase === 'succeeded', 2_000);
  });

  test('that fails says why, and only a new attempt runs again', async () => {
    let attempts = 0;
    const failing: RunBuild = () => {
      attempts += 1;
      return Promise.reject(
        new RuntimeFailure('branch_not_found', 'The repository has no branch main', { retryable: false }),
      );
    };
    await world.start({ build: failing });
    const item = build();
    await world.snapshot(item);
    await world.until('failed', () => world.report(item)?.phase === 'failed', 2_000);
    expect(world.report(item)?.error).toEqual({
      code: 'branch_not_found',
      message: 'The repository has no branch main',
    });
    expect((await lines(item.workload_id)).at(-1)).toMatchObject({
      stream: 'system',
      message: 'The repository has no branch main',
    });
    await world.pass(120_000, 5_000);
    expect(attempts).toBe(1);
    await world.delta([
      { ...item, generation: 2, spec_hash: 'hash-2', spec: { ...item.spec, attempt: 2 } as TaskSpec<'build'> },
    ]);
    await world.until('tried again', () => attempts === 2, 2_000);
  });

  test('that takes longer than its deadline fails', async () => {
    const { run } = scripted();
    await world.start({ build: run });
    const item = build({ deadline_seconds: 5 });
    await world.snapshot(item);
    await world.until('failed', () => world.report(item)?.phase === 'failed', 10_000);
    expect(world.report(item)?.error).toEqual({ code: 'build_timeout', message: 'The build did not end within 5 s' });
  });

  test.each(['drop', 'stop'] as const)('is given up on %s', async (how) => {
    const { begun, run } = scripted();
    await world.start({ build: run });
    const item = build();
    await world.snapshot(item);
    await world.until('running', () => begun.length === 1, 2_000);
    await (how === 'drop' ? world.delta([], [item.id]) : world.delta([{ ...item, generation: 2, run: 'stopped' }]));
    await world.until('ended', () => world.report(item)?.phase === 'stopped', 2_000);
    expect(begun[0]!.signal.aborted).toBe(true);
    expect(world.report(item)?.gone).toBe(how === 'drop' ? true : undefined);
  });

  test('does not begin on a disk that is nearly full', async () => {
    const { begun, run } = scripted();
    world.disk = { freeBytes: 10e6, totalBytes: 100e9 };
    await world.start({ build: run });
    const item = build();
    await world.snapshot(item);
    await world.until('failed', () => world.report(item)?.error?.code === 'no_space', 2_000);
    expect(begun).toEqual([]);
  });

  test('of which the reader follows the lines ends the stream after the last one', async () => {
    const { begun, run } = scripted();
    await world.start({ build: run });
    const item = build();
    await world.snapshot(item);
    await world.until('running', () => begun.length === 1, 2_000);
    const follow = { workload_id: item.workload_id, instance_ids: [item.id], tail: 500 };
    const seen: LogLine[] = [];
    let end = false;
    const reading = (async () => {
      const bytes = world.agent.backend.stream({ kind: 'logs', follow }, Readable.from([]), signal());
      for await (const chunk of decodeLogChunks(bytes)) {
        seen.push(...chunk.lines);
        end = chunk.end === true;
      }
    })();
    for (let n = 0; n < 100; n += 1) begun[0]!.line(`step ${n}`);
    begun[0]!.end.resolve();
    await world.until('succeeded', () => world.report(item)?.phase === 'succeeded', 2_000);
    // lines are written and read by and by: time must pass
    await world.until('the stream ended', () => end);
    await reading;
    expect(seen.map(({ seq }) => seq)).toEqual(Array.from({ length: 102 }, (_, index) => index + 1));
    expect(seen.at(-1)?.message).toBe('Successfully built');
  });
});

describe('output of services', () => {
  test('goes on after the engine ended its streams: no line is lost, none is stored twice', async () => {
    const runtime = mockRuntime(world.engine);
    let streams = new AbortController();
    const output: typeof runtime.output = (id, options, given) => {
      const { signal: ended } = streams;
      const chunks = runtime.output(id, options, AbortSignal.any([given, ended]));
      return (async function* () {
        try {
          yield* chunks;
        } catch (error) {
          if (!ended.aborted) throw error;
        }
      })();
    };
    await world.start({}, { ...runtime, output });
    const item = service();
    await world.snapshot(item);
    await world.until('running', () => world.report(item)?.phase === 'running', 2_000);
    world.container(item)?.write('before');
    await world.pass(1_000);
    streams.abort(new Error('The engine ended'));
    streams = new AbortController();
    await world.pass(1_000);
    world.container(item)?.write('meanwhile');
    await world.pass(11_000);
    world.container(item)?.write('after');
    await world.pass(1_000);
    const written = (await lines(item.workload_id)).filter(({ stream }) => stream === 'stdout');
    expect(written.map(({ message }) => message)).toEqual(['before', 'meanwhile', 'after']);
  });

  test('is kept from the first line, through restarts of the agent, each line once', async () => {
    const item = service({}, { port: 8080, health: { path: '/' } });
    const output = Array.from({ length: 600 }, (_, index) => ({ afterMs: index * 100, text: `line ${index}` }));
    world.engine.addImage('web:1', { local: true, runs: { output } });
    await world.start();
    await world.snapshot(item);
    for (const away of [0, 5_000, 500]) {
      await world.pass(10_000, 100);
      await world.stop();
      await world.clock.advance(away);
      await world.start();
    }
    await world.pass(15_000, 100);
    const seen = (await lines(item.workload_id)).map(({ message }) => message);
    expect(seen.length).toBeGreaterThan(400);
    expect(seen).toEqual(output.slice(0, seen.length).map(({ text }) => text));
    const storage = await world.agent.backend.call({ method: 'logs.storage' }, signal());
    expect(storage).toMatchObject({ retention_days: 365, workloads: [{ id: item.workload_id, lines: seen.length }] });
  });

  test('stays after the service is gone, until its retention ends', async () => {
    const item = service();
    world.engine.addImage('web:1', { local: true, runs: { output: [{ afterMs: 0, text: 'hello' }] } });
    await world.start();
    await world.snapshot(item);
    await world.pass(1_000);
    await world.delta([], [item.id]);
    await world.until('gone', () => world.report(item)?.gone === true, 5_000);
    expect(await lines(item.workload_id)).toMatchObject([{ message: 'hello', stream: 'stdout', level: 'info' }]);
  });
});

describe('calls', () => {
  test('are answered; failures are described in words for the user', async () => {
    const gitHead: ReadHead = ({ url, since }) =>
      url.includes('gone')
        ? Promise.reject(new RuntimeFailure('repository_unreachable', 'No such host', { retryable: true }))
        : Promise.resolve({ commit: 'c0ffee', ...(since !== undefined && { changed_files: [`since ${since}`] }) });
    await world.start({ gitHead });
    const { backend } = world.agent;
    expect(await backend.call({ method: 'ping' }, signal())).toEqual({});
    const head = { method: 'git.head' as const, branch: 'main' };
    expect(await backend.call({ ...head, repository_url: 'https://a' }, signal())).toEqual({ commit: 'c0ffee' });
    expect(await backend.call({ ...head, repository_url: 'https://a', since: 'dad' }, signal())).toEqual({
      commit: 'c0ffee',
      changed_files: ['since dad'],
    });
    const failed = backend.call({ ...head, repository_url: 'https://gone' }, signal());
    await expect(failed).rejects.toEqual(new CallError('repository_unreachable', 'No such host'));
    const query = { workload_id: randomUUID(), tail: 1, since: 'noon' };
    expect(
      await backend.call({ method: 'logs.read', query: { ...query, since: '2030-01-01T00:00:00Z' } }, signal()),
    ).toEqual({
      lines: [],
      truncated: false,
    });
  });

  test('the load of the machine is measured', async () => {
    await world.start();
    const load = world.agent.backend.load();
    expect(load.memory_total_bytes).toBeGreaterThan(0);
    expect(load.memory_used_bytes).toBeLessThan(load.memory_total_bytes);
    expect(load).toMatchObject({ disk_total_bytes: 100e9, disk_used_bytes: 50e9 });
    expect(load.cores).toBeGreaterThan(0);
  });
});

describe('metrics', () => {
  test('of an instance are those of its container, and those of the server of the machine', async () => {
    world.engine.addImage('busy:1', {
      local: true,
      runs: { usage: (runningMs) => ({ cpuMs: runningMs / 2, memoryBytes: 5 * 1024 ** 2, receivedBytes: runningMs }) },
    });
    await world.start();
    const [busy, quiet] = [service({}, { image: 'busy:1' }), service()];
    await world.snapshot(busy, quiet);
    await world.pass(40_000, 500);
    const read = async (workload?: string): Promise<MetricsPage> => {
      const until = world.clock.now().getTime();
      const asked = { since: until - 60_000, until, step_ms: 5000 };
      const query = workload === undefined ? asked : { ...asked, workload_id: workload };
      return MetricsPage.parse(await world.agent.backend.call({ method: 'metrics.read', query }, signal()));
    };
    const cpuOf = ({ rows }: MetricsPage): unknown => rows.at(-1)?.[1];
    expect(cpuOf(await read(busy.workload_id))).toBe(50);
    expect(cpuOf(await read(quiet.workload_id))).toBe(0);
    const server = await read();
    expect(server.rows.length).toBeGreaterThanOrEqual(6);
    expect(server.latest?.map((it) => it.workload_id).toSorted()).toEqual(
      [busy.workload_id, quiet.workload_id].toSorted(),
    );
    expect(server.latest?.find((it) => it.workload_id === busy.workload_id)?.values).toMatchObject({
      cpu_percent: 50,
      memory_used_bytes: 5 * 1024 ** 2,
      network_rx_bps: 1000,
    });
  });

  test('are streamed as they are measured; a reader that was slow gets the newest one', async () => {
    await world.start();
    const stop = new AbortController();
    const none = Readable.from([]) as AsyncIterable<Uint8Array>;
    const samples = decodeSamples(world.agent.backend.stream({ kind: 'metrics' }, none, stop.signal));
    const first = await samples.next();
    await world.pass(21_000, 500);
    const second = await samples.next();
    expect(second.value!.at - first.value!.at).toBeGreaterThanOrEqual(15_000);
    const third = samples.next();
    await world.pass(5_000, 500);
    expect((await third).value!.at - second.value!.at).toBe(5000);
    const last = samples.next();
    stop.abort();
    expect(await last).toEqual({ done: true, value: undefined });
  });
});

describe('housekeeping', () => {
  test('keeps the newest images of a workload and those in use, and networks that somebody needs', async () => {
    await world.start();
    const item = service();
    const own = { [labels.server]: world.server, [labels.workload]: item.workload_id, [labels.type]: 'build' };
    const built: string[] = [];
    for (let n = 1; n <= 8; n += 1) {
      const context = (async function* () {
        yield Buffer.from(`context ${n}`);
      })();
      const options = { context, dockerfile: 'Dockerfile', tag: `setpoint/web:${n}`, buildArgs: {}, labels: own };
      built.push((await world.engine.build(options, () => undefined, signal())).id);
    }
    world.engine.ensureNetwork('sp-unused', { [labels.server]: world.server });
    world.engine.ensureNetwork('sp-foreign', {});
    const pinned = service({ workload_id: item.workload_id }, { image: 'setpoint/web:1', image_digest: built[0]! });
    await world.pass(7_200_000, 600_000);
    expect([...world.engine.networks.keys()]).toContain('sp-unused');
    await world.snapshot(item, pinned);
    await world.until('tidied', () => !world.engine.networks.has('sp-unused'), 60_000, 1_000);
    expect([...world.engine.networks.keys()].toSorted()).toEqual(['sp-foreign', network].toSorted());
    const left = built.filter((id) => world.engine.imageInfo(id) !== undefined);
    expect(left).toEqual([built[0], ...built.slice(3)]);
  });

  test('removes all images of a workload that was deleted, once it knows which ones workloads return to', async () => {
    await world.start();
    const [present, stopped, deleted] = [service(), service(), service()];
    const built: Record<string, string> = {};
    for (const [name, { workload_id }] of Object.entries({ present, stopped, deleted })) {
      const context = (async function* () {
        yield Buffer.from(name);
      })();
      const own = { [labels.server]: world.server, [labels.workload]: workload_id, [labels.type]: 'build' };
      const options = { context, dockerfile: 'Dockerfile', tag: `setpoint/${name}:1`, buildArgs: {}, labels: own };
      built[name] = (await world.engine.build(options, () => undefined, signal())).id;
    }
    const left = () => Object.keys(built).filter((name) => world.engine.imageInfo(built[name]!) !== undefined);
    const returnable = { [stopped.workload_id]: [built['stopped']!], [deleted.workload_id]: [built['deleted']!] };
    await world.snapshot(present);
    await world.pass(7_200_000, 600_000);
    expect(left()).toEqual(['present', 'stopped', 'deleted']);
    world.agent.backend.keepImages(returnable, true);
    await world.pass(7_200_000, 600_000);
    expect(left()).toEqual(['present', 'stopped', 'deleted']);
    world.agent.backend.keepImages({ [deleted.workload_id]: [] }, false);
    await world.until('it is gone', () => left().length < 3, 60_000, 1_000);
    expect(left()).toEqual(['present', 'stopped']);
  });

  test('keeps the newest stages of a project for a week, apart from its images, and all while it builds', async () => {
    const { begun, run } = scripted();
    await world.start({ build: run });
    const item = service();
    const made = async (of: Record<string, string>, ...numbers: number[]): Promise<string[]> => {
      const ids: string[] = [];
      for (const n of numbers) {
        const context = (async function* () {
          yield Buffer.from(`context ${n}`);
        })();
        const own = { [labels.server]: world.server, [labels.project]: item.project_id, ...of };
        const options = { context, dockerfile: 'Dockerfile', tag: `setpoint/web:${n}`, buildArgs: {}, labels: own };
        ids.push((await world.engine.build(options, () => undefined, signal())).id);
      }
      return ids;
    };
    const stage = { [labels.type]: 'stage' };
    const images = await made({ [labels.workload]: item.workload_id, [labels.type]: 'build' }, 1, 2);
    const stages = await made(stage, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
    const others = await made({ ...stage, [labels.project]: 'another' }, 15);
    const foreign = await made({ ...stage, [labels.server]: 'another' }, 16);
    const left = (ids: string[]) => ids.filter((id) => world.engine.imageInfo(id) !== undefined);
    const building = { ...build(), project_id: item.project_id };
    await world.snapshot(item, building);
    await world.pass(30_000, 1_000);
    expect(begun).toHaveLength(1);
    expect(left(stages)).toEqual(stages);
    await world.delta([], [building.id]);
    await world.until('tidied', () => left(stages).length < stages.length, 60_000, 1_000);
    expect(left(stages)).toEqual(stages.slice(2));
    world.clock.jump(8 * 24 * 3_600_000);
    await world.until('the rest is too old', () => left(stages).length === 0, 2 * 3_600_000, 60_000);
    expect([left(stages), left(others), left(images), left(foreign)]).toEqual([[], [], images, foreign]);
  });

  test('that fails is tried again', async () => {
    const real = mockRuntime(world.engine);
    let failures = 0;
    const networks: typeof real.networks = (wanted, within) => {
      if (failures > 0) return real.networks(wanted, within);
      failures += 1;
      return Promise.reject(new TypeError('bug'));
    };
    await world.start({}, { ...real, networks });
    world.engine.ensureNetwork('sp-unused', { [labels.server]: world.server });
    await world.snapshot();
    await world.pass(600_000, 30_000);
    expect([failures, world.engine.networks.has('sp-unused')]).toEqual([1, true]);
    await world.pass(3_600_000, 30_000);
    expect(world.engine.networks.has('sp-unused')).toBe(false);
  });

  test('keeps images that a workload may return to, as long as the control plane names them', async () => {
    await world.start();
    const item = service();
    const own = { [labels.server]: world.server, [labels.workload]: item.workload_id, [labels.type]: 'build' };
    const built: string[] = [];
    for (let n = 1; n <= 7; n += 1) {
      const context = (async function* () {
        yield Buffer.from(`context ${n}`);
      })();
      const options = { context, dockerfile: 'Dockerfile', tag: `setpoint/web:${n}`, buildArgs: {}, labels: own };
      built.push((await world.engine.build(options, () => undefined, signal())).id);
    }
    const left = () => built.filter((id) => world.engine.imageInfo(id) !== undefined);
    await world.pass(7_200_000, 600_000);
    expect(left()).toEqual(built); // nobody has said yet what is needed
    world.agent.backend.keepImages({ [item.workload_id]: [built[0]!] }, true);
    await world.snapshot(item);
    await world.until('tidied', () => left().length < built.length, 60_000, 1_000);
    expect(left()).toEqual([built[0], ...built.slice(2)]);
    world.agent.backend.keepImages({ [item.workload_id]: [] }, false);
    await world.pass(7_200_000, 600_000);
    expect(left()).toEqual(built.slice(2));
  });

  test('leaves the images that a user made of those of a workload, also once that is deleted', async () => {
    await world.start();
    const workload = randomUUID();
    const make = async (tag: string, type: string): Promise<string> => {
      const context = (async function* () {
        yield Buffer.from(tag);
      })();
      const own = { [labels.server]: world.server, [labels.workload]: workload, [labels.type]: type };
      const options = { context, dockerfile: 'Dockerfile', tag, buildArgs: {}, labels: own };
      return (await world.engine.build(options, () => undefined, signal())).id;
    };
    const built = await make('setpoint/web:1', 'build');
    const byHand = [await make('evidence:1', 'service')];
    const old = [1, 2, 3, 4, 5, 6].map((n) => make(`debug:${n}`, 'build'));
    byHand.push(...(await Promise.all(old)));
    world.agent.backend.keepImages({}, true);
    await world.snapshot();
    await world.until('tidied', () => world.engine.imageInfo(built) === undefined, 60_000, 1_000);
    for (const id of byHand) expect(world.engine.imageInfo(id)).toBeDefined();
  });
});
