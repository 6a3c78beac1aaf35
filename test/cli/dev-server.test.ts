import { access, mkdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { deletedServers, ensureServer } from '../../cli/dev-server.ts';
import { Town } from '../harness/command-line.ts';
import { Program } from '../harness/program.ts';
import { until } from '../harness/until.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let town: Town;
let agentData: string;
const printed: string[] = [];

beforeAll(async () => {
  town = await Town.start();
  await town.login();
  agentData = join(town.cli.home, 'agent');
});
afterAll(() => town[Symbol.asyncDispose]());

const ensured = async () => {
  printed.length = 0;
  return ensureServer(town.client, { name: 'one', agentData, print: (line) => printed.push(line) });
};

/** Starts the agent anew, and waits until its server can be used. */
async function joins({ server, joinToken = '' }: Awaited<ReturnType<typeof ensured>>): Promise<void> {
  const flags = ['--server', `${town.url}/default`, '--data', agentData, '--runtime', 'mock'];
  town.agent = new Program(['agent', ...flags, '--token', joinToken], join(town.cli.home, 'agent.log'));
  town.agent.start();
  const isActive = async () => (await town.client.object('GET', `/api/v1/servers/${server.id}`)).status === 'active';
  const identity = () => readFile(join(agentData, 'identity.json'), 'utf8').catch(() => '');
  const hasJoined = async () => (await identity()).includes('used_token_hash') && isActive();
  await until('the server is active', hasJoined, { explain: () => town.agent.lastOutput() });
}

it('a server whose agent has joined is used as it is, also by another name', async () => {
  const { server, joinToken } = await ensured();
  expect({ name: server.name, joinToken, printed }).toEqual({ name: 'one', joinToken: undefined, printed: [] });
  await town.client.request('PUT', `/api/v1/servers/${server.id}`, { name: 'renamed' });
  expect((await ensured()).server).toMatchObject({ id: server.id, name: 'renamed' });
  await town.client.request('PUT', `/api/v1/servers/${server.id}`, { name: 'one' });
});

it('after a deletion another server is made, and the data of the agent is set aside', async () => {
  const { server: before } = await ensured();
  expect(await town.cli.run(['delete', 'server', 'one', '--force', '--yes'])).toMatchObject({ code: 0, err: '' });
  await town.agent.kill();
  const made = await ensured();
  expect(made.server.id).not.toBe(before.id);
  const kept = `${agentData}-of-${before.id}`;
  expect(printed).toEqual([
    `Server ${before.id} is gone: the data of its agent is kept in ${kept}, and nothing needs it`,
  ]);
  await access(join(kept, 'identity.json'));
  await mkdir(`${agentData}-of-one-that-only-another-store-knows`);
  expect(await deletedServers(town.client, agentData)).toEqual([before.id]);
  await joins(made);
  expect(await ensured()).toEqual({ server: expect.objectContaining({ id: made.server.id }) });
});

it('an agent whose data was removed joins as the same server', async () => {
  const { server: before } = await ensured();
  await rename(agentData, `${agentData}.moved`);
  await expect(ensured()).rejects.toThrow('The agent of server "one" is connected, and is not the one of this data');
  await town.agent.kill();
  const isAway = async () =>
    (await town.client.object('GET', `/api/v1/servers/${before.id}`))['agent_status'] === 'disconnected';
  await until('the agent is away', isAway);
  const renewed = await ensured();
  expect(renewed.server.id).toBe(before.id);
  expect(printed).toEqual([
    'The agent has not joined as server "one" with this data directory: it joins by a new token',
  ]);
  await joins(renewed);
  expect(await ensured()).toEqual({ server: expect.objectContaining({ id: before.id }) });
});

it('a deletion that goes on is waited for', { tags: 'long' }, async () => {
  await town.agent.kill();
  const { server: before } = await ensured();
  const begun = await town.cli.run(['delete', 'server', 'one', '--force', '--yes', '--no-wait']);
  expect(begun.out).toBe('server one is being deleted\n');
  const made = await ensured();
  expect(made.server.id).not.toBe(before.id);
  expect(printed[0]).toBe('Server "one" is being deleted, which takes a minute without its agent');
});
