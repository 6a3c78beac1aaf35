import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import type * as TaskTable from '../../agent-protocol/task-table.ts';
import type { TaskRow } from '../../agent-protocol/task-table.ts';
import type * as Works from '../../agent/tasks/tasks.ts';
import type { TaskType } from '../../agent-protocol/task-types.ts';
import type { TaskItem, TaskProgress, TaskWork } from '../../agent/tasks/task.ts';
import type { StoredTask } from '../../store/kinds/assignment.ts';
import type { Resource } from '../../store/resource.ts';
import type { GatewayWorld as World, TestReplica } from '../harness/gateway-world.ts';
import type { AgentWorld as Agents } from '../agent/agent-world.ts';
import { until } from '../harness/until.ts';

/**
 * Types of tasks that exist only here: a row in the table, and a worker. `copy` may be interrupted, `restore` must not
 * be repeated by itself.
 */
const rows = (secret: z.ZodType) => ({
  copy: row('copy', secret, 'again'),
  restore: row('restore', secret, 'lost'),
});

function row(type: string, secret: z.ZodType, ifInterrupted: TaskRow['ifInterrupted']): TaskRow {
  return {
    noun: type,
    spec: z.object({
      type: z.literal(type),
      path: z.string(),
      credentials: z.record(z.string(), secret),
      deadline_seconds: z.int(),
      attempt: z.int().default(1),
    }),
    result: z.object({ bytes: z.int(), digest: z.string().optional() }),
    known: z.object({ bytes: z.int().optional() }),
    resultIn: 'result',
    secrets: [{ field: 'credentials', path: 'access', what: 'credential' }],
    capability: `tasks.${type}`,
    gated: [],
    codes: { timeout: 'unhealthy', failed: 'exited' },
    ifInterrupted,
    deadlineSeconds: 90,
    output: 'system',
  };
}

interface Attempt {
  item: TaskItem;
  progress: TaskProgress;
  signal: AbortSignal;
  end: PromiseWithResolvers<never>;
}

let attempts: Attempt[] = [];

/** Does what the test says. A result has the type of builds, since the types of the tests have no types of their own. */
const work: Pick<TaskWork, 'run'> = {
  run: (item, progress, signal) => {
    const end = Promise.withResolvers<never>();
    attempts.push({ item, progress, signal, end });
    signal.addEventListener('abort', () => end.reject(signal.reason), { once: true });
    return end.promise;
  },
};

const table = '../../agent-protocol/task-table.ts';
const works = '../../agent/tasks/tasks.ts';

/** The program with the two rows and their workers: all that reads the table is loaded anew. */
async function program() {
  const { eventually } = await import('../harness/eventually.ts');
  const { GatewayWorld, tenant } = await import('../harness/gateway-world.ts');
  const { AgentWorld } = await import('../agent/agent-world.ts');
  const { agentKey, rawAgent } = await import('../harness/raw-agent.ts');
  const { object } = await import('../harness/objects.ts');
  const { desiredState } = await import('../harness/states.ts');
  const { agentCapabilities } = await import('../../agent-protocol/messages.ts');
  const { isTaskType } = await import('../../agent-protocol/task-types.ts');
  const { RuntimeFailure } = await import('../../agent/runtime/runtime.ts');
  const { observedOf } = await import('../../controllers/gateway/observed.ts');
  const { planTask, taskState } = await import('../../controllers/task/task.ts');
  const { keys } = await import('../../store/keys.ts');
  const { commit } = await import('../../store/unit.ts');
  const all = { eventually, GatewayWorld, tenant, AgentWorld, agentKey, rawAgent, object, desiredState, keys, commit };
  return { ...all, agentCapabilities, isTaskType, RuntimeFailure, observedOf, planTask, taskState };
}

let own: Awaited<ReturnType<typeof program>>;

beforeAll(async () => {
  vi.resetModules();
  vi.doMock(table, async (original) => {
    const { tasksWith } = await original<typeof TaskTable>();
    return {
      tasksWith: (secret: z.ZodType, gitAccess: z.ZodType) => ({ ...tasksWith(secret, gitAccess), ...rows(secret) }),
    };
  });
  vi.doMock(works, async (original) => {
    const { tasksOf } = await original<typeof Works>();
    const { Turns } = await import('../../agent/tasks/turns.ts');
    const worker = { ...work, turns: new Turns(1) };
    return { tasksOf: (deps: Parameters<typeof tasksOf>[0]) => ({ ...tasksOf(deps), copy: worker, restore: worker }) };
  });
  own = await program();
});

