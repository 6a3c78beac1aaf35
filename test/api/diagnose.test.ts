import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { machineChecks } from '../../agent-protocol/diagnosis.ts';
import type { CheckResult, HealAction } from '../../agent-protocol/diagnosis.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { keys } from '../../store/keys.ts';
import { createClient, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { sendTogether } from '../harness/send-together.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { until } from '../harness/until.ts';

let world: ApiWorld;
let store: InterruptibleStore;
let clock: FakeClock;
let owner: Client;
let server: string;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock, wrap: (inner) => (store = new InterruptibleStore(inner)) });
  owner = await world.owner();
  ({ server } = await world.place(owner));
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const quiet: CheckResult[] = machineChecks.map((name) => {
  return { name, status: 'pass', message: 'Good', remediation: null, auto_fixable: false };
});

/** The agent is connected. */
async function connect(changes: object = {}): Promise<void> {
  const live = { replica: 'r', session: 's', machineId: 'm', capabilities: ['diagnose'], agentVersion: '0.0.0-test' };
  const value = JSON.stringify({ ...live, ...changes });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  await world.settled();
}

/** The agent answers with these checks, by a clock that is so far ahead. */
function answers(checks: CheckResult[], aheadMs = 0): void {
  world.agents.answer = () => ({ at: new Date(clock.now().getTime() + aheadMs).toISOString(), checks });
}

const diagnose = () => owner.get(`/servers/${server}/diagnose`);
const heal = (body: object = {}) => owner.post(`/servers/${server}/heal`, body);

async function checkOf(name: string): Promise<CheckResult> {
  const { checks } = (await diagnose()).data as { checks: CheckResult[] };
  return checks.find((one) => one.name === name)!;
}

describe('a diagnosis', () => {
  it('has what the control plane knows, then what the agent found, and the worst of it', async () => {
    await connect();
    answers(quiet);
    const good = (await diagnose()).data;
    expect(good.checks.map(({ name }: CheckResult) => name)).toEqual([
      'agent',
      'agent_version',
      'clock_skew',
      ...machineChecks,
    ]);
    expect(good.checks.length).toBeGreaterThanOrEqual(15);
    const [first, ...rest] = quiet;
    answers([{ ...first!, status: 'fail', message: 'Bad', remediation: 'Mend it', auto_fixable: true }, ...rest]);
    const bad = (await diagnose()).data;
    expect(bad.status).toBe('fail');
    expect(bad.checks[3]).toEqual({
      name: 'engine',
      status: 'fail',
      message: 'Bad',
      remediation: 'Mend it',
      auto_fixable: true,
    });
  });

  it('of a server whose agent is away shows what is known, and what to do', async () => {
    const { status, checks } = (await diagnose()).data;
    expect(status).toBe('fail');
    expect(checks[0]).toMatchObject({
      name: 'agent',
      status: 'fail',
      message: 'No agent has joined as this server yet',
      remediation: expect.stringContaining('setpoint join server-'),
    });
    expect(checks.slice(1).every((one: CheckResult) => one.status === 'warn' && one.remediation !== null)).toBe(true);
    expect(checks.at(-1)).toMatchObject({ name: 'log_storage', message: 'Not known as the agent is away' });
    await world.repo.change('server', server, (draft) => void (draft.agent_public_key = 'x'));
    await world.settled();
    expect(await checkOf('agent')).toMatchObject({ status: 'fail', message: 'The agent is not connected' });
  });

  it('of an agent of an earlier release is told as a version that is too old', async () => {
    await connect({ capabilities: [], agentVersion: '0.0.1' });
    answers(quiet);
    expect(await checkOf('agent_version')).toMatchObject({
      status: 'fail',
      message: 'The agent, version 0.0.1, is too old to examine its machine',
      remediation: expect.stringContaining('Upgrade the agent'),
    });
    expect(await checkOf('disk')).toMatchObject({
      status: 'warn',
      message: expect.stringContaining('earlier release'),
    });
  });

  it('is answered although the agent does not answer', async () => {
    await connect();
    world.agents.answer = () => {
      throw new CallError('timeout', 'The agent did not answer in time');
    };
    expect(await checkOf('agent')).toMatchObject({ status: 'pass' });
    expect(await checkOf('disk')).toMatchObject({
      status: 'warn',
      message: 'Not known as the agent did not answer (The agent did not answer in time)',
    });
  });

  it.each([
    [0, 'pass', /agrees/],
    [4999, 'pass', /agrees/],
    [5000, 'warn', /5 s ahead/],
    [-29_999, 'warn', /30 s behind/],
    [-30_000, 'fail', /30 s behind/],
  ] as const)('judges a clock that is %d ms ahead: %s', async (ahead, status, message) => {
    await connect();
    answers(quiet, ahead);
    expect(await checkOf('clock_skew')).toMatchObject({ status, message: expect.stringMatching(message) });
  });

  it('shows a version that differs, a copy of the agent, and a connection that is lost again and again', async () => {
    answers(quiet);
    await connect({ agentVersion: '9.9.9' });
    expect(await checkOf('agent_version')).toMatchObject({ status: 'warn', message: expect.stringContaining('9.9.9') });
    await connect({ agentVersion: undefined });
    expect(await checkOf('agent_version')).toMatchObject({ status: 'warn', message: expect.stringContaining('known') });
    await connect({ conflict: true });
    expect(await checkOf('agent')).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('several machines'),
    });
    await connect();
    const now = Math.floor(clock.now().getTime() / 1000);
    const record = JSON.stringify({ session: 's', again: Array.from({ length: 20 }, () => now) });
    await world.store.txn({ if: [], then: [{ put: keys.connections('default', server), value: record }] });
    await world.settled();
    expect(await checkOf('agent')).toMatchObject({ status: 'warn', message: expect.stringContaining('20 times') });
  });

  it('is for admins', async () => {
    const user = await world.user();
    expect((await user.get(`/servers/${server}/diagnose`)).status).toBe(403);
    expect((await user.post(`/servers/${server}/heal`, {})).status).toBe(403);
  });
});

