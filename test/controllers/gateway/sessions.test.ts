import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WireReport } from '../../../agent-protocol/assignment.ts';
import { rewound, unavailable } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { settle } from '../../harness/fake-clock.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { InterruptibleStore } from '../../harness/interruptible-store.ts';
import { LaggingStore } from '../../harness/lagging-store.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';

let world: GatewayWorld;
let replica: TestReplica;
let agents: RawAgent[];

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
  agents = [];
});

afterEach(async () => {
  for (const { session, socket } of agents) {
    session.goodbye('Test ends');
    socket.terminate();
  }
  await world[Symbol.asyncDispose]();
});

async function agentOf(
  server: { id: string; token?: string },
  options: Partial<Parameters<typeof rawAgent>[1]> & { at?: TestReplica } = {},
): Promise<RawAgent> {
  const { at = replica, ...rest } = options;
  const token = server.token === undefined ? {} : { token: server.token };
  const agent = rawAgent(at.url, { server: server.id, key: agentKey(), ...token, ...rest });
  agents.push(agent);
  expect(await agent.outcome).toBe('welcome');
  return agent;
}

const observedOf = async (id: string) => (await world.repo.get('assignment', id))?.observed;

/** Sends a report past the pump, as a faulty agent would, and answers what was rejected. */
async function sendReport(agent: RawAgent, items: WireReport[], seq = 1000): Promise<unknown> {
  const answer = Promise.withResolvers<unknown>();
  const listen = (data: unknown): void => {
    const message = JSON.parse(String(data)) as { type: string; seq?: number; rejected?: unknown };
    if (message.type === 'report_ack' && message.seq === seq) answer.resolve(message.rejected);
  };
  agent.socket.on('message', listen);
  agent.socket.send(JSON.stringify({ type: 'report', seq, full: false, items }));
  const rejected = await Promise.race([answer.promise, agent.ended]);
  agent.socket.off('message', listen);
  return rejected;
}

/** Resolves when the control plane has taken all that the agent sent so far, and had some turns to act on it. */
async function hasHeard(agent: RawAgent): Promise<void> {
  const n = 4242;
  const heard = new Promise<void>((resolve) => {
    agent.socket.on('message', (data) => (data as Buffer).toString() === `{"type":"beat_ack","n":${n}}` && resolve());
  });
  agent.socket.send(JSON.stringify({ type: 'beat', n, load: agent.backend.load() }));
  await heard;
  await settle();
}

describe('SEC-54: an agent can write of its own assignments only', () => {
  it('and not of those of another server or of none', async () => {
    const [mine, other] = [await world.server(), await world.server()];
    const foreign = await world.assignment(other.id);
    const agent = await agentOf(mine);
    const unknown = { id: '00000000-0000-4000-8000-000000000000', generation: 1 };
    const rejected = await sendReport(agent, [running({ ...foreign.meta }), running(unknown)]);
    expect(rejected).toEqual([
      { id: foreign.meta.id, why: 'not_assigned' },
      { id: unknown.id, why: 'not_assigned' },
    ]);
    expect(await observedOf(foreign.meta.id)).toBeUndefined();
  });

  it('and not release what was not deleted, or what is of another server', async () => {
    const [mine, other] = [await world.server(), await world.server()];
    const [own, foreign] = [await world.assignment(mine.id), await world.assignment(other.id)];
    await world.delete('assignment', foreign.meta.id);
    const agent = await agentOf(mine);
    const gone = (id: string): WireReport => ({ ...running({ id, generation: 1 }), gone: true });
    await sendReport(agent, [gone(own.meta.id), gone(foreign.meta.id)]);
    expect((await world.repo.get('assignment', own.meta.id))?.meta.finalizers).toEqual(['agent']);
    expect((await world.repo.get('assignment', foreign.meta.id))?.meta.finalizers).toEqual(['agent']);
    expect(await observedOf(own.meta.id)).toMatchObject({ phase: 'pending', ready: false });
  });
});

