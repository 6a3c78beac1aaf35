import { existsSync } from 'node:fs';
import { chmod, readdir, stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  labels,
  type ContainerDetail,
  type ContainerSpec,
  type OutputChunk,
  type PullProgress,
  type RunOptions,
  type RunResult,
  type RuntimeEvent,
  type RuntimeFailure,
} from '../../agent/runtime/runtime.ts';
import { until } from '../harness/until.ts';
import { dockerRig, mockRig, type Behaviour, type Program, type RuntimeRig } from './runtime-rigs.ts';

const absent = 'f'.repeat(64);

describe.each([
  ['the mock engine', mockRig],
  ['Docker', dockerRig],
])('the container runtime of %s', (_name, makeRig) => {
  let rig: RuntimeRig;
  const signal = (): AbortSignal => AbortSignal.timeout(60_000);

  beforeAll(async () => {
    rig = await makeRig();
  });
  afterAll(async () => {
    await rig[Symbol.asyncDispose]();
  });

  const create = (behaviour: Behaviour, changes = {}): Promise<string> =>
    rig.runtime.create(rig.spec(behaviour, changes), signal());

  async function start(behaviour: Behaviour, changes = {}): Promise<string> {
    const id = await create(behaviour, changes);
    await rig.runtime.start(id, signal());
    return id;
  }

  async function inspect(id: string): Promise<ContainerDetail> {
    return (await rig.runtime.inspect(id, signal()))!;
  }

  function reached(id: string, what: string, condition: (it: ContainerDetail) => boolean): Promise<ContainerDetail> {
    return until(what, async () => {
      const it = await inspect(id);
      return condition(it) && it;
    });
  }

  /** Starts it, and waits until it has said how it answers signals. */
  async function startReady(behaviour: Behaviour, changes = {}): Promise<string> {
    const id = await start({ lines: ['ready'], ...behaviour }, changes);
    const written = rig.runtime.output(id, { since: '2020-01-01T00:00:00Z' }, signal());
    for await (const _ of written) break;
    return id;
  }

  /** Changes of a spec whose container is on these networks only. */
  const on = (...names: [string, ...string[]]): Pick<ContainerSpec, 'networks'> => {
    const [first, ...further] = names.map((name) => ({ name, aliases: [`in-${name}`] }));
    return { networks: [first!, ...further] };
  };

  const exited = (id: string): Promise<ContainerDetail> => reached(id, 'the exit', (it) => it.state === 'exited');

  test('reports the version of its engine', async () => {
    expect(await rig.runtime.version(signal())).toMatch(/^\d+\./);
  });

  test('tells of its engine what the checks of the machine need', async () => {
    const facts = await rig.runtime.facts(signal());
    expect(facts).toMatchObject({ version: expect.stringMatching(/^\d+\./), liveRestore: expect.any(Boolean) });
    expect(facts.addresses.total).toBeGreaterThan(0);
    expect(facts.addresses.free).toBeLessThanOrEqual(facts.addresses.total);
    expect(Object.values(facts.proxy).every((one) => typeof one === 'string')).toBe(true);
  });

  test('lists what it has of a server: what runs apart, and nothing with another name', async () => {
    const assignment = crypto.randomUUID();
    const named = (name: string) => ({ name, labels: { [labels.assignment]: assignment } });
    const running = await start({}, named(`sp-one-${assignment.slice(0, 8)}`));
    const still = await create({}, named(`sp-two-${assignment.slice(0, 8)}`));
    const copied = await create({}, named(`copied-${assignment.slice(0, 8)}`));
    const all = await rig.runtime.belongings(signal());
    const own = all.find(({ containers }) => containers.includes(running));
    expect(own?.containers).toContain(still);
    expect(own?.containers).not.toContain(copied);
    expect(own?.running).toContain(running);
    expect(own?.running).not.toContain(still);
    for (const id of [running, still, copied]) await rig.runtime.remove(id, signal());
  });

  test('tells what no agent made, with the names of variables and no value', async () => {
    const assignment = crypto.randomUUID();
    const labelled = { name: `sp-one-${assignment.slice(0, 8)}`, labels: { [labels.assignment]: assignment } };
    const own = await start({}, labelled);
    const volume = `theirs-${crypto.randomUUID().slice(0, 8)}`;
    await rig.makeVolumeByHand(volume);
    const changes = {
      env: { SECRET: 'hunter2' },
      memoryBytes: 64 * 1024 * 1024,
      mounts: [{ type: 'volume', volume, path: '/data', readOnly: false }],
    };
    const running = await start({}, changes);
    const still = await create({});
    const found = await rig.runtime.foreign(signal());
    expect(found.containers.map(({ id }) => id)).not.toContain(own);
    const theirs = found.containers.find(({ id }) => id === running);
    expect(theirs).toMatchObject({
      state: 'running',
      image: { name: expect.stringMatching(/^(setpoint-test\/|test:)/), is_here: true },
      env: ['SECRET'],
      memory_bytes: changes.memoryBytes,
      mounts: [{ type: 'volume', source: volume, path: '/data', read_only: false }],
      networks: [rig.network],
      restart: 'no',
    });
    expect(JSON.stringify(theirs)).not.toContain('hunter2');
    expect(found.volumes).toContainEqual({ name: volume, driver: 'local', is_anonymous: false });
    const values = await rig.runtime.foreignValues([own, running, crypto.randomUUID()], signal());
    expect(values).toEqual([{ id: running, env: { SECRET: 'hunter2' } }]);
    const order = found.containers.map(({ id }) => id);
    expect(order.indexOf(running)).toBeLessThan(order.indexOf(still));
    for (const id of [own, running, still]) await rig.runtime.remove(id, signal());
  });

  describe('containers', () => {
    test('are listed by the label of their server, whatever their state', async () => {
      const made = await create({});
      const running = await start({});
      const foreign = await rig.foreign();
      const listed = await rig.runtime.list(rig.server, signal());
      expect(listed.find(({ id }) => id === made)).toMatchObject({
        state: 'created',
        labels: { [labels.server]: rig.server },
      });
      expect(listed.find(({ id }) => id === running)?.state).toBe('running');
      expect(listed.map(({ id }) => id)).not.toContain(foreign);
      expect(await rig.runtime.list('another-server', signal())).toEqual([]);
    });

    test('are reported with all that a reconciler compares', async () => {
      const changes = {
        env: { GREETING: 'hello world', EMPTY: '' },
        labels: { [labels.specHash]: 'abc' },
        memoryBytes: 64 * 1024 * 1024,
        nanoCpus: 500_000_000,
      };
      const spec = rig.spec({}, changes);
      const id = await rig.runtime.create(spec, signal());
      const made = await inspect(id);
      expect(made).toMatchObject({ id, name: spec.name, state: 'created', startedAt: '', pid: 0, addresses: {} });
      expect(made).toMatchObject({ memoryBytes: changes.memoryBytes, nanoCpus: changes.nanoCpus, restartCount: 0 });
      expect(made.env).toEqual(expect.arrayContaining(['GREETING=hello world', 'EMPTY=']));
      expect(made.command).toEqual(spec.command ?? []);
      expect(made.labels).toMatchObject({ [labels.specHash]: 'abc', [labels.server]: rig.server });
      await rig.runtime.start(id, signal());
      const running = await inspect(id);
      expect(running).toMatchObject({ state: 'running', exitCode: undefined, oomKilled: false });
      expect(running.pid).toBeGreaterThan(0);
      expect(running.addresses[rig.network]).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
      expect(Date.parse(running.startedAt)).not.toBeNaN();
    });

    test('show every setting that they were made with', async () => {
      const spec = rig.spec(
        {},
        {
          entrypoint: ['/bin/env'],
          command: ['/bin/sh'],
          user: '1000:1001',
          readOnlyRoot: true,
          stopSignal: 'SIGINT',
          processes: 77,
          oomScoreAdj: 300,
          shmBytes: 8 * 1024 * 1024,
          capabilities: { drop: ['ALL'], add: ['SETUID', 'CHOWN'] },
        },
      );
      expect(await inspect(await rig.runtime.create(spec, signal()))).toMatchObject({
        entrypoint: ['/bin/env'],
        command: ['/bin/sh'],
        user: '1000:1001',
        readOnlyRoot: true,
        stopSignal: 'SIGINT',
        processes: 77,
        oomScoreAdj: 300,
        shmBytes: 8 * 1024 * 1024,
        capabilities: { add: ['CHOWN', 'SETUID'], drop: ['ALL', 'MKNOD', 'NET_RAW'] },
      });
    });

    test('have raw packets only where they were added', async () => {
      const id = await create({}, { capabilities: { drop: ['ALL'], add: ['NET_RAW', 'CHOWN'] } });
      expect(await inspect(id)).toMatchObject({ capabilities: { add: ['CHOWN', 'NET_RAW'], drop: ['ALL', 'MKNOD'] } });
    });

    test('without settings show those of every container', async () => {
      expect(await inspect(await create({}))).toMatchObject({
        entrypoint: [],
        user: '',
        readOnlyRoot: false,
        stopSignal: '',
        processes: 4096,
        oomScoreAdj: 500,
        shmBytes: 64 * 1024 * 1024,
        capabilities: { add: [], drop: ['MKNOD', 'NET_RAW'] },
        mounts: [],
        networks: [{ name: rig.network, aliases: ['test'] }],
      });
    });

    test('are asked to end by the signal of their own', async () => {
      const id = await startReady({ stopsOn: 'SIGUSR1' }, { stopSignal: 'SIGUSR1' });
      await rig.runtime.stop(id, 20, signal());
      expect(await inspect(id)).toMatchObject({ state: 'exited', exitCode: 0 });
      const deaf = await startReady({ stopsOn: 'SIGUSR1' });
      await rig.runtime.stop(deaf, 1, signal());
      expect(await inspect(deaf)).toMatchObject({ state: 'exited', exitCode: 137 });
    });

    test('are given files of the server and folders in memory', async () => {
      const source = await rig.file('secret');
      const mounts = [
        { type: 'tmpfs', path: '/scratch', sizeBytes: 1024 * 1024, mode: 0o1777 },
        { type: 'file', source, path: '/etc/secret' },
      ] as const;
      const id = await start({}, { mounts });
      expect((await inspect(id)).mounts).toEqual([
        { type: 'file', source, path: '/etc/secret', readOnly: true, sizeBytes: 0 },
        { type: 'tmpfs', source: '', path: '/scratch', readOnly: false, sizeBytes: 1024 * 1024 },
      ]);
      expect(await rig.read(id, '/etc/secret')).toBe('secret');
      expect(await rig.write(id, '/etc/secret', 'other')).toBe(false);
      expect(await rig.write(id, '/scratch/file', 'here')).toBe(true);
      expect(await rig.read(id, '/scratch/file')).toBe('here');
      await rig.runtime.stop(id, 20, signal());
      await rig.runtime.start(id, signal());
      expect(await rig.read(id, '/scratch/file')).toBeUndefined();
    });

    test('with a read-only root write into their mounts only', async () => {
      const mounts = [{ type: 'tmpfs', path: '/scratch', sizeBytes: 1024 * 1024 }] as const;
      const id = await start({}, { mounts, readOnlyRoot: true });
      expect(await rig.write(id, '/file', 'x')).toBe(false);
      expect(await rig.write(id, '/scratch/file', 'x')).toBe(true);
      expect(await rig.write(await start({}), '/file', 'x')).toBe(true);
    });

    test('whose file is missing on the server are not made, and no folder is made in its place', async () => {
      const source = `${await rig.file('secret')}.missing`;
      const tried = create({}, { mounts: [{ type: 'file', source, path: '/etc/secret' }] });
      await expect(tried).rejects.toMatchObject({ code: 'create_failed', message: expect.stringContaining(source) });
      expect(existsSync(source)).toBe(false);
    });

    test('are measured by what they wrote into their own layer', async () => {
      const id = await start({});
      const before = await rig.runtime.written(id, signal());
      await rig.writeByHand(id, 3 * 1024 * 1024);
      const after = await rig.runtime.written(id, signal());
      expect(after! - before!).toBeGreaterThanOrEqual(3 * 1024 * 1024);
      expect(after! - before!).toBeLessThan(4 * 1024 * 1024);
    });

    test('are measured by what they have used since their start, whether or not their process is known', async () => {
      const id = await startReady({});
      const { pid } = await inspect(id);
      for (const known of [pid, 0]) {
        const before = await rig.runtime.usage({ id, pid: known }, signal());
        expect(before).toMatchObject({ receivedBytes: expect.any(Number), sentBytes: expect.any(Number) });
        expect(before!.memoryBytes).toBeGreaterThan(0);
        await rig.runtime.run(id, rig.program({ counts: 300_000 }), { timeoutMs: 60_000 }, signal());
        const after = await rig.runtime.usage({ id, pid: known }, signal());
        // A program of the mock engine takes no time.
        const used = after!.cpuMs - before!.cpuMs;
        if (rig.runtime.name === 'mock') expect(used).toBe(0);
        else expect(used).toBeGreaterThan(1);
      }
    });

    test('that do not run are not measured', async () => {
      const id = await startReady({});
      const { pid } = await inspect(id);
      await rig.runtime.stop(id, 10, signal());
      for (const known of [pid, 0]) expect(await rig.runtime.usage({ id, pid: known }, signal())).toBeUndefined();
    });

    test('that do not exist are undefined', async () => {
      expect(await rig.runtime.inspect(absent, signal())).toBeUndefined();
      expect(await rig.runtime.written(absent, signal())).toBeUndefined();
      expect(await rig.runtime.usage({ id: absent, pid: 0 }, signal())).toBeUndefined();
    });

    test('of a name that exists are not made', async () => {
      const spec = rig.spec({});
      await rig.runtime.create(spec, signal());
      await expect(rig.runtime.create(spec, signal())).rejects.toMatchObject({
        code: 'name_taken',
        message: `A container named ${spec.name} exists already`,
      });
    });

    test('of an image that is not here are not made', async () => {
      const spec = rig.spec({}, { image: 'setpoint-test/absent:1' });
      await expect(rig.runtime.create(spec, signal())).rejects.toMatchObject({ code: 'image_not_found' });
    });

    test('whose program does not exist are not tried again', async () => {
      const id = await rig.runtime.create(rig.unstartable(), signal());
      await expect(rig.runtime.start(id, signal())).rejects.toMatchObject({
        code: 'create_failed',
        retryable: false,
        message: expect.stringMatching(/^Cannot start the container: exec: "\/bin\/missing": /),
      });
      expect((await inspect(id)).state).not.toBe('running');
    });

    test('of a network that does not exist do not run', async () => {
      const tried = start({}, on('sp-absent'));
      await expect(tried).rejects.toMatchObject({ code: 'create_failed' });
    });

    test('are started once however often it is asked', async () => {
      const id = await start({});
      const { startedAt } = await inspect(id);
      await rig.runtime.start(id, signal());
      expect((await inspect(id)).startedAt).toBe(startedAt);
    });

    test('that exit keep their code', async () => {
      const id = await start({ exitCode: 3 });
      expect(await exited(id)).toMatchObject({ exitCode: 3, oomKilled: false, addresses: {}, pid: 0 });
      expect((await inspect(id)).finishedAt).not.toBe('');
    });

    test('are stopped once however often it is asked', async () => {
      const id = await startReady({});
      await rig.runtime.stop(id, 20, signal());
      expect(await inspect(id)).toMatchObject({ state: 'exited', exitCode: 0 });
      await rig.runtime.stop(id, 20, signal());
      await rig.runtime.stop(absent, 1, signal());
    });

    test('that do not stop when asked are killed', async () => {
      const id = await startReady({ ignoreTerm: true });
      await rig.runtime.stop(id, 1, signal());
      expect(await inspect(id)).toMatchObject({ state: 'exited', exitCode: 137 });
    });

    test('are removed whether they run or not', async () => {
      const running = await start({});
      const made = await create({});
      for (const id of [running, made, running, absent]) await rig.runtime.remove(id, signal());
      expect(await rig.runtime.inspect(running, signal())).toBeUndefined();
      expect(await rig.runtime.inspect(made, signal())).toBeUndefined();
    });

    test('are removed by two who ask at once', async () => {
      const id = await start({});
      await Promise.all([rig.runtime.remove(id, signal()), rig.runtime.remove(id, signal())]);
      expect(await rig.runtime.inspect(id, signal())).toBeUndefined();
    });

    test('with a restart policy come back until it is taken from them', async () => {
      const id = await start({ exitCode: 1 });
      await exited(id);
      await rig.runtime.setRestart(id, 'unless-stopped', signal());
      await rig.runtime.start(id, signal());
      await reached(id, 'two restarts', (it) => it.restartCount >= 2);
      await rig.runtime.setRestart(id, 'no', signal());
      await exited(id);
      await rig.runtime.start(id, signal());
      expect((await inspect(id)).restartCount).toBe(0);
    });

    test('with a restart policy stay stopped when they are stopped', async () => {
      const id = await start({ exitCode: 1 }, { restart: 'unless-stopped' });
      await reached(id, 'a restart', (it) => it.restartCount >= 1);
      await rig.runtime.stop(id, 1, signal());
      expect((await inspect(id)).state).toBe('exited');
    });

    test('show the result of the health check of their image while they run', async () => {
      expect(await inspect(await create({ health: 'passes' }))).not.toHaveProperty('health');
      expect(await inspect(await start({}))).not.toHaveProperty('health');
      const sound = await start({ health: 'passes' });
      await reached(sound, 'the check passed', ({ health }) => health === 'healthy');
      await rig.runtime.stop(sound, 20, signal());
      expect(await inspect(sound)).not.toHaveProperty('health');
      const sick = await start({ health: 'fails' });
      await reached(sick, 'the check failed', ({ health }) => health === 'unhealthy');
    });

    test('that somebody paused go on', async () => {
      const id = await start({});
      await rig.pauseByHand(id);
      expect((await inspect(id)).state).toBe('paused');
      await rig.runtime.unpause(id, signal());
      expect((await inspect(id)).state).toBe('running');
      await rig.runtime.unpause(id, signal());
    });
  });

  describe('programs in a container', () => {
    const run = (id: string, what: Program, options: Partial<RunOptions> = {}): Promise<RunResult> =>
      rig.runtime.run(id, rig.program(what), { timeoutMs: 20_000, ...options }, signal());

    test('end with their code and the end of their output', async () => {
      const id = await start({});
      expect(await run(id, { counts: 3 })).toEqual({ exitCode: 0, output: '1\n2\n3\n' });
      expect(await run(id, { exitCode: 3 })).toEqual({ exitCode: 3, output: '' });
      const { output } = await run(id, { counts: 5000 });
      expect(output).toHaveLength(4096);
      expect(output.endsWith('\n4999\n5000\n')).toBe(true);
    });

    test('run as the user that was asked for', async () => {
      const id = await start({});
      expect((await run(id, { tellsUser: true })).output).toBe('0\n');
      expect((await run(id, { tellsUser: true }, { user: '1234' })).output).toBe('1234\n');
    });

    test('are not waited for beyond their deadline, and not started again while they go on', async () => {
      const id = await start({});
      const slow = { counts: 2, takesMs: 2_000 };
      const first = await run(id, slow, { timeoutMs: 300 });
      expect(first.exitCode).toBeUndefined();
      // on a busy machine its start takes longer
      expect('1\n2\n'.startsWith(first.output)).toBe(true);
      expect(await run(id, slow)).toEqual({ exitCode: undefined, output: '' });
      expect(await run(id, { counts: 1 })).toEqual({ exitCode: 0, output: '1\n' });
      const again = await until('it ended', async () => {
        const result = await run(id, slow);
        return result.exitCode !== undefined && result;
      });
      expect(again).toEqual({ exitCode: 0, output: '1\n2\n' });
    });

    test('need a container that runs', async () => {
      const made = await create({});
      for (const id of [made, absent]) await expect(run(id, {})).rejects.toMatchObject({ code: 'exited' });
      const stopped = await start({});
      const outcome = run(stopped, { takesMs: 30_000 }).then(
        ({ exitCode }) => exitCode,
        (error: RuntimeFailure) => error.code,
      );
      await rig.runtime.remove(stopped, signal());
      // The engine tells of the container's end, or of that of the program.
      expect(await outcome).toSatisfy((it) => it === 'exited' || (typeof it === 'number' && it > 0));
    });
  });

  describe('output', () => {
    test('is complete for who attached before the start', async () => {
      const id = await create({ lines: ['one', 'two'], exitCode: 0 });
      const attached = Promise.withResolvers<void>();
      const chunks = rig.runtime.output(id, { attached: attached.resolve }, signal());
      await attached.promise;
      await rig.runtime.start(id, signal());
      expect(text(await collect(chunks))).toBe('one\ntwo\n');
    });

    test('is complete for who attached before a further start, however late that comes', async () => {
      const id = await start({ lines: ['one', 'two'], exitCode: 0 });
      await exited(id);
      const attached = Promise.withResolvers<void>();
      const chunks = collect(rig.runtime.output(id, { attached: attached.resolve }, signal()));
      await attached.promise;
      await pause(600);
      await rig.runtime.start(id, signal());
      expect(text(await chunks)).toBe('one\ntwo\n');
    });

    test('of the past comes from the record, with the times of the engine', async () => {
      const since = new Date().toISOString();
      const id = await start({ lines: ['one', 'two'], exitCode: 0 });
      await exited(id);
      const chunks = await collect(rig.runtime.output(id, { since }, signal()));
      expect(text(chunks)).toBe('one\ntwo\n');
      for (const { at } of chunks) expect(Date.parse(at!)).toBeGreaterThanOrEqual(Date.parse(since));
      expect(await collect(rig.runtime.output(id, { since: '2100-01-01T00:00:00Z' }, signal()))).toEqual([]);
    });

    test('has no gap and no repetition where the record ends', async () => {
      const lines = Array.from({ length: 60 }, (_, n) => `line ${n}`);
      const since = new Date().toISOString();
      const id = await start({ lines, everyMs: 10, exitCode: 0 });
      const chunks = await collect(rig.runtime.output(id, { since }, signal()));
      expect(text(chunks)).toBe(lines.map((line) => `${line}\n`).join(''));
    });

    test('tells once where the record ends, also if nothing follows', async () => {
      const since = new Date().toISOString();
      const id = await start({ lines: ['one'] });
      const enough = new AbortController();
      const seen: OutputChunk[] = [];
      const ends: number[] = [];
      const recorded = (): void => {
        ends.push(seen.length);
        enough.abort(new Error('Enough'));
      };
      const over = AbortSignal.any([enough.signal, signal()]);
      const reading = (async () => {
        for await (const chunk of rig.runtime.output(id, { since, recorded }, over)) seen.push(chunk);
      })();
      await expect(reading).rejects.toThrow('Enough');
      expect(ends).toEqual([seen.filter(({ at }) => at !== undefined).length]);
    });

    test('of a container that does not exist is empty', async () => {
      expect(await collect(rig.runtime.output(absent, { since: '2020-01-01T00:00:00Z' }, signal()))).toEqual([]);
    });

    test('ends with the reason of its signal', async () => {
      const id = await start({});
      const enough = new AbortController();
      const reading = collect(
        rig.runtime.output(id, { attached: () => enough.abort(new Error('Enough')) }, enough.signal),
      );
      await expect(reading).rejects.toThrow('Enough');
    });
  });

  describe('events', () => {
    test('report this server from the moment of the call', async () => {
      const enough = new AbortController();
      const events = rig.runtime.events(rig.server, AbortSignal.any([enough.signal, signal()]));
      const id = await start({ exitCode: 3 });
      await exited(id);
      await rig.runtime.remove(id, signal());
      const seen: RuntimeEvent[] = [];
      for await (const event of events) {
        if (event.action !== 'disconnect') expect(event.labels[labels.server]).toBe(rig.server);
        if (event.containerId === id) seen.push(event);
        if (event.containerId === id && event.action === 'destroy') break;
      }
      expect(seen.map(({ action }) => action)).toEqual(expect.arrayContaining(['create', 'start', 'die', 'destroy']));
      expect(seen.find(({ action }) => action === 'die')?.exitCode).toBe(3);
      const times = seen.map(({ at }) => at);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
    });

    test('report that a container left its network, which shows in its details only', async () => {
      const id = await start({});
      const enough = new AbortController();
      const events = rig.runtime.events(rig.server, AbortSignal.any([enough.signal, signal()]));
      expect((await inspect(id)).addresses).toHaveProperty([rig.network]);
      await rig.disconnectByHand(id);
      for await (const event of events) if (event.containerId === id && event.action === 'disconnect') break;
      expect(await inspect(id)).toMatchObject({ state: 'running', addresses: {} });
      await rig.runtime.remove(id, signal());
    });

    test('end by the signal only', async () => {
      const enough = new AbortController();
      const reading = collect(rig.runtime.events(rig.server, enough.signal));
      enough.abort(new Error('Enough'));
      await expect(reading).rejects.toThrow('Enough');
    });
  });

  describe('networks', () => {
    const bears = (name: string): Record<string, string> => ({
      [labels.server]: rig.server,
      'setpoint.test-name': name,
    });

    test('are made once however often it is asked', async () => {
      const name = `sp-${rig.server.slice(0, 8)}a`;
      await Promise.all([1, 2, 3].map(() => rig.runtime.ensureNetwork(name, bears(name), signal())));
      await rig.runtime.ensureNetwork(name, bears(name), signal());
      expect(await rig.runtime.networks(bears(name), signal())).toEqual([name]);
      await rig.runtime.removeNetwork(name, signal());
      await rig.runtime.removeNetwork(name, signal());
      expect(await rig.runtime.networks(bears(name), signal())).toEqual([]);
    });

    test('of strangers are not taken', async () => {
      const refused = rig.runtime.ensureNetwork(rig.network, { [labels.server]: 'another' }, signal());
      await expect(refused).rejects.toMatchObject({ code: 'name_taken' });
    });

    test('are made once although the first who asked did not wait for the answer', async () => {
      const name = `sp-${rig.server.slice(0, 8)}d`;
      const impatient = new AbortController();
      const first = rig.runtime.ensureNetwork(name, bears(name), impatient.signal);
      setTimeout(() => impatient.abort(new Error('impatient')), 5);
      await first.catch(() => undefined);
      await rig.runtime.ensureNetwork(name, bears(name), signal());
      const id = await start({}, on(name));
      expect(Object.keys((await inspect(id)).addresses)).toEqual([name]);
      await rig.runtime.remove(id, signal());
      await rig.runtime.removeNetwork(name, signal());
    });

    test('that were removed and made again are used again', async () => {
      const name = `sp-${rig.server.slice(0, 8)}c`;
      await rig.runtime.ensureNetwork(name, bears(name), signal());
      await rig.removeNetworkByHand(name);
      await expect(start({}, on(name))).rejects.toMatchObject({ code: 'create_failed' });
      await rig.makeNetworkByHand(name, bears(name));
      const id = await start({}, on(name));
      expect(Object.keys((await inspect(id)).addresses)).toEqual([name]);
      await rig.runtime.remove(id, signal());
      await rig.runtime.removeNetwork(name, signal());
    });

    test('of one container are all joined before its start', async () => {
      const [first, second] = [`sp-${rig.server.slice(0, 8)}f`, `sp-${rig.server.slice(0, 8)}e`] as const;
      for (const name of [first, second]) await rig.runtime.ensureNetwork(name, bears(name), signal());
      const spec = rig.spec({}, on(first, second));
      const id = await rig.runtime.create(spec, signal());
      const networks = [
        { name: second, aliases: [`in-${second}`] },
        { name: first, aliases: [`in-${first}`] },
      ];
      expect((await inspect(id)).networks).toEqual(networks);
      await expect(rig.runtime.create(spec, signal())).rejects.toMatchObject({ code: 'name_taken' });
      await rig.runtime.start(id, signal());
      const running = await inspect(id);
      expect(running.networks).toEqual(networks);
      expect(Object.keys(running.addresses).toSorted()).toEqual([second, first]);
      await rig.runtime.remove(id, signal());
      for (const name of [first, second]) await rig.runtime.removeNetwork(name, signal());
    });

    test('that a container needs besides its first are not optional', async () => {
      const tried = start({}, on(rig.network, 'sp-absent'));
      await expect(tried).rejects.toMatchObject({ code: 'create_failed' });
      const running = (await rig.runtime.list(rig.server, signal())).filter(({ state }) => state === 'running');
      for (const { id } of running) expect(await inspect(id)).not.toHaveProperty('networks.1');
    });

    test('in use stay', async () => {
      const name = `sp-${rig.server.slice(0, 8)}b`;
      await rig.runtime.ensureNetwork(name, bears(name), signal());
      const id = await start({}, on(name));
      await rig.runtime.removeNetwork(name, signal());
      expect(await rig.runtime.networks(bears(name), signal())).toEqual([name]);
      await rig.runtime.remove(id, signal());
      await rig.runtime.removeNetwork(name, signal());
    });
  });

  describe('volumes', () => {
    const bears = (name: string): Record<string, string> => ({
      [labels.server]: rig.server,
      'setpoint.test-name': name,
    });
    const at = (volume: string, path: string, more: { readOnly?: boolean; copy?: boolean } = {}) =>
      ({ mounts: [{ type: 'volume', volume, path, readOnly: false, ...more }] }) as const;

    async function made(suffix: string): Promise<string> {
      const name = `sp-${rig.server.slice(0, 8)}-${suffix}`;
      await rig.runtime.ensureVolume(name, bears(name), signal());
      return name;
    }

    test('are made once however often it is asked, and found by name and label', async () => {
      const name = await made('once');
      await Promise.all([1, 2, 3].map(() => rig.runtime.ensureVolume(name, bears(name), signal())));
      expect(await rig.runtime.volumes(bears(name), signal())).toEqual([{ name, labels: bears(name) }]);
      const { path, ...found } = (await rig.runtime.volume(name, signal()))!;
      expect(found).toEqual({ name, labels: bears(name) });
      if (path !== undefined) expect(await readdir(path)).toEqual([]);
      expect(await rig.runtime.volume(`${name}-absent`, signal())).toBeUndefined();
      expect(await rig.runtime.volumes({ ...bears(name), [labels.server]: 'another' }, signal())).toEqual([]);
    });

    test('are open to every user while nothing is in them', async () => {
      const name = await made('users');
      const writer = await start({}, { ...at(name, '/data'), user: '12345:12345' });
      expect(await rig.write(writer, '/data/file', 'kept')).toBe(true);
      await rig.runtime.remove(writer, signal());
      const { path } = (await rig.runtime.volume(name, signal()))!;
      if (path !== undefined) await chmod(path, 0o700);
      await rig.runtime.ensureVolume(name, bears(name), signal());
      if (path !== undefined) expect((await stat(path)).mode & 0o777).toBe(0o700);
    });

    test('of strangers are neither taken nor removed', async () => {
      const name = await made('taken');
      const refused = rig.runtime.ensureVolume(name, { [labels.server]: 'another' }, signal());
      await expect(refused).rejects.toMatchObject({ code: 'name_taken' });
      const foreign = `${name}-foreign`;
      await rig.makeVolumeByHand(foreign);
      const taking = rig.runtime.ensureVolume(foreign, bears(foreign), signal());
      await expect(taking).rejects.toMatchObject({ code: 'name_taken' });
      await expect(rig.runtime.removeVolume(foreign, {}, signal())).rejects.toMatchObject({ code: 'name_taken' });
      expect(await rig.runtime.volume(foreign, signal())).toMatchObject({ labels: {} });
    });

    test('that were made by hand in place of others are opened while empty, and removed as those would be', async () => {
      const name = `sp-${rig.server.slice(0, 8)}-again`;
      await rig.makeVolumeByHand(name);
      await rig.runtime.openVolume(name, signal());
      const { path } = (await rig.runtime.volume(name, signal()))!;
      if (path !== undefined) expect((await stat(path)).mode & 0o777).toBe(0o777);
      const writer = await start({}, { ...at(name, '/data'), user: '12345:12345' });
      expect(await rig.write(writer, '/data/file', 'kept')).toBe(true);
      await rig.runtime.remove(writer, signal());
      if (path !== undefined) await chmod(path, 0o700);
      await rig.runtime.openVolume(name, signal());
      if (path !== undefined) expect((await stat(path)).mode & 0o777).toBe(0o700);
      for (const _ of [1, 2]) await rig.runtime.removeVolume(name, { alsoUnlabelled: true }, signal());
      expect(await rig.runtime.volume(name, signal())).toBeUndefined();
      await rig.runtime.openVolume(name, signal());
      expect(await rig.runtime.volume(name, signal())).toBeUndefined();
    });

    test('outlive their containers with their content, which goes with them', async () => {
      const name = await made('content');
      const first = await start({}, at(name, '/data'));
      expect((await inspect(first)).mounts).toEqual([
        { type: 'volume', source: name, path: '/data', readOnly: false, sizeBytes: 0 },
      ]);
      expect(await rig.write(first, '/data/file', 'kept')).toBe(true);
      await rig.runtime.remove(first, signal());
      const second = await start({}, at(name, '/elsewhere', { readOnly: true }));
      expect((await inspect(second)).mounts).toMatchObject([{ source: name, path: '/elsewhere', readOnly: true }]);
      expect(await rig.read(second, '/elsewhere/file')).toBe('kept');
      expect(await rig.write(second, '/elsewhere/file', 'other')).toBe(false);
      await rig.runtime.remove(second, signal());
      for (const _ of [1, 2]) await rig.runtime.removeVolume(name, {}, signal());
      expect(await rig.runtime.volume(name, signal())).toBeUndefined();
      await made('content');
      expect(await rig.read(await start({}, at(name, '/data')), '/data/file')).toBeUndefined();
    });

    test('in use stay', async () => {
      const name = await made('used');
      const id = await create({}, at(name, '/data'));
      await expect(rig.runtime.removeVolume(name, {}, signal())).rejects.toMatchObject({
        code: 'in_use',
        message: `Cannot remove volume ${name}: a container uses it`,
      });
      expect(await rig.runtime.volume(name, signal())).toBeDefined();
      await rig.runtime.remove(id, signal());
      await rig.runtime.removeVolume(name, {}, signal());
    });

    test('that are missing keep a container from being made, and are not made for it', async () => {
      const name = `sp-${rig.server.slice(0, 8)}-missing`;
      const spec = rig.spec({}, at(name, '/data'));
      await expect(rig.runtime.create(spec, signal())).rejects.toMatchObject({
        code: 'data_lost',
        message: `Cannot create container ${spec.name}: volume ${name} does not exist`,
      });
      expect(await rig.runtime.volume(name, signal())).toBeUndefined();
      expect((await rig.runtime.list(rig.server, signal())).map((it) => it.name)).not.toContain(spec.name);
    });

    test('without a name go with their container, and those with a name stay', async () => {
      const name = await made('named');
      const id = await start({ health: 'passes' }, at(name, '/data'));
      const { mounts } = await inspect(id);
      expect(mounts.map(({ path, type }) => [path, type])).toEqual([
        ['/cache', 'volume'],
        ['/data', 'volume'],
      ]);
      const [anonymous] = mounts;
      expect(await rig.runtime.volume(anonymous!.source, signal())).toBeDefined();
      await rig.runtime.remove(id, signal());
      expect(await rig.runtime.volume(anonymous!.source, signal())).toBeUndefined();
      expect(await rig.runtime.volume(name, signal())).toBeDefined();
    });

    test('that are empty get what the image has at their path, unless that is not wanted', async () => {
      const [filled, bare, used] = [await made('filled'), await made('bare'), await made('used-before')];
      const rich = { health: 'passes' } as const;
      expect(await rig.read(await start(rich, at(filled, '/seed')), '/seed/greeting')).toBe('hello\n');
      expect(await rig.read(await start(rich, at(bare, '/seed', { copy: false })), '/seed/greeting')).toBeUndefined();
      await rig.write(await start({}, at(used, '/data')), '/data/own', 'mine');
      const last = await start(rich, at(used, '/seed'));
      expect(await rig.read(last, '/seed/greeting')).toBeUndefined();
      expect(await rig.read(last, '/seed/own')).toBe('mine');
    });

    test('of strangers show what can write to them, running or not, and may be copied; those of an agent may not', async () => {
      const name = `theirs-${crypto.randomUUID().slice(0, 8)}`;
      expect(await rig.runtime.copySource(name, signal())).toBeUndefined();
      await rig.makeVolumeByHand(name);
      expect(await rig.runtime.copySource(name, signal())).toEqual({ writers: [] });
      const [running, idle] = [await start({}, at(name, '/data')), await create({}, at(name, '/elsewhere'))];
      const reader = await start({}, at(name, '/data', { readOnly: true }));
      const shown = async () => {
        const { writers = [] } = (await rig.runtime.copySource(name, signal())) ?? {};
        return new Map(writers.map((one) => [one.id, one]));
      };
      const before = await shown();
      const { name: itsName, startedAt } = await inspect(running);
      expect(before.get(running)).toEqual({ id: running, name: itsName, isLive: true, startedAt });
      expect(before.get(idle)).toMatchObject({ isLive: false, startedAt: '' });
      expect(before.has(reader)).toBe(false);
      await rig.runtime.stop(running, 0, signal());
      expect((await shown()).get(running)).toMatchObject({ isLive: false, startedAt });
      for (const id of [running, idle, reader]) await rig.runtime.remove(id, signal());

      const own = await rig.runtime.copySource(await made('not-copied'), signal());
      expect(own).toEqual({ refusal: expect.stringContaining('was made by Setpoint'), writers: [] });
    });

    test('are measured by their content', async () => {
      const name = await made('measured');
      expect(await rig.runtime.volumeUsage(name, signal())).toBe(0);
      await rig.write(await start({}, at(name, '/data')), '/data/file', 'x'.repeat(100_000));
      const bytes = await rig.runtime.volumeUsage(name, signal());
      expect(bytes).toBeGreaterThanOrEqual(100_000);
      expect(bytes).toBeLessThan(110_000);
      expect(await rig.runtime.volumeUsage(`${name}-absent`, signal())).toBeUndefined();
    });
  });

  test('the connections of a container are counted, and none while it does not run', async () => {
    const id = await start({});
    const { pid } = await inspect(id);
    expect(await rig.runtime.connections({ id, pid }, signal())).toBe(0);
    await rig.runtime.stop(id, 0, signal());
    const { pid: gone } = await inspect(id);
    expect(await rig.runtime.connections({ id, pid: gone }, signal())).toBe(0);
    expect(await rig.runtime.connections({ id: absent, pid: 0 }, signal())).toBe(0);
  });

  describe('images', () => {
    test('are found by reference and by id', async () => {
      const { image } = rig.spec({});
      const found = (await rig.runtime.image(image, signal()))!;
      expect(found).toMatchObject({ id: expect.stringMatching(/^sha256:[0-9a-f]{64}$/), digest: found.id });
      expect(await rig.runtime.image(found.id, signal())).toEqual(found);
      expect(await rig.runtime.image('setpoint-test/absent:1', signal())).toBeUndefined();
    });

    test('are pulled with their digest', async () => {
      const { image, digest } = rig.registry;
      expect(await rig.runtime.image(image, signal())).toBeUndefined();
      const seen: PullProgress[] = [];
      const pulled = await rig.runtime.pull(image, signal(), (progress) => void seen.push(progress));
      expect(pulled.digest).toBe(digest);
      const last = seen.at(-1);
      expect(last).toMatchObject({ layers: 1, layersDone: 1, layersPresent: 0 });
      expect(last?.bytes).toBe(last?.totalBytes ?? 0); // an engine that is fast may tell of no bytes
      expect(await rig.runtime.image(image, signal())).toEqual(pulled);
      expect(await rig.runtime.image(digest, signal())).toEqual(pulled);
      await rig.runtime.removeImage(pulled.id, signal());
      expect(await rig.runtime.image(image, signal())).toBeUndefined();
      expect(await rig.runtime.pull(digest, signal())).toEqual(pulled);
    });

    test('that the registry does not have are not tried again', async () => {
      const pulling = rig.runtime.pull(rig.registry.missing, signal());
      await expect(pulling).rejects.toMatchObject({ code: 'image_not_found', retryable: false });
    });

    test('that the registry keeps to itself are not tried again', async () => {
      const pulling = rig.runtime.pull(rig.registry.forbidden, signal());
      await expect(pulling).rejects.toMatchObject({ code: 'image_pull_failed', retryable: false });
    });

    test('in use stay', async () => {
      const id = await create({});
      const { imageId } = await inspect(id);
      await rig.runtime.removeImage(imageId, signal());
      expect(await rig.runtime.image(imageId, signal())).toBeDefined();
      await rig.runtime.removeImage(`sha256:${absent}`, signal());
    });
  });

  describe('builds', () => {
    test('end with an image that bears their labels, and report their lines', async () => {
      const first = rig.build('first', true);
      const second = rig.build('second', true);
      const lines: string[] = [];
      const built = await rig.runtime.build(first, (line) => lines.push(line), signal());
      expect(lines).toContain('first');
      expect(await rig.runtime.image(first.tag, signal())).toEqual(built);
      // The engine tells the age of images in seconds.
      const then = Math.floor(Date.now() / 1000);
      await until('another second', async () => Math.floor(Date.now() / 1000) > then);
      const later = await rig.runtime.build(second, () => undefined, signal());
      const own = await rig.runtime.images({ [labels.server]: rig.server }, signal());
      expect(own.map(({ id }) => id)).toEqual([later.id, built.id]);
      expect(await rig.runtime.images(first.labels, signal())).toEqual([
        { id: built.id, names: [first.tag], labels: expect.objectContaining(first.labels), madeAt: expect.any(Number) },
      ]);
    });

    test('belong to their server under the name of an agent, and not under one that a user gave', async () => {
      const made = async (tag: string, type: string) => {
        const { labels: given, ...options } = rig.build(tag, true);
        const own = { ...options, tag, labels: { ...given, [labels.type]: type } };
        return (await rig.runtime.build(own, () => undefined, signal())).id;
      };
      const name = crypto.randomUUID();
      const own = await made(`setpoint/${name}:1`, 'build');
      const derived = await made(`debug-${name}:1`, 'build');
      const committed = await made(`evidence-${name}:1`, 'service');
      const all = await rig.runtime.belongings(signal());
      const { images = [] } = all.find(({ server }) => server === rig.server) ?? {};
      expect(images).toContain(own);
      expect(images).not.toContain(derived);
      expect(images).not.toContain(committed);
    });

    test('that fail say why', async () => {
      const lines: string[] = [];
      const building = rig.runtime.build(rig.build('fails', false), (line) => lines.push(line), signal());
      await expect(building).rejects.toMatchObject({
        code: 'build_failed',
        retryable: false,
        message: expect.stringMatching(/^Build failed/),
      });
      expect(lines).toContain('fails');
    });
  });

  test('every call ends with the reason of its signal', async () => {
    const given = AbortSignal.abort(new Error('Given up'));
    const { runtime } = rig;
    const calls = [
      () => runtime.version(given),
      () => runtime.list(rig.server, given),
      () => runtime.inspect(absent, given),
      () => runtime.create(rig.spec({}), given),
      () => runtime.start(absent, given),
      () => runtime.stop(absent, 1, given),
      () => runtime.unpause(absent, given),
      () => runtime.remove(absent, given),
      () => runtime.run(absent, ['true'], { timeoutMs: 1000 }, given),
      () => runtime.setRestart(absent, 'no', given),
      () => runtime.image('a:1', given),
      () => runtime.pull('a:1', given),
      () => runtime.build(rig.build('never', true), () => undefined, given),
      () => runtime.images({}, given),
      () => runtime.removeImage('a:1', given),
      () => runtime.ensureNetwork('sp-never', {}, given),
      () => runtime.removeNetwork('sp-never', given),
      () => runtime.networks({}, given),
      () => runtime.ensureVolume('sp-never', {}, given),
      () => runtime.volume('sp-never', given),
      () => runtime.volumes({}, given),
      () => runtime.removeVolume('sp-never', {}, given),
      () => runtime.openVolume('sp-never', given),
      () => runtime.volumeUsage('sp-never', given),
      () => runtime.copySource('sp-never', given),
      () => runtime.foreign(given),
      () => runtime.foreignValues([absent], given),
      () => collect(runtime.output(absent, {}, given)),
      () => collect(runtime.events(rig.server, given)),
    ];
    for (const call of calls) await expect(call()).rejects.toThrow('Given up');
  });
});

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of source) all.push(one);
  return all;
}

function text(chunks: readonly OutputChunk[]): string {
  return Buffer.concat(chunks.map(({ data }) => data)).toString();
}