describe('healing a server', () => {
  const actions: HealAction[] = [{ check: 'disk', status: 'done', target: null, message: 'Removed' }];
  let asked: CallParams[];
  let answer: () => Promise<unknown>;
  let leads: AsyncDisposable | undefined;

  beforeEach(async () => {
    asked = [];
    answer = async () => ({ actions });
    const controller = operationController({
      agents: {
        call(_tenant, _server, params) {
          asked.push(params);
          return answer();
        },
      },
      machines: noMachines,
      installation: noInstallation,
    });
    leads = await lead(world, clock, controller);
    await connect();
  });
  afterEach(async () => {
    await leads?.[Symbol.asyncDispose]();
  });

  const operations = () => world.mirror.tenant('default').by('operation', 'server', server);

  it('answers what was done, and leaves a record of it and of who asked', async () => {
    const healed = await heal();
    expect([healed.status, healed.data]).toEqual([200, { status: 'done', actions }]);
    expect(asked).toEqual([{ method: 'heal' }]);
    expect(operations()).toMatchObject([{ observed: { phase: 'succeeded', result: { actions } } }]);
    const [newest] = (await owner.get('/audit')).data;
    expect(newest).toMatchObject({ route: 'POST /servers/:id/heal', result: 'ok' });
    expect((await heal({ checks: ['disk'] })).data.status).toBe('done');
    expect(asked[1]).toEqual({ method: 'heal', checks: ['disk'] });
  });

  it('takes names of checks that can be healed, and no others', async () => {
    for (const checks of [['memory'], ['rm -rf /'], [], 'disk']) expect((await heal({ checks })).status).toBe(400);
    expect(asked).toEqual([]);
  });

  it('that is asked for again while it runs is the same one, and another one has to wait', async () => {
    const end = Promise.withResolvers<unknown>();
    answer = () => end.promise;
    const first = heal();
    await until('it runs', async () => asked.length === 1);
    const second = heal();
    const other = await heal({ checks: ['disk'] });
    expect([other.status, other.body.error?.message]).toEqual([409, expect.stringContaining('is being healed')]);
    end.resolve({ actions });
    expect([(await first).data, (await second).data]).toEqual([
      { status: 'done', actions },
      { status: 'done', actions },
    ]);
    expect(asked).toHaveLength(1);
    expect(operations()).toHaveLength(1);
  });

  it('that is asked for several times at once, at two replicas, is one', async () => {
    const there = createClient(`${await world.replica()}/default/api/v1`, owner.token);
    for (const round of [1, 2]) {
      sendTogether(store, 'operation', 3);
      const healed = await Promise.all([heal(), there.post(`/servers/${server}/heal`, {}), heal()]);
      expect(healed.map(({ data }) => data)).toEqual(Array.from({ length: 3 }, () => ({ status: 'done', actions })));
      expect([asked.length, operations().length]).toEqual([round, round]);
    }
  });

  it('of different findings that is asked for at once is one of them, and the other request has to wait', async () => {
    sendTogether(store, 'operation', 2);
    const answers = await Promise.all([heal(), heal({ checks: ['disk'] })]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
    expect(operations()).toHaveLength(1);
  });

  it('that takes longer than the request waits goes on, and its result is kept', async () => {
    const end = Promise.withResolvers<unknown>();
    answer = () => end.promise;
    const first = heal();
    await until('it runs', async () => asked.length === 1);
    await clock.advance(15_000);
    expect((await first).data).toEqual({ status: 'running', actions: [] });
    end.resolve({ actions });
    await until('it has ended', async () => operations()[0]?.observed?.finished_at !== undefined);
    expect(operations()).toMatchObject([{ observed: { phase: 'succeeded', result: { actions } } }]);
    expect(asked).toHaveLength(1);
  });

  it('needs a connected agent that can: otherwise the answer says what to do, and nothing is stored', async () => {
    await connect({ capabilities: [] });
    const old = await heal();
    expect([old.status, old.body.error?.message]).toEqual([409, expect.stringContaining('upgrade the agent')]);
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', server) }] });
    await world.settled();
    const away = await heal();
    expect([away.status, away.body.error?.message]).toEqual([503, expect.stringContaining('runs its agent')]);
    expect(operations()).toEqual([]);
  });

  it('fails in the words of the agent', async () => {
    answer = () => Promise.reject(new CallError('unsupported', 'The replica is of an earlier release: upgrade it'));
    const refused = await heal();
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('earlier release')]);
    answer = () => Promise.reject(new CallError('away', 'The agent is not connected'));
    expect((await heal()).status).toBe(503);
  });

  it('is bounded in number', async () => {
    const unit = world.repo.begin();
    for (let n = 0; n < 20; n++)
      unit.create('operation', crypto.randomUUID(), {
        type: 'heal',
        server_id: server,
        requested_at: clock.now().toISOString(),
        deadline_seconds: 60,
      });
    await unit.commit();
    await until(
      'all have ended',
      async () => operations().filter(({ observed }) => observed?.finished_at !== undefined).length === 20,
    );
    const refused = await heal();
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('at most 20')]);
  });
});

describe('a validation of a server that has no SSH key', () => {
  const validate = () => owner.post(`/servers/${server}/validate`, {});
  const joins = async (): Promise<void> => {
    await world.repo.change('server', server, (draft) => void (draft.agent_public_key = 'x'));
    await world.settled();
  };

  it('is answered by its agent', async () => {
    await joins();
    await connect();
    answers(quiet.map((it) => (it.name === 'disk' ? { ...it, status: 'fail' } : it)));
    const { status, data } = await validate();
    expect([status, data?.status, data?.host_key]).toEqual([200, 'fail', null]);
    expect(data).toEqual({ ...(await diagnose()).data, host_key: null });
  });

  it('says that the agent is away, or of an earlier release', async () => {
    await joins();
    expect(await validate()).toMatchObject({ status: 503, body: { error: { code: 'SERVICE_UNAVAILABLE' } } });
    await connect({ capabilities: [] });
    expect((await validate()).body.error?.message).toContain('upgrade the agent');
  });

  it('is refused until an agent has joined', async () => {
    const { status, body } = await validate();
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('SSH needs an address and a key')]);
  });
});