describe('a report with texts that are too long', () => {
  it('is cut, and what has no such id is rejected; the session goes on', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const long = 'x'.repeat(100_000);
    const events = {
      source: long,
      items: Array.from({ length: 20 }, (_, n) => ({
        seq: n + 1,
        type: 'warning' as const,
        reason: long.slice(0, 1000),
        message: long.slice(0, 1000),
        drift: false,
      })),
    };
    const report: WireReport = {
      ...running({ ...item.meta }),
      container_id: long,
      image_digest: long,
      started_at: long,
      error: { code: long, message: long },
      commit: long,
      commit_message: long,
      events,
    };
    const strange = running({ id: long, generation: 1 });
    expect(await sendReport(agent, [report, strange], 1001)).toEqual([{ id: 'x'.repeat(64), why: 'not_assigned' }]);
    const stored = await world.store.get(keys.observed(tenant, 'assignment', item.meta.id));
    expect(stored?.value).toContain('x'.repeat(2000));
    expect(stored?.value.length).toBeLessThan(10_000);
    expect(await sendReport(agent, [running({ ...item.meta })], 1002)).toEqual([]);
  });
});

describe('reports', () => {
  it('I-05: of a generation that does not exist, or that is behind what is known, change nothing', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    expect(await sendReport(agent, [running({ id: item.meta.id, generation: 2 })], 1001)).toEqual([
      { id: item.meta.id, why: 'stale_generation' },
    ]);
    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    await eventually(
      replica.mirror,
      () => replica.mirror.tenant(tenant).get('assignment', item.meta.id)?.meta.generation === 2,
    );
    expect(await sendReport(agent, [{ ...running({ id: item.meta.id, generation: 2 }), ready: false }], 1002)).toEqual(
      [],
    );
    expect(await sendReport(agent, [running({ id: item.meta.id, generation: 1 })], 1003)).toEqual([
      { id: item.meta.id, why: 'stale_generation' },
    ]);
    expect(await observedOf(item.meta.id)).toMatchObject({ observedGeneration: 2, ready: false });
  });

  it('L5: of the generation before say so, and do not make the new one ready', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    const agent = await agentOf(server);
    await sendReport(agent, [running({ id: item.meta.id, generation: 1 })]);
    expect(await observedOf(item.meta.id)).toMatchObject({ observedGeneration: 1 });
  });

  it('that say the same write nothing', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const report = running({ id: item.meta.id, generation: 1 });
    await sendReport(agent, [report], 1001);
    const before = await world.store.revision();
    for (let seq = 1002; seq < 1012; seq++) await sendReport(agent, [report], seq);
    expect(await world.store.revision()).toBe(before);
  });

  it('that go back and forth at once end at the last one', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const base = running({ id: item.meta.id, generation: 1 });
    for (let n = 0; n < 20; n++) {
      await sendReport(agent, [{ ...base, phase: n % 2 === 0 ? 'starting' : 'running' }], 2000 + n);
      expect((await observedOf(item.meta.id))?.phase).toBe(n % 2 === 0 ? 'starting' : 'running');
    }
  });

  it('that go back to what the mirror still shows are stored, although the mirror is behind', async () => {
    const lagging = new LaggingStore(world.store);
    const behind = await world.replica({ store: lagging });
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server, { at: behind });
    const report = running({ ...item.meta });
    expect(await sendReport(agent, [report], 1001)).toEqual([]);
    await eventually(
      behind.mirror,
      () => behind.mirror.tenant(tenant).get('assignment', item.meta.id)?.observed?.ready,
    );
    lagging.hold();
    expect(await sendReport(agent, [{ ...report, ready: false }], 1002)).toEqual([]);
    const back = sendReport(agent, [report], 1003);
    await hasHeard(agent);
    expect(await observedOf(item.meta.id)).toMatchObject({ ready: false });
    lagging.release();
    expect(await back).toEqual([]);
    expect(await observedOf(item.meta.id)).toMatchObject({ ready: true });
  });

  it('of many assignments are stored in few transactions', async () => {
    const server = await world.server();
    const items = await Promise.all(Array.from({ length: 100 }, () => world.assignment(server.id)));
    const agent = await agentOf(server);
    const before = await world.store.revision();
    expect(
      await sendReport(
        agent,
        items.map((it) => running({ ...it.meta })),
      ),
    ).toEqual([]);
    expect((await world.store.revision()) - before).toBeLessThan(10);
    for (const it of items) expect(await observedOf(it.meta.id)).toMatchObject({ ready: true });
  });

  it('of assignments of which one goes meanwhile are stored for the others', async () => {
    const server = await world.server();
    const items = await Promise.all(Array.from({ length: 5 }, () => world.assignment(server.id)));
    const agent = await agentOf(server);
    const gone = items[2]!;
    const unit = world.repo.begin();
    const it = (await world.repo.get('assignment', gone.meta.id))!;
    unit.requestDelete(it);
    unit.release(it, 'agent');
    await unit.commit();
    const rejected = await sendReport(
      agent,
      items.map((each) => running({ ...each.meta })),
    );
    expect(rejected).toEqual([{ id: gone.meta.id, why: 'not_assigned' }]);
    for (const each of items) if (each !== gone) expect(await observedOf(each.meta.id)).toMatchObject({ ready: true });
  });

  it('keep the time of a condition while its status and reason stay', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const report = running({ id: item.meta.id, generation: 1 });
    await sendReport(agent, [report], 1001);
    const first = (await observedOf(item.meta.id))?.conditions[0]?.changedAt;
    await sendReport(agent, [{ ...report, restarts: 1 }], 1002);
    expect((await observedOf(item.meta.id))?.conditions[0]?.changedAt).toBe(first);
    await sendReport(agent, [{ ...report, ready: false, crash_loop: true, phase: 'starting' }], 1003);
    expect((await observedOf(item.meta.id))?.conditions[0]).toMatchObject({ status: 'false', reason: 'CrashLoop' });
  });

  it('that a finished build is gone keep its result; of an unfinished one it is lost', async () => {
    const server = await world.server();
    const build = {
      type: 'build' as const,
      repository_url: 'https://example.org/x.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      build_context: '.',
      build_args: {},
      image: 'x:1',
      deadline_seconds: 60,
      attempt: 1,
    };
    const done = await world.assignment(server.id, { spec: build });
    const open = await world.assignment(server.id, { spec: build });
    const agent = await agentOf(server);
    const base = { ready: false, stable: false, restarts: 0, crash_loop: false, generation: 1 } as const;
    const succeeded = { ...base, id: done.meta.id, phase: 'succeeded', image_digest: 'sha256:1' } as const;
    await sendReport(agent, [succeeded, { ...base, id: open.meta.id, phase: 'running' }], 1001);
    await sendReport(
      agent,
      [done, open].map((it) => ({ ...base, id: it.meta.id, phase: 'stopped', gone: true })),
      1002,
    );
    expect(await observedOf(done.meta.id)).toMatchObject({ phase: 'succeeded', image_digest: 'sha256:1' });
    expect(await observedOf(open.meta.id)).toMatchObject({ phase: 'lost' });
  });
});

