import { noInstallation, noMachines } from '../../harness/no-machines.ts';
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { CallError } from '../../../agent-protocol/call-error.ts';
import type { CallParams, GitHead } from '../../../agent-protocol/messages.ts';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { runs } from '../../../controllers/operation/runs.ts';
import type { Run } from '../../../controllers/operation/run.ts';
import type { AgentCalls } from '../../../controllers/runtime/agent-calls.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { openRepository } from '../../../store/repo.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { commit } from '../../../store/unit.ts';
import { anApplication, aServer, object } from '../../harness/objects.ts';
import { settle } from '../../harness/fake-clock.ts';
import { hang } from '../limits/scenes.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';

const serves = 'a'.repeat(40);
const newer = 'b'.repeat(40);

async function sync(
  answer: GitHead | Error,
  {
    watch_paths,
    current_commit,
    isServerGone = false,
  }: { watch_paths?: string; current_commit?: string | undefined; isServerGone?: boolean } = {},
) {
  const server = aServer();
  const app = anApplication(
    {
      server_id: server.meta.id,
      source: {
        type: 'git',
        repository_url: 'https://example.test/shop.git',
        branch: 'main',
        dockerfile_path: 'Dockerfile',
        build_context: '.',
        build_args: {},
      },
      ...(watch_paths !== undefined && { watch_paths }),
    },
    {
      observed: {
        phase: 'running',
        consecutive_failures: 0,
        ready_replicas: 1,
        crash_loop_counted: false,
        ...(current_commit !== undefined && { current_commit }),
      },
    },
  );
  const operation = object('operation', {
    type: 'sync',
    application_id: app.meta.id,
    requested_at: '2026-01-01T00:00:00.000Z',
    deadline_seconds: 20,
  });
  const asked: CallParams[] = [];
  const controller = operationController({
    agents: {
      async call(_tenant, _server, params) {
        asked.push(params);
        if (answer instanceof Error) throw answer;
        return answer;
      },
    },
    machines: noMachines,
    installation: noInstallation,
  });
  await using rig = await openRig({ controllers: [controller] });
  const made = rig.repo.begin();
  if (!isServerGone) made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, app.desired);
  await commit(made);
  const stored = (await rig.repo.get('application', app.meta.id))!;
  await rig.repo.observe(stored, { ...app.observed!, observedGeneration: 1, conditions: [] }, []);
  await rig.rest();
  const asks = rig.repo.begin();
  asks.create('operation', operation.meta.id, operation.desired);
  await commit(asks);
  await rig.rest();
  const observed = rig.mirror.tenant(tenant).get('operation', operation.meta.id)?.observed;
  return { observed, asked, now: rig.clock.now().toISOString() };
}