afterAll(() => {
  vi.doUnmock(table);
  vi.doUnmock(works);
  vi.resetModules();
});

let world: World;
let replica: TestReplica;
let machine: Agents;
let server: { id: string; token: string };
let owner: Resource<'volume'>;

beforeEach(async () => {
  attempts = [];
  world = await own.GatewayWorld.start();
  replica = await world.replica();
  machine = await own.AgentWorld.create();
  server = await world.server();
  const unit = world.repo.begin();
  owner = unit.create('volume', randomUUID(), own.desiredState('volume', { server_id: server.id }));
  await own.commit(unit);
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
});

/** The agent as one process, connected to the control plane. */
async function connected(): Promise<AsyncDisposable> {
  const agent = await machine.start();
  return world.agent(replica, server, agent.backend);
}

const viewed = () => replica.mirror.tenant(own.tenant);

/** The task of the volume, as a controller asks for it. */
function aTask(name: string) {
  if (!own.isTaskType(name)) throw new Error(`Not in the table: ${name}`);
  const type: TaskType = name;
  const sealed = world.keyring.seal('pa55word', {
    tenant: own.tenant,
    kind: 'volume',
    id: owner.meta.id,
    path: 'access.PASSWORD',
  });
  const place = {
    server_id: server.id,
    project_id: owner.desired.project_id,
    environment_id: owner.desired.environment_id,
    workload_kind: 'volume' as const,
    workload_id: owner.meta.id,
    workload_name: 'data',
    version: owner.meta.id,
  };
  // A row that exists only here has no type that the compiler knows.
  const spec = (head: object) =>
    z.custom<StoredTask>().parse({ path: '/', credentials: { PASSWORD: sealed }, ...head });
  const present = () => viewed().by('assignment', 'workload', owner.meta.id)[0];
  const plan = (wanted = true) => {
    const [action] = own.planTask(type, owner, { task: present(), wanted: wanted ? { place, spec } : undefined });
    if (action === undefined) throw new Error('Nothing is planned');
    return action;
  };
  return {
    present,
    plan,
    state: () => own.taskState(type, present()),
    /** What the controller would do now. */
    async ask(): Promise<void> {
      const action = plan();
      if (action.do !== 'ensure') throw new Error(`Not asked for: ${action.do}`);
      const { id, desired } = action;
      if (present() === undefined) {
        const unit = world.repo.begin();
        unit.create('assignment', id, own.desiredState('assignment', desired));
        await own.commit(unit);
      } else await world.repo.change('assignment', id, (draft) => void Object.assign(draft, desired));
    },
    becomes: (outcome: string) =>
      own.eventually(replica.mirror, () => own.taskState(type, present()).outcome === outcome),
  };
}

/** The attempt that was begun last, once there are so many. */
async function attempt(count = 1): Promise<Attempt> {
  await until('it began', async () => attempts.length === count);
  return attempts.at(-1)!;
}

