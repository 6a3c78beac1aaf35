import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { startBareContainer } from '../harness/bare-container.ts';
import type { BareContainer } from '../harness/bare-container.ts';
import { builtRelease } from '../harness/built-release.ts';
import { machineAddress } from '../harness/engine.ts';
import { freePort, Program } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

/** The tests tell one story: each begins where the one before ended. The machine of the copy is a container. */
let folder: string;
let executable: string;
let control: Program;
let client: Client;
let url: string;
let first: Program;
let server: ApiObject;
let application: ApiObject;

const copied = (name: string): string => join(folder, name);
const environment = (data: string): Record<string, string> => ({
  SETPOINT_SERVER: `${url}/default`,
  SETPOINT_DATA: data,
  SETPOINT_RUNTIME: 'mock',
  SETPOINT_ALLOW_PLAIN_HTTP: 'true',
});
const get = (id = server.id): Promise<ApiObject> => client.object('GET', `/api/v1/servers/${id}`);
const condition = async (type: string) => (await get()).conditions?.find((one) => one.type === type);
const statusOfApplication = async (): Promise<unknown> =>
  (await client.object('GET', `/api/v1/applications/${application.id}`)).status;
let copy: BareContainer | undefined;
const explain = async (): Promise<string> => {
  const ofCopy = (await copy?.run('tail -n 20 /var/log/agent.log'))?.stdout;
  return [JSON.stringify(await get(), undefined, 1), await first.lastOutput(), ofCopy].join('\n');
};
const becomes = (what: string, is: () => Promise<boolean>, timeoutMs = 60_000) =>
  until(what, is, { timeoutMs, explain });

/** An agent of the release as a program of this machine. */
function agent(name: string, more: Readonly<Record<string, string>> = {}): Program {
  const it = new Program([], join(folder, `${name}.log`), { ...environment(copied(name)), ...more });
  it.command = executable;
  return it;
}

beforeAll(async () => {
  ({ executable } = await builtRelease());
  folder = await mkdtemp(join(tmpdir(), 'setpoint-copied-agent-'));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const host = await machineAddress();
  const listen = `${host}:${await freePort()}`;
  url = `http://${listen}`;
  const flags = ['--listen', listen, '--public-url', url, '--data', join(folder, 'server'), '--setup-token', 'off'];
  control = new Program(['server', ...flags], join(folder, 'server.log'));
  started.defer(() => control.kill());
  control.start();
  await control.ready(url);
  const visitor = createClient({ server: url, tenant: 'default' });
  const owner = { email: 'owner@example.test', password: 'correct horse battery' };
  const { token } = z
    .object({ token: z.string() })
    .parse(await visitor.request('POST', '/api/v1/auth/register', owner));
  client = createClient({ server: url, tenant: 'default', token });
  server = await client.object('POST', '/api/v1/servers', { name: 'one' });
  first = agent('first', { SETPOINT_JOIN_TOKEN: String(server['join_token']) });
  started.defer(() => first.kill('SIGTERM'));
  first.start();
  await becomes('the server is active', async () => (await get()).status === 'active');
  const project = await client.object('POST', '/api/v1/projects', { name: 'shop' });
  const [found] = await client.list(`/api/v1/projects/${project.id}/environments`);
  application = await client.object('POST', '/api/v1/applications', {
    name: 'web',
    project_id: project.id,
    environment_id: found?.id,
    server_id: server.id,
    source_type: 'image',
    image_url: 'nginx:1',
    min_healthy_seconds: 1,
  });
  await client.request('POST', `/api/v1/applications/${application.id}/deploy`, {});
  await becomes('the application runs', async () => (await statusOfApplication()) === 'running');
});
/** What the setup started, also where it did not come to its end. */
const started = new AsyncDisposableStack();
afterAll(() => started.disposeAsync());

it('an agent of a copied data directory does not start beside the first one', async () => {
  await cp(copied('first'), copied('beside'), { recursive: true });
  await using stack = new AsyncDisposableStack();
  const beside = agent('beside');
  beside.start();
  stack.defer(() => beside.kill());
  await becomes('it has ended', async () => !beside.isRunning);
  expect(await beside.log()).toContain(`Another agent of this machine has the identity of server ${server.id}`);
  expect(await beside.log()).toContain('let it join as another server with an empty data directory');
  expect(await get()).toMatchObject({ status: 'active', agent_status: 'connected' });
});

it(
  'one on another machine takes turns with it: the server shows it, and what runs goes on',
  { tags: [longTag], timeout: 300_000 },
  async () => {
    await cp(copied('first'), copied('second'), { recursive: true });
    await using stack = new AsyncDisposableStack();
    const other = stack.use(await startMachine('second'));
    copy = other;
    const starts = `${executable} >>/var/log/agent.log 2>&1 & echo $! >/run/agent.pid`;
    await other.run(starts, environment('/data'));
    await becomes(
      'the conflict is shown',
      async () => (await condition('AgentIdentityConflict'))?.status === 'true',
      180_000,
    );
    const { reason, message } = { ...(await condition('AgentIdentityConflict')) };
    expect(reason).toBe('SeveralMachines');
    // `disconnected` between two takeovers
    expect(['unknown', 'disconnected']).toContain((await get())['agent_status']);
    expect(message).toContain('stop the agent of the copy, and let it join as a server of its own');
    expect(await first.log()).toContain('superseded');
    expect(await statusOfApplication()).toBe('running');

    // what the condition says to do
    await other.run('kill $(cat /run/agent.pid)');
    const hasEnded = async (): Promise<boolean> => (await other.run('kill -0 $(cat /run/agent.pid)')).code !== 0;
    await becomes('the copy has ended', hasEnded);
    await other.run('rm -rf /data/*');
    const own = await client.object('POST', '/api/v1/servers', { name: 'two' });
    const joined = { ...environment('/data'), SETPOINT_JOIN_TOKEN: String(own['join_token']) };
    await other.run(starts, joined);
    await becomes('the copy is a server of its own', async () => (await get(own.id)).status === 'active');
    const tunnel = `/api/v1/servers/${server.id}/tunnel-status`;
    const isBack = async () =>
      z.object({ connected: z.boolean() }).parse(await client.request('GET', tunnel)).connected;
    await becomes('the first agent is back', isBack);
    expect((await get()).status).toBe('active');
    expect(await statusOfApplication()).toBe('running');
  },
);

/** A machine with the executable, and that folder as the data directory of its agent. */
function startMachine(data: string): Promise<BareContainer> {
  return startBareContainer(executable, {
    programs: [executable],
    network: 'bridge',
    flags: ['--volume', `${copied(data)}:/data`],
  });
}