describe('a comparison with the branch', () => {
  const files = ['docs/a.md', 'src/main.ts'];

  it.each<
    [
      name: string,
      head: GitHead,
      app: { watch_paths?: string; current_commit?: string },
      result: { files: string[]; known: boolean; matched: boolean; upToDate?: boolean },
    ]
  >([
    ['the same commit', { commit: serves }, {}, { files: [], known: true, matched: false, upToDate: true }],
    [
      'the same commit, watched',
      { commit: serves },
      { watch_paths: '**' },
      { files: [], known: true, matched: false, upToDate: true },
    ],
    ['without watch paths', { commit: newer, changed_files: files }, {}, { files, known: true, matched: true }],
    [
      'nothing but the commit changed',
      { commit: newer, changed_files: [] },
      {},
      { files: [], known: true, matched: true },
    ],
    [
      'nothing but the commit changed, watched',
      { commit: newer, changed_files: [] },
      { watch_paths: '**' },
      { files: [], known: true, matched: false },
    ],
    [
      'a watched file',
      { commit: newer, changed_files: files },
      { watch_paths: 'lib/**\nsrc/**' },
      { files, known: true, matched: true },
    ],
    [
      'no watched file',
      { commit: newer, changed_files: files },
      { watch_paths: 'lib/**' },
      { files, known: true, matched: false },
    ],
    [
      'only excluded files',
      { commit: newer, changed_files: ['docs/a.md'] },
      { watch_paths: '!docs/**' },
      { files: ['docs/a.md'], known: true, matched: false },
    ],
    [
      'files that are not known',
      { commit: newer },
      { watch_paths: 'lib/**' },
      { files: [], known: false, matched: true },
    ],
    [
      'more files than are listed',
      { commit: newer, changed_files: files, truncated: true },
      { watch_paths: 'lib/**' },
      { files, known: false, matched: true },
    ],
  ])('reports %s', async (_name, head, app, { files: changed_files, known, matched, upToDate = false }) => {
    const { observed, asked, now } = await sync(head, { current_commit: serves, ...app });
    expect(observed).toMatchObject({ phase: 'succeeded', finished_at: now });
    expect(observed?.result).toMatchObject({
      up_to_date: upToDate,
      current_commit: serves,
      latest_commit: head.commit,
      branch: 'main',
      changed_files,
      changed_files_known: known,
      matched,
    });
    expect(asked).toEqual([
      { method: 'git.head', repository_url: 'https://example.test/shop.git', branch: 'main', since: serves },
    ]);
  });

  it('is asked without a commit before anything serves, and everything is new', async () => {
    const { observed, asked } = await sync({ commit: newer }, { watch_paths: 'lib/**' });
    expect(asked[0]).not.toHaveProperty('since');
    expect(observed?.result).toMatchObject({ up_to_date: false, current_commit: null, matched: true });
  });

  it('fails at once where the server of the application was deleted, and asks no agent', async () => {
    const { observed, asked } = await sync(new CallError('away', 'It is not there'), { isServerGone: true });
    expect(observed).toMatchObject({
      phase: 'failed',
      error: { code: 'not_found', message: expect.stringContaining('server of the application was deleted') },
    });
    expect(asked).toEqual([]);
  });

  it('fails with what the agent says', async () => {
    const error = new CallError('branch_not_found', 'Repository has no branch main');
    const { observed } = await sync(error);
    expect(observed).toMatchObject({
      phase: 'failed',
      error: { code: 'branch_not_found', message: 'Repository has no branch main' },
    });
  });
});

/** An operation that is carried out by `run`, and what is observed of it. */
async function carryOut(
  rig: Rig,
  deadline_seconds: number,
  more: object = {},
): Promise<() => ReadonlyResource<'operation'>['observed']> {
  const { meta, desired } = object('operation', { type: 'sync', requested_at: '', deadline_seconds, ...more });
  const asks = rig.repo.begin();
  asks.create('operation', meta.id, desired);
  await commit(asks);
  await settle(50); // a run that hangs never rests
  return () => rig.mirror.tenant(tenant).get('operation', meta.id)?.observed;
}

const none: AgentCalls = { call: () => Promise.reject(new Error('No agent is called')) };

function openWith(sync: Run, others: Partial<typeof runs> = {}): Promise<Rig> {
  const reached = { agents: none, machines: noMachines, installation: noInstallation };
  return openRig({ controllers: [operationController(reached, { ...runs, sync, ...others })] });
}