describe.each(['copy', 'restore'])('a task of a type that is a row and a worker: %s', (name) => {
  it('runs with its secrets, reports progress and its result, once', async () => {
    await connected();
    const task = aTask(name);
    await task.ask();
    const { item, progress, end } = await attempt();
    expect(item.spec).toEqual({
      type: name,
      path: '/',
      credentials: { PASSWORD: 'pa55word' },
      deadline_seconds: 90,
      attempt: 1,
    });
    const stored = await world.store.get(own.keys.desired(own.tenant, 'assignment', item.id));
    expect(stored?.value).not.toContain('pa55word');
    await own.eventually(replica.mirror, () => task.present()?.observed?.progress?.step === 'starting');
    progress.at({ step: 'copying', done: 3, total: 9, unit: 'bytes' });
    await own.eventually(replica.mirror, () => task.present()?.observed?.progress?.done === 3);
    expect(task.state().outcome).toBe('running');

    const result = { bytes: 9, digest: 'sha256:9' };
    end.resolve(result as never); // see work
    await task.becomes('succeeded');
    expect(task.state()).toMatchObject({ result });
    expect(task.present()?.observed).not.toHaveProperty('progress');
    await machine.stop();
    await connected();
    await task.ask();
    await until('it is reported again', async () => machine.report(item)?.generation === 1);
    await world.connected(replica, server.id);
    expect(task.state()).toMatchObject({ outcome: 'succeeded', result });
    expect(attempts).toHaveLength(1);
  });

  it('fails with its reason and what is known by then', async () => {
    await connected();
    const task = aTask(name);
    await task.ask();
    const { progress, end } = await attempt();
    progress.learned({ bytes: 3 } as object);
    end.reject(new own.RuntimeFailure('no_space', 'The disk is full', { retryable: false }));
    await task.becomes('failed');
    const error = { code: 'no_space', message: 'The disk is full' };
    expect(task.state()).toMatchObject({ known: { bytes: 3 }, error });
    expect(task.plan()).toMatchObject({ desired: { spec: { attempt: 1 } } });
  });

  it('ends at its deadline', async () => {
    await connected();
    const task = aTask(name);
    await task.ask();
    const { signal } = await attempt();
    await machine.pass(91_000, 1_000);
    await task.becomes('failed');
    expect(signal.aborted).toBe(true);
    const message = `The ${name} did not end within 90 s`;
    expect(task.state()).toMatchObject({ error: { code: 'unhealthy', message } });
  });

  it('is cancelled by its removal, and then gone', async () => {
    await connected();
    const task = aTask(name);
    await task.ask();
    const { item, signal } = await attempt();
    expect(task.plan(false)).toEqual({ do: 'retire', id: item.id });
    await world.delete('assignment', item.id);
    await own.eventually(replica.mirror, () => task.present() === undefined);
    expect(signal.aborted).toBe(true);
  });

  it('is repeated or lost, as its row says, if its agent ends meanwhile', async () => {
    const first = await connected();
    const task = aTask(name);
    await task.ask();
    await attempt();
    await task.becomes('running');
    await first[Symbol.asyncDispose]();
    await machine.stop();
    await connected();
    if (name === 'copy') {
      expect((await attempt(2)).item.spec).toMatchObject({ attempt: 1 });
      return;
    }
    await task.becomes('lost');
    const error = { code: 'interrupted', message: expect.stringContaining('The restore was interrupted') };
    expect(task.state()).toMatchObject({ isExhausted: true, error });
    expect(task.plan()).toMatchObject({ desired: { spec: { attempt: 1 } } });
    expect(attempts).toHaveLength(1);
  });

  it('is lost if its server has nothing of it, but not once its end is known', () => {
    const task = aTask(name);
    const action = task.plan();
    const desired = action.do === 'ensure' ? action.desired : {};
    const end = (phase: 'running' | 'succeeded' | 'failed' | 'lost') =>
      own.object('assignment', desired, {
        observed: { phase, ready: false, stable: false, restarts: 0, crash_loop: false },
      });
    const gone = {
      generation: 1,
      phase: 'stopped',
      ready: false,
      stable: false,
      restarts: 0,
      crash_loop: false,
    } as const;
    const after = (of: ReturnType<typeof end>) =>
      own.observedOf(of, { id: of.meta.id, ...gone, gone: true }, new Date())?.phase;
    expect(after(end('running'))).toBe('lost');
    for (const phase of ['succeeded', 'failed', 'lost'] as const) expect(after(end(phase)), phase).toBeUndefined();
  });

  it('is not sent to an agent without its capability, and the object that it belongs to has the event', async () => {
    expect(own.agentCapabilities).toContain(`tasks.${name}`);
    const capabilities = own.agentCapabilities.filter((capability) => capability !== `tasks.${name}`);
    const agent = own.rawAgent(replica.url, {
      server: server.id,
      key: own.agentKey(),
      token: server.token,
      capabilities,
    });
    expect(await agent.outcome).toBe('welcome');
    const task = aTask(name);
    await task.ask();
    await task.becomes('failed');
    expect(task.state()).toMatchObject({
      error: {
        code: 'agent_outdated',
        message: `The agent of the server is too old for tasks of the type ${name}: upgrade the agent`,
      },
    });
    const ring = own.keys.events(own.tenant, 'volume', owner.meta.id);
    await own.eventually(replica.mirror, () => replica.mirror.key(ring)?.value.includes('AgentOutdated'));
    expect(agent.backend.items.size).toBe(0);
    agent.session.goodbye('The test is over');
    await agent.ended;
  });
});
