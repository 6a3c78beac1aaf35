import { afterAll, beforeAll, expect, it } from 'vitest';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let server: string;
let app: string;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  const place = await world.place(owner);
  ({ server } = place);
  const source = { source_type: 'image', image_url: 'example/web' };
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: server,
    name: 'web',
    ...source,
  });
  app = made.data.id;
  const live = { replica: 'r', session: 's', machineId: 'm', capabilities: agentCapabilities };
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value: JSON.stringify(live) }] });
  await world.settled();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const malformed = [
  null,
  [],
  'no',
  { checks: 'no' },
  { at: 'yesterday', lines: {}, workloads: 1, rows: 'x', containers: 2 },
];

it.each([
  ['logs', () => owner.get(`/servers/${server}/logs`)],
  ['the storage of logs', () => owner.get(`/servers/${server}/logs/storage`)],
  ['metrics', () => owner.get(`/servers/${server}/metrics`)],
  ['what no agent made', () => owner.post(`/servers/${server}/adopt`, {})],
  ['logs of an application', () => owner.get(`/applications/${app}/runtime-logs`)],
])('a malformed answer of an agent to a request for %s is its fault: 409 with what to do', async (_, request) => {
  for (const answer of malformed) {
    world.agents.answer = () => answer;
    const { status, body } = await request();
    expect([status, body.error?.message], JSON.stringify(answer)).toEqual([
      409,
      expect.stringContaining('upgrade the agent'),
    ]);
  }
});

it('a malformed answer of an agent to a diagnosis is a warning in place of what is not known', async () => {
  for (const answer of malformed) {
    world.agents.answer = () => answer;
    const { status, data } = await owner.get(`/servers/${server}/diagnose`);
    expect([status, data.status], JSON.stringify(answer)).toEqual([200, 'warn']);
    expect(data.checks.at(-1).message).toContain('upgrade the agent');
  }
});
