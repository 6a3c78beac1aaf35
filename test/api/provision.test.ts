import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function reachable(changes: object = {}): Promise<string> {
  const key = await owner.post('/settings/ssh-keys', { name: 'fleet' });
  const body = { name: 'one', ipAddress: '192.0.2.7', sshKeyId: key.data.id, ...changes };
  const made = await owner.post('/servers', body);
  expect(made.status).toBe(201);
  return made.data.id as string;
}

const provision = (server: string, client = owner) => client.post(`/servers/${server}/provision`, {});
const attemptOf = async (server: string) => (await world.repo.get('server', server))?.desired.provision_attempt;

/** As its controller leaves a server whose provisioning has come that far. */
async function observe(server: string, state: 'running' | 'failed'): Promise<void> {
  const step = { type: 'LoggedIn', status: 'false', reason: 'LoginRefused', message: 'It refuses the key' } as const;
  const observed: ObservedOf<'server'> = {
    phase: state === 'failed' ? 'error' : 'provisioning',
    provisioning: { asked: 'x', state, steps: [step] },
  };
  await world.observe('server', server, observed, [step]);
  await world.settled();
}

it('a server with an address and an SSH key is provisioning, and can be joined by hand all the same', async () => {
  const server = await reachable();
  const { data } = await owner.get(`/servers/${server}`);
  expect(data.status).toBe('provisioning');
  const renewed = await owner.post(`/servers/${server}/join-token`, {});
  expect(renewed.data.install_command).toContain(renewed.data.join_token);
});

it('the steps are conditions of the server', async () => {
  const server = await reachable();
  await observe(server, 'failed');
  const { data } = await owner.get(`/servers/${server}`);
  expect(data.status).toBe('error');
  expect(data.conditions).toMatchObject([{ type: 'LoggedIn', status: 'false', message: 'It refuses the key' }]);
});

describe('another attempt', () => {
  it('is begun for a server whose provisioning has failed', async () => {
    const server = await reachable();
    await observe(server, 'failed');
    const answer = await provision(server);
    expect([answer.status, answer.data.id]).toEqual([200, server]);
    const first = await attemptOf(server);
    expect(first).toEqual(expect.any(String));
    expect((await owner.get('/audit')).data[0]).toMatchObject({ route: 'POST /servers/:id/provision', result: 'ok' });
    await provision(server);
    expect(await attemptOf(server)).not.toBe(first);
  });

  it('is not begun while one is under way', async () => {
    const server = await reachable();
    expect((await provision(server)).status).toBe(200);
    await observe(server, 'running');
    expect((await provision(server)).status).toBe(200);
    expect(await attemptOf(server)).toBeUndefined();
  });

  it.each([
    ['ip_address', { ipAddress: null }],
    ['ssh_key_id', { sshKeyId: null }],
  ])('needs %s', async (field, changes) => {
    const answer = await provision(await reachable(changes));
    expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining(field)]);
  });

  it('is refused for a server that has an agent', async () => {
    const server = await reachable();
    await world.repo.change('server', server, (draft) => void (draft.agent_public_key = 'key'));
    await world.settled();
    expect((await provision(server)).status).toBe(409);
    await world.observe('server', server, { phase: 'active' });
    await world.settled();
    const answer = await provision(server);
    expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining('has an agent already')]);
  });

  it('follows the trust in another host key, where it has failed', async () => {
    const server = await reachable();
    const trust = () => owner.post(`/servers/${server}/trust-host-key`, { fingerprint: `SHA256:${'a'.repeat(43)}` });
    expect((await trust()).status).toBe(200);
    expect(await attemptOf(server)).toBeUndefined();
    await observe(server, 'failed');
    expect((await trust()).status).toBe(200);
    expect(await attemptOf(server)).toEqual(expect.any(String));
  });

  it('is for admins', async () => {
    const server = await reachable();
    expect((await provision(server, await world.user())).status).toBe(403);
  });
});