describe('an operation of any type', () => {
  it('expires when it does not end by its deadline', async () => {
    await using rig = await openWith((_, { signal }) => hang(signal));
    const observed = await carryOut(rig, 20);
    await rig.clock.advance(19_999);
    expect(observed()).toBeUndefined();
    await rig.clock.advance(1);
    await rig.rest();
    expect(observed()).toMatchObject({
      phase: 'expired',
      error: { code: 'timeout', message: 'It did not end within 20 s' },
    });
    expect(observed()?.finished_at).toBe(rig.clock.now().toISOString());
  });

  it('is tried again for ten minutes where a deployment waits for it, as its server may have others before it', async () => {
    let times = 0;
    await using rig = await openWith((_, { signal }) => ((times += 1) < 4 ? hang(signal) : Promise.resolve({})));
    const of = { deployment_id: randomUUID() };
    const observed = await carryOut(rig, 40, of);
    for (let second = 0; second < 180; second += 1) await rig.clock.advance(1000);
    expect([times, observed()?.phase]).toEqual([4, 'succeeded']);

    times = -100;
    const late = await carryOut(rig, 40, of);
    for (let second = 0; second < 700; second += 1) await rig.clock.advance(1000);
    expect(late()).toMatchObject({
      phase: 'expired',
      error: { code: 'timeout', message: expect.stringContaining('was not read within 40 s') },
    });
  });

  it('has no more time than a reconcile', async () => {
    const given: number[] = [];
    await using rig = await openWith(async (_, { timeoutMs }) => {
      given.push(timeoutMs);
      return {};
    });
    await carryOut(rig, 3600);
    await rig.rest();
    expect(given).toEqual([limits.operations.runMs]);
    expect(limits.operations.runMs).toBeLessThan(limits.reconcile.deadlineMs);
  });

  it('is carried out once', async () => {
    let times = 0;
    await using rig = await openWith(async () => ({ times: (times += 1) }));
    const observed = await carryOut(rig, 20);
    rig.controllers.resync();
    await rig.rest();
    expect(times).toBe(1);
    expect(observed()).toMatchObject({ phase: 'succeeded', result: { times: 1 } });
  });

  it.each([
    [true, 'waits for an agent that is away where it deploys', { phase: 'succeeded' }],
    [false, 'fails where its agent is away and only a caller waits', { phase: 'failed', error: { code: 'away' } }],
  ])('with deploy %s, %s', async (deploy, _, end) => {
    let isAway = true;
    await using rig = await openWith(() =>
      isAway ? Promise.reject(new CallError('away', 'Its agent is not connected')) : Promise.resolve({}),
    );
    const requested_at = rig.clock.now().toISOString();
    const { meta, desired } = object('operation', { type: 'sync', requested_at, deadline_seconds: 45, deploy });
    const asks = rig.repo.begin();
    asks.create('operation', meta.id, desired);
    await commit(asks);
    await rig.rest();
    isAway = false;
    await rig.clock.advance(60_000);
    await rig.rest();
    expect(rig.mirror.tenant(tenant).get('operation', meta.id)?.observed).toMatchObject(end);
  });

  it('does not show the text of an error that is a bug', async () => {
    await using rig = await openWith(() => Promise.reject(new Error('postgres://user:hunter2@db')));
    const observed = await carryOut(rig, 20);
    expect(observed()).toMatchObject({
      phase: 'failed',
      error: { code: 'failed', message: 'Internal error: the log of the control plane has the cause' },
    });
  });

  it('begins anew with the next leader when the one before ended', async () => {
    let times = 0;
    await using rig = await openWith((_, { signal }) =>
      (times += 1) === 1 ? hang(signal) : Promise.resolve({ times }),
    );
    const observed = await carryOut(rig, 20);
    await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
    await rig.clock.advance(limits.leader.jitterMs);
    await rig.rest();
    expect(observed()).toMatchObject({ phase: 'succeeded', result: { times: 2 } });
  });

  it.each([
    ['in another tenant', 'other', { project_id: id('blog') }, { project_id: id('shop') }],
    ['in another project of the tenant', tenant, { project_id: id('blog') }, { project_id: id('shop') }],
    ['of a server of the tenant', tenant, {}, { project_id: id('shop') }],
    ['of a server, where it is servers that hang,', tenant, {}, { type: 'provision' as const }],
  ])('%s is begun while many others hang', async (_, whose, waits, hangs) => {
    const provision: Run = (_it, { signal }) => hang(signal);
    const sync: Run = async ({ desired }, { signal }) => (desired.project_id === id('shop') ? hang(signal) : {});
    await using rig = await openWith(sync, { provision });
    const ask = async (of: string, name: string, what: Partial<DesiredOf<'operation'>>): Promise<void> => {
      const asks = openRepository(rig.store, of, rig.clock).begin();
      asks.create('operation', id(name), { type: 'sync', requested_at: '', deadline_seconds: 20, ...what });
      await commit(asks);
    };
    for (let n = 0; n < 40; n++) await ask(tenant, `hangs ${n}`, hangs);
    await settle(50);
    await ask(whose, 'waits', waits);
    await settle(50);
    expect(rig.mirror.tenant(whose).get('operation', id('waits'))?.observed?.phase).toBe('succeeded');
  });
});