describe('SEC-55: of two sessions of one server', () => {
  it('the newer one stays, on the same replica and on another, and the older one gets the reason', async () => {
    const other = await world.replica();
    const server = await world.server();
    const key = agentKey();
    const first = await agentOf(server, { key });
    const second = await agentOf({ id: server.id }, { key });
    expect(await first.ended).toMatchObject({ kind: 'goodbye', reason: 'superseded' });
    const third = await agentOf({ id: server.id }, { key, at: other });
    expect(await second.ended).toMatchObject({ kind: 'goodbye', reason: 'superseded' });
    expect(replica.mirror.tenant(tenant).agent(server.id)).toMatchObject({ replica: other.id, epoch: third.epoch() });
    expect(third.epoch()).toBeGreaterThan(second.epoch()!);
  });

  it('I-05: nothing that the older one reports is stored, although its replica knows of no newer one', async () => {
    const lagging = new LaggingStore(world.store);
    const behind = await world.replica({ store: lagging });
    const server = await world.server();
    const item = await world.assignment(server.id);
    const key = agentKey();
    const older = await agentOf(server, { key, at: behind });
    lagging.hold();
    const newer = await agentOf({ id: server.id }, { key });
    older.backend.setReport(running({ ...item.meta }));
    expect(await older.ended).toMatchObject({ kind: 'goodbye', reason: 'superseded' });
    expect(await observedOf(item.meta.id)).toBeUndefined();
    expect(replica.mirror.tenant(tenant).agent(server.id)?.epoch).toBe(newer.epoch());
    lagging.release();
    newer.backend.setReport(running({ ...item.meta }));
    await eventually(
      replica.mirror,
      () => replica.mirror.tenant(tenant).get('assignment', item.meta.id)?.observed?.ready,
    );
  });

  it('I-11: a replica that is behind sends no set before it has caught up with the sessions before it', async () => {
    const lagging = new LaggingStore(world.store);
    const behind = await world.replica({ store: lagging });
    const server = await world.server();
    const key = agentKey();
    const first = await agentOf(server, { key });
    await eventually(behind.mirror, () => behind.mirror.tenant(tenant).agent(server.id));
    lagging.hold();
    const item = await world.assignment(server.id);
    await until('the first session has it', async () => first.backend.items.has(item.meta.id));
    const second = rawAgent(behind.url, { server: server.id, key, backend: first.backend });
    agents.push(second);
    await first.ended;
    expect(first.backend.items.has(item.meta.id)).toBe(true);
    lagging.release();
    expect(await second.outcome).toBe('welcome');
    await until('the snapshot came', async () => 'snapshot' in (first.backend.stored.at(-1) ?? {}));
    expect(first.backend.items.has(item.meta.id)).toBe(true);
  });

  it('the end of the older one does not take the key of the newer one', async () => {
    const server = await world.server();
    const key = agentKey();
    const first = await agentOf(server, { key });
    const second = await agentOf({ id: server.id }, { key });
    await first.ended;
    first.socket.terminate();
    await until(
      'the first session is over',
      async () => (await world.store.get(keys.agent(tenant, server.id))) !== undefined,
    );
    expect(replica.mirror.tenant(tenant).agent(server.id)?.epoch).toBe(second.epoch());
  });

  it('machines that take over from each other again and again are a conflict; one that reconnects is none', async () => {
    const server = await world.server();
    const key = agentKey();
    await agentOf(server, { key, machineId: 'a' });
    const conflict = () => replica.mirror.tenant(tenant).agent(server.id)?.conflict;
    for (let n = 0; n < 6; n++) await agentOf({ id: server.id }, { key, machineId: 'a' });
    expect(conflict()).toBeUndefined();
    await agentOf({ id: server.id }, { key, machineId: 'a', bootId: 'after a reboot' });
    for (let n = 0; n < 4; n++) await agentOf({ id: server.id }, { key, machineId: 'a', bootId: `boot ${n}` });
    expect(conflict()).toBeUndefined();
    await agentOf({ id: server.id }, { key, machineId: 'b' });
    await agentOf({ id: server.id }, { key, machineId: 'a' });
    await agentOf({ id: server.id }, { key, machineId: 'b' });
    expect(conflict()).toBe(true);
  });

  it('agents of one machine and boot that take turns are a conflict, too, and one that restarts is none', async () => {
    const server = await world.server();
    const key = agentKey();
    const conflict = () => replica.mirror.tenant(tenant).agent(server.id)?.conflict;
    await agentOf(server, { key, processId: 'p0' });
    for (let n = 1; n < 6; n++) await agentOf({ id: server.id }, { key, processId: `p${n}` });
    expect(conflict()).toBeUndefined();
    await agentOf({ id: server.id }, { key, processId: 'copy' });
    await agentOf({ id: server.id }, { key, processId: 'p5' });
    expect(conflict()).toBe(true);
  });
});

