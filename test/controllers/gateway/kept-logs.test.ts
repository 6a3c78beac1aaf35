import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { LogsToKeep } from '../../../agent-protocol/logs.ts';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { commit } from '../../../store/unit.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import { desiredState } from '../../harness/states.ts';
import { until } from '../../harness/until.ts';
import { wireItem } from '../../harness/wire-items.ts';

let world: GatewayWorld;
let replica: TestReplica;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(() => world[Symbol.asyncDispose]());

async function deploy(server: string, application: string, queuedAt: string): Promise<string> {
  const id = randomUUID();
  const of = { application_id: application, server_id: server, queued_at: queuedAt };
  await world.create('deployment', id, desiredState('deployment', of));
  return id;
}

async function forget(kind: 'deployment' | 'application' | 'backup', id: string): Promise<void> {
  const unit = world.repo.begin();
  unit.requestDelete((await world.repo.get(kind, id))!);
  await commit(unit);
  for (const name of (await world.repo.get(kind, id))!.meta.finalizers) {
    const next = world.repo.begin();
    next.release((await world.repo.get(kind, id))!, name);
    await commit(next);
  }
}

/** What an agent that heard these messages keeps. */
function heard(messages: readonly LogsToKeep[]): Record<string, string | null | undefined> {
  const all = messages.flatMap(({ workloads }) => Object.entries(workloads));
  return Object.fromEntries(all.map(([id, it]) => [id, it === null ? null : it.builds_since]));
}

it('an agent hears of each workload of its server, and since when the history of an application is', async () => {
  const server = await world.server();
  const [web, idle, volume, elsewhere] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  await world.create('application', web, desiredState('application', { server_id: server.id }));
  await world.create('application', idle, desiredState('application', { server_id: server.id }));
  await world.create('application', elsewhere, desiredState('application', { server_id: randomUUID() }));
  await world.create('volume', volume, desiredState('volume', { server_id: server.id }));
  await deploy(server.id, web, '2026-01-03T00:00:00.000Z');
  const oldest = await deploy(server.id, web, '2026-01-02T00:00:00.000Z');
  const agent = rawAgent(replica.url, {
    server: server.id,
    key: agentKey(),
    token: server.token,
    capabilities: agentCapabilities,
  });
  const { keptLogs, stored } = agent.backend;
  await until('the set came', async () => stored.length > 0);
  // before the set
  expect(keptLogs).toEqual([
    {
      whole: true,
      more: false,
      workloads: { [web]: { builds_since: '2026-01-02T00:00:00.000Z' }, [idle]: {}, [volume]: {}, [server.id]: {} },
    },
  ]);
  await forget('deployment', oldest);
  await until('it left the history', async () => keptLogs.length === 2);
  expect(keptLogs[1]).toEqual({
    whole: false,
    more: false,
    workloads: { [web]: { builds_since: '2026-01-03T00:00:00.000Z' } },
  });
  await deploy(server.id, web, '2026-01-04T00:00:00.000Z'); // which changes nothing
  await deploy(server.id, idle, '2026-01-05T00:00:00.000Z');
  await forget('application', web);
  await until('it is gone', async () => heard(keptLogs)[web] === null);
  expect(heard(keptLogs)).toEqual({
    [web]: null,
    [idle]: '2026-01-05T00:00:00.000Z',
    [volume]: undefined,
    [server.id]: undefined,
  });
  expect(keptLogs).toHaveLength(4);
  agent.session.goodbye('The test is over');
  await agent.ended;
});

it('an agent hears of what is made after the set came, of each kind that has a log, and it is gone only with its object', async () => {
  const server = await world.server();
  const agent = rawAgent(replica.url, {
    server: server.id,
    key: agentKey(),
    token: server.token,
    capabilities: agentCapabilities,
  });
  const { keptLogs, stored } = agent.backend;
  await until('the set came', async () => stored.length > 0);
  const place = { environment_id: randomUUID(), server_id: server.id };
  const all = {
    application: desiredState('application', { server_id: server.id }),
    database: desiredState('database', { server_id: server.id }),
    volume: desiredState('volume', { server_id: server.id }),
    run: desiredState('run', { server_id: server.id }),
    function: desiredState('function', { server_id: server.id }),
    backup: desiredState('backup', { place }),
    restore: desiredState('restore', { place }),
    wal_archive: desiredState('wal_archive', { place }),
  } as const;
  const ids = new Map<string, string>();
  for (const kind of [
    'application',
    'database',
    'volume',
    'run',
    'function',
    'backup',
    'restore',
    'wal_archive',
  ] as const) {
    const id = randomUUID();
    await world.create(kind, id, all[kind]);
    ids.set(kind, id);
  }
  const elsewhere = randomUUID();
  await world.create('backup', elsewhere, desiredState('backup'));
  const backup = (await world.repo.get('backup', ids.get('backup')!))!;
  const observed = { phase: 'running' as const, observedGeneration: 1, conditions: [] };
  await world.repo.observe<'backup'>(backup, observed, []);
  await forget('application', ids.get('application')!);
  await until('the last change is heard of', async () => heard(keptLogs)[ids.get('application')!] === null);
  const present = [...ids].filter(([kind]) => kind !== 'application');
  expect(keptLogs.slice(1).map(({ workloads }) => workloads)).toEqual([
    { [ids.get('application')!]: {} },
    ...present.map(([, id]) => ({ [id]: {} })),
    { [ids.get('application')!]: null },
  ]);
  await forget('backup', ids.get('backup')!);
  await until('the backup is gone', async () => heard(keptLogs)[ids.get('backup')!] === null);
  agent.session.goodbye('The test is over');
  await agent.ended;
});

it('while removals are held, no log is gone', async () => {
  const server = await world.server();
  const backend = new FakeBackend();
  const lost = wireItem(randomUUID());
  backend.items.set(lost.id, lost);
  backend.setReport(running(lost));
  const store = { incarnation: 'another history', revision: 5 };
  const agent = rawAgent(replica.url, {
    server: server.id,
    key: agentKey(),
    token: server.token,
    capabilities: agentCapabilities,
    backend,
    store,
  });
  await until('the set came', async () => backend.stored.length > 0);
  expect(backend.items.has(lost.id)).toBe(true);
  expect(backend.keptLogs).toEqual([]);
  const confirmed = putHeldRemovals('acme', server.id, { held: 1, confirmed: true });
  await world.store.txn({ if: [], then: [confirmed] });
  await until('the list came', async () => backend.keptLogs.length > 0);
  expect(backend.keptLogs).toEqual([{ whole: true, more: false, workloads: { [server.id]: {} } }]);
  agent.session.goodbye('The test is over');
  await agent.ended;
});
