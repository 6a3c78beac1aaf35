import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { smallRelease } from '../harness/small-release.ts';
import type { SmallRelease } from '../harness/small-release.ts';

let release: SmallRelease;
let world: ApiWorld;
let clock: FakeClock;
let owner: Client;
let server: string;

beforeEach(async () => {
  release = await smallRelease('1.1.0', { 'linux-x64': 'a later agent' });
  clock = new FakeClock();
  world = await startApi({ clock, config: { agentRelease: release.folder, publicUrl: 'https://setpoint.test' } });
  owner = await world.owner();
  ({ id: server } = (await owner.post('/servers', { name: 'one' })).data);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await release[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function agentIsThere(agent: object = {}): Promise<void> {
  const capabilities = [...agentCapabilities, 'update'];
  const live = { replica: 'r', session: 's', machineId: 'm', agentVersion: '1.0.0', capabilities, ...agent };
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value: JSON.stringify(live) }] });
  await world.settled();
}

const update = (body: object = {}, as: Client = owner) => as.post(`/servers/${server}/update-agent`, body);
const stored = async () => (await world.repo.get('server', server))?.desired.agent_update;
const running = { server_id: '', agent_version: '1.0.0', desired_agent_version: '1.1.0' };

it('sets the version of the release, once, and records who did', async () => {
  await agentIsThere();
  for (const body of [{}, { version: '1.1.0' }]) {
    const answer = await update(body);
    expect(answer.status).toBe(200);
    expect(answer.data).toEqual({ ...running, server_id: server, status: 'updating' });
    expect(await stored()).toEqual({ version: '1.1.0', requested_at: '2030-01-01T00:00:00.000Z' });
    await clock.advance(1000);
  }
  expect((await owner.get(`/servers/${server}`)).data).toMatchObject({ desired_agent_version: '1.1.0' });
  const [record] = (await owner.get('/audit?limit=50')).data;
  expect(record).toMatchObject({
    route: 'POST /servers/:id/update-agent',
    result: 'ok',
    objects: [{ kind: 'server', id: server }],
  });
});

it('is refused while the server is being deleted', async () => {
  await agentIsThere();
  expect((await owner.delete(`/servers/${server}`)).status).toBe(200);
  const { status, body } = await update();
  expect([status, body.error?.message]).toEqual([409, 'Server is being deleted']);
  expect(await stored()).toBeUndefined();
});

it('sets it anew where it failed', async () => {
  await agentIsThere();
  await update();
  const requestedAt = (await stored())?.requested_at;
  await agentIsThere({ updateFailure: { version: '1.1.0', requestedAt, reason: 'DiskFull', message: 'm' } });
  await clock.advance(60_000);
  expect((await update()).data.status).toBe('updating');
  expect((await stored())?.requested_at).toBe('2030-01-01T00:01:00.000Z');
  // as the controller keeps it while the agent does not know any more
  const failure = { version: '1.1.0', requested_at: '2030-01-01T00:01:00.000Z', reason: 'DiskFull', message: 'm' };
  await agentIsThere();
  await world.observe('server', server, { phase: 'active', update_failure: failure });
  await world.settled();
  await clock.advance(60_000);
  await update();
  expect((await stored())?.requested_at).toBe('2030-01-01T00:02:00.000Z');
});

it('sets it anew where an earlier version was put back on the machine', async () => {
  await agentIsThere();
  await update();
  const done = (await stored())?.requested_at ?? '';
  await world.observe('server', server, { phase: 'active', update_done: done });
  await world.settled();
  await clock.advance(60_000);
  expect((await update()).data.status).toBe('updating');
  expect((await stored())?.requested_at).toBe('2030-01-01T00:01:00.000Z');
});

it('changes nothing where the agent runs the version already', async () => {
  await agentIsThere({ agentVersion: '1.1.0', capabilities: [] });
  const answer = await update();
  expect(answer.data).toEqual({ ...running, server_id: server, agent_version: '1.1.0', status: 'current' });
  expect(await stored()).toBeUndefined();
});

it.each([
  [
    'is of an earlier release',
    { capabilities: agentCapabilities },
    /cannot update itself.*curl -fsSL https:\/\/setpoint\.test\/install\.sh \| sh/,
  ],
  ['is of a release that recorded nothing', { capabilities: undefined }, /cannot update itself/],
  ['is later than the release', { agentVersion: '1.2.0' }, /1\.2\.0, which is later than 1\.1\.0/],
])('is 409 with what to do where the agent %s', async (_, agent, message) => {
  await agentIsThere(agent);
  const answer = await update();
  expect(answer.status).toBe(409);
  expect(answer.body.error?.message).toMatch(message);
  expect(await stored()).toBeUndefined();
});

it('is 409 where there is no release, or another than expected, and 400 for what is no version', async () => {
  await agentIsThere();
  const other = await update({ version: '1.2.0' });
  expect([other.status, other.body.error?.message]).toEqual([409, expect.stringContaining('has the release 1.1.0')]);
  expect((await update({ version: 'newest' })).status).toBe(400);
  await rm(join(release.folder, 'manifest.json'));
  const none = await update();
  expect([none.status, none.body.error?.message]).toEqual([409, expect.stringContaining('make release')]);
  expect(await stored()).toBeUndefined();
});

it('is stored while the agent is away, which takes it up once it is back', async () => {
  await world.repo.change('server', server, (draft) => {
    draft.agent_public_key = 'key of the agent';
  });
  await world.observe('server', server, { phase: 'offline', agent_version: '1.0.0' });
  await world.settled();
  const answer = await update();
  expect([answer.status, answer.data]).toEqual([200, { ...running, server_id: server, status: 'updating' }]);
  await clock.advance(1000);
  expect((await update()).data.status).toBe('updating');
  expect(await stored()).toEqual({ version: '1.1.0', requested_at: '2030-01-01T00:00:00.000Z' });
  await world.observe('server', server, { phase: 'offline', agent_version: '1.2.0' });
  await world.settled();
  const later = await update();
  expect([later.status, later.body.error?.message]).toEqual([409, expect.stringContaining('later than 1.1.0')]);
  await world.observe('server', server, { phase: 'offline', agent_version: '1.1.0' });
  await world.settled();
  expect((await update()).data.status).toBe('current');
});

it('is 409 where no agent has joined, as one that joins has the version of the release', async () => {
  const answer = await update();
  expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining('No agent has joined')]);
});

it('is for admins and above', async () => {
  await agentIsThere();
  expect((await update({}, await world.user())).status).toBe(403);
});

it('shows the later version with the status of the agent', async () => {
  await agentIsThere();
  const status = async () => (await owner.get(`/servers/${server}/agent-status`)).data;
  expect(await status()).toMatchObject({ agent_version: '1.0.0', available_agent_version: '1.1.0' });
  await agentIsThere({ agentVersion: '1.1.0' });
  expect(await status()).toMatchObject({ agent_version: '1.1.0', available_agent_version: null });
});