describe('the live key', () => {
  it('that vanished is taken again under a new epoch, and reports are stored again', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const live = () => replica.mirror.tenant(tenant).agent(server.id);
    const before = live();
    await world.store.txn({ if: [], then: [{ delete: keys.agent(tenant, server.id) }] });
    const taken = await eventually(replica.mirror, () => (live()?.epoch ?? 0) > agent.epoch()! && live());
    expect(taken).toEqual({ ...before, epoch: taken.epoch });
    agent.backend.setReport(running({ ...item.meta }));
    const { observed } = await eventually(replica.mirror, () => {
      const it = replica.mirror.tenant(tenant).get('assignment', item.meta.id);
      return it?.observed?.ready === true && it;
    });
    expect(observed).toMatchObject({ phase: 'running', stable: true, observedGeneration: 1 });
    const { acknowledgements } = agent.backend;
    await until('the report is acknowledged', async () => acknowledgements.some(({ ids }) => ids.length > 0));
    expect(acknowledgements.at(-1)).toEqual({ ids: [item.meta.id], rejected: [] });
    expect(live()).toEqual(taken);
  });

  it('stays while the store is away: reports wait and are stored when it is back', async () => {
    await using outage = await GatewayWorld.start({ wrap: (inner) => new InterruptibleStore(inner) });
    const store = outage.store as InterruptibleStore; // made by `wrap`
    const here = await outage.replica();
    const server = await outage.server();
    const item = await outage.assignment(server.id);
    const agent = rawAgent(here.url, { server: server.id, key: agentKey(), token: server.token });
    agents.push(agent);
    expect(await agent.outcome).toBe('welcome');
    store.failure = unavailable('test');
    agent.backend.setReport(running({ ...item.meta }));
    await until('the report was refused', async () =>
      agent.backend.acknowledgements.some((it) => it.rejected.length > 0),
    );
    store.failure = undefined;
    await eventually(here.mirror, () => here.mirror.tenant(tenant).get('assignment', item.meta.id)?.observed?.ready);
    expect(here.mirror.tenant(tenant).agent(server.id)?.epoch).toBe(agent.epoch());
  });

  it('is not given to an agent that comes while the store is away: it is asked to come again', async () => {
    await using outage = await GatewayWorld.start({ wrap: (inner) => new InterruptibleStore(inner) });
    const here = await outage.replica();
    const server = await outage.server();
    (outage.store as InterruptibleStore).failure = unavailable('test'); // made by `wrap`
    const agent = rawAgent(here.url, { server: server.id, key: agentKey(), token: server.token });
    agents.push(agent);
    expect(await agent.outcome).toBe('busy');
    (outage.store as InterruptibleStore).failure = undefined; // as above
  });

  it('of another history than the one in which the session began ends the session', async () => {
    const old = await openSqlite({ path: ':memory:' });
    let wrapped: InterruptibleStore | undefined;
    await using rewinding = await GatewayWorld.start({ wrap: (inner) => (wrapped = new InterruptibleStore(inner)) });
    const here = await rewinding.replica();
    const server = await rewinding.server();
    const agent = rawAgent(here.url, { server: server.id, key: agentKey(), token: server.token });
    agents.push(agent);
    expect(await agent.outcome).toBe('welcome');
    wrapped?.replace(old, rewound(old.incarnation, 'test'));
    expect((await agent.ended).kind).toBe('goodbye');
    await old.close();
  });
});

