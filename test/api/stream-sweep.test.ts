import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { columns } from '../../api/rights/permissions.ts';
import { streams } from '../../api/streams/streams.ts';
import type { Stream } from '../../api/streams/stream.ts';
import type { KeyScope } from '../../store/kinds/identity.ts';
import { keys } from '../../store/keys.ts';
import { createTenant } from '../../store/tenants.ts';
import { agentLog } from '../harness/agent-log.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { openFrames, Refusal } from '../harness/frames.ts';
import { expectedOf } from '../harness/route-table.ts';
import { setStage } from '../harness/stage.ts';
import type { Credential, Stage } from '../harness/stage.ts';
import { addDatabase, addRun, databaseOf, runOf } from './examples.ts';

/** Every stream, asked for by every kind of caller, opens as its line in `routes.txt` says: each cell of the table. */
let world: ApiWorld;

beforeAll(async () => {
  world = await startApi();
  await createTenant(world.store, 'elsewhere', world.clock);
  agentLog(world.agents);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const named = streams.map((stream) => [`WS ${stream.path}`, stream] as const);

async function stageFor(column: (typeof columns)[number], options: { scopes?: KeyScope[]; tenant?: string } = {}) {
  const stage = await setStage(world, column, options);
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm' });
  await world.store.txn({ if: [], then: [{ put: keys.agent(stage.tenant, stage.server), value }] });
  await world.settled();
  await addRun(stage);
  await addDatabase(stage);
  return stage;
}

/** 101 if it opens, else the status of the refusal. A token comes as it does from a browser, a key in a header. */
async function statusOf(
  { path, on }: Stream,
  stage: Stage,
  credential: Credential,
  tenant = 'default',
): Promise<number> {
  const objects = new Map<string | undefined, string>([
    ['deployment', stage.deployments.current],
    ['server', stage.server],
    ['run', runOf(stage)],
    ['database', databaseOf(stage)],
  ]);
  const id = objects.get(on?.[0]) ?? stage.application;
  const token = credential['authorization']?.split(' ')[1];
  const address = `${world.url.replace('http', 'ws')}/${tenant}${path.replace(':id', id)}`;
  try {
    await using _ = await openFrames(
      token === undefined ? address : `${address}?token=${token}`,
      token === undefined ? credential : {},
    );
    return 101;
  } catch (error) {
    if (error instanceof Refusal) return error.status;
    throw error;
  }
}

describe.each(named)('SEC-47: %s', (name, stream) => {
  const row = expectedOf(name);

  it.each(columns)('opens to the %s as its row says, by token and by service key', async (column) => {
    const stage = await stageFor(column);
    for (const by of ['token', 'key'] as const)
      expect([by, await statusOf(stream, stage, stage.actor.by[by])]).toEqual([
        by,
        row.grants[column] === '-' ? 403 : 101,
      ]);
  });

  it('asks for a credential that is good', async () => {
    const stage = await stageFor('superadmin');
    const stranger = await stageFor('superadmin', { tenant: 'elsewhere' });
    const { token, key } = stage.actor.by;
    for (const bad of [
      {},
      stranger.actor.by.token,
      stranger.actor.by.key,
      { authorization: 'Bearer x' },
      { authorization: `Bearer ${key['x-service-key']!}` },
      { authorization: token['authorization']!.slice(0, -3) },
      { 'x-service-key': `${key['x-service-key']!.slice(0, -1)}!` },
    ])
      expect(await statusOf(stream, stage, bad)).toBe(401);
  });

  it('finds nothing of another tenant', async () => {
    if (stream.on === undefined) return;
    const stage = await stageFor('superadmin');
    const stranger = await stageFor('superadmin', { tenant: 'elsewhere' });
    expect(await statusOf(stream, stage, stranger.actor.by.token, 'elsewhere')).toBe(404);
  });

  it('is not for a key without any scope', async () => {
    const stage = await stageFor('superadmin', { scopes: [] });
    expect(await statusOf(stream, stage, stage.actor.by.key)).toBe(403);
  });
});