describe('the container engine of an agent', () => {
  const trouble = { reason: 'EngineNotRunning', message: 'It does not answer: start it' };
  const engineOf = (server: string): unknown => replica.mirror.tenant(tenant).agent(server)?.engineTrouble ?? 'answers';

  it('is known to be in trouble from the beginning of the session, and to answer again', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.engineState = { trouble };
    const agent = await agentOf(server, { backend });
    expect(engineOf(server.id)).toEqual(trouble);
    agent.socket.send(JSON.stringify({ type: 'beat', n: 77, load: backend.load(), engine: { version: '28' } }));
    await eventually(replica.mirror, () => engineOf(server.id) === 'answers');
    expect(replica.mirror.tenant(tenant).agent(server.id)?.runtimeVersion).toBe('28');
  });

  it('has warnings, which last until a beat without them', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    const warnings = [{ reason: 'RulesMissing', message: 'Rules were removed' }];
    backend.engineState = { version: '28', warnings };
    const agent = await agentOf(server, { backend });
    const known = (): unknown => replica.mirror.tenant(tenant).agent(server.id)?.engineWarnings;
    expect(known()).toEqual(warnings);
    const beat = { type: 'beat', load: backend.load() };
    agent.socket.send(JSON.stringify({ ...beat, n: 77, engine: { version: '28' } }));
    await eventually(replica.mirror, () => known() === undefined);
    agent.socket.send(JSON.stringify({ ...beat, n: 78, engine: { version: '28', warnings } }));
    await eventually(replica.mirror, () => known() !== undefined);
  });

  it('changes while reports come: all of them are stored, and the session stays', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    const session = replica.mirror.tenant(tenant).agent(server.id)?.session;
    for (let n = 0; n < 10; n++) {
      const engine = n % 2 === 0 ? { trouble } : { version: '1' };
      agent.socket.send(JSON.stringify({ type: 'beat', n: 100 + n, load: agent.backend.load(), engine }));
      agent.backend.setReport({ ...running({ ...item.meta }), restarts: n });
    }
    await eventually(replica.mirror, () => engineOf(server.id) === 'answers');
    await until('the last report is stored', async () => (await observedOf(item.meta.id))?.restarts === 9);
    expect(replica.mirror.tenant(tenant).agent(server.id)?.session).toBe(session);
  });

  it('that has not answered since the agent started changes nothing that was known', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const agent = await agentOf(server);
    expect(await sendReport(agent, [running({ ...item.meta })], 3001)).toEqual([]);
    const unknown = { ...running({ ...item.meta }), phase: 'pending' as const, ready: false, unknown: true };
    expect(await sendReport(agent, [unknown], 3002)).toEqual([]);
    expect(await observedOf(item.meta.id)).toMatchObject({ phase: 'running', ready: true });
  });
});
