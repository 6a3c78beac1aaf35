import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { CommandLine } from '../harness/command-line.ts';
import { containersWith, docker } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { longTag } from '../layer-report.ts';

let town: Installation;
let app: ApiObject;

beforeAll(async () => {
  const { http } = await ensureTestImages();
  town = await Installation.start({ store: 'sqlite' });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, { direct_ports_enabled: false });
  app = await town.createApplication({
    ...brief,
    name: 'shop',
    source_type: 'image',
    image_url: http,
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    memory_limit: '128m',
    env: { COLOUR: 'red' },
  });
  await town.client.request('PATCH', `/api/v1/applications/${app.id}/env`, { SELF: '${applications.shop.url}' });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded');
});
afterAll(() => town[Symbol.asyncDispose]());

const request = (command: readonly string[], fields: object = {}) =>
  town.client.object('POST', `/api/v1/applications/${app.id}/run`, { command, ...fields });

const over = (id: string) =>
  town.until('the command has ended', async () => {
    const it = await town.client.object('GET', `/api/v1/runs/${id}`);
    return !['pending', 'running'].includes(String(it.status)) && it;
  });

/** The lines of a command as its stream has them from the first one. */
async function linesOf(id: string): Promise<{ stream: string; message: string }[]> {
  const lines: { stream: string; message: string }[] = [];
  for await (const frame of town.client.stream(`/ws/runs/${id}/logs`, {}, AbortSignal.timeout(60_000))) {
    if (frame['type'] === 'log') lines.push({ stream: String(frame['stream']), message: String(frame['message']) });
    if (frame['type'] === 'end') break;
  }
  return lines;
}

const node = (script: string, ...argv: string[]) => ['/bin/node', '-e', script, ...argv];

it('a command runs with image, configuration and network of the application, and leaves its log alone', async () => {
  const script = `
    console.log(process.env.COLOUR, process.env.ONLY, process.argv[1]);
    console.error('to the other stream');
    fetch(process.env.SELF + '/env/COLOUR').then((it) => it.text()).then((it) => { console.log('served', it); process.exit(3); });`;
  const { id } = await request(node(script, 'a "word" $HOME'), { env: { ONLY: '${applications.shop.url}' } });
  const lines = await linesOf(id);
  expect(lines.filter(({ stream }) => stream === 'stdout').map(({ message }) => message)).toEqual([
    'red ${applications.shop.url} a "word" $HOME',
    'served red',
  ]);
  expect(lines).toContainEqual({ stream: 'stderr', message: 'to the other stream' });
  expect(await over(id)).toMatchObject({ status: 'failed', exit_code: 3, error: { code: 'exited' } });
  expect(await containersWith(labels.workload, id)).toEqual([]);
  const page = await town.client.request('GET', `/api/v1/runs/${id}/logs?search=served`);
  expect(page).toMatchObject({ lines: [{ message: 'served red' }] });
  const ofApplication = await town.client.request('GET', `/api/v1/applications/${app.id}/runtime-logs?search=served`);
  expect(ofApplication).toMatchObject({ lines: [] });
});

it('the command line prints what a command writes, and exits with its code', async () => {
  await using cli = await CommandLine.open();
  const { server, token = '' } = town.client.connection;
  const env = { SETPOINT_URL: server, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: token };
  const script = "console.log('out', process.env.COLOUR, process.env.ONLY); console.error('err'); process.exit(7)";
  const ended = await cli.run(['run', 'shop', '--env', 'ONLY=once', '--', ...node(script)], '', env);
  expect(ended).toEqual({ code: 7, out: 'out red once\n', err: expect.stringMatching(/^err\n/) });
  // the shell ends at once when it is asked to
  const endless = "trap 'exit 0' TERM; sleep 60 & wait";
  const detached = await cli.run(['run', 'shop', '--detach', '--', '/bin/true'], '', env);
  expect([detached.code, detached.err]).toEqual([0, '']);
  const [, id = ''] = /^Run (\S+) is requested: setpoint describe run /.exec(detached.out) ?? [];
  expect(await over(id)).toMatchObject({ status: 'succeeded', exit_code: 0 });
  const late = await cli.run(['run', 'shop', '--timeout', '1', '--', '/bin/sh', '-c', endless], '', env);
  expect(late).toEqual({ code: 1, out: '', err: expect.stringContaining('did not end within 1 s') });
  expect(await cli.run(['run', 'shop'], '', env)).toMatchObject({
    code: 1,
    err: 'Name the command: setpoint run APP -- COMMAND\n',
  });
});

it('5000 lines of a command come complete and in order', async () => {
  const { id } = await request(node('for (let n = 0; n < 5000; n++) console.log("line", n)'));
  const lines = await linesOf(id);
  expect(lines.map(({ message }) => message)).toEqual(Array.from({ length: 5000 }, (_, n) => `line ${n}`));
  expect(await over(id)).toMatchObject({ status: 'succeeded', exit_code: 0 });
});

it(
  'what cannot be run says so: a program that is not there, too much memory, too much time',
  { tags: [longTag] },
  async () => {
    const [missing, greedy, slow] = await Promise.all([
      request(['/no/such/program']),
      request(node('const all = []; for (;;) all.push(Buffer.alloc(16 * 1024 * 1024, 1))')),
      request(['/bin/sleep', '600'], { timeout_seconds: 3 }),
    ]);
    expect(await over(missing.id)).toMatchObject({ status: 'failed', exit_code: null });
    const ended = await over(slow.id);
    expect(ended).toMatchObject({ status: 'failed', error: { code: 'run_timeout' } });
    expect(await over(greedy.id)).toMatchObject({ status: 'failed', exit_code: 137, error: { code: 'out_of_memory' } });
    for (const { id } of [missing, greedy, slow]) expect(await containersWith(labels.workload, id)).toEqual([]);
  },
);

it('the agent is killed while a command runs: it is lost, its process is ended, and nothing begins it again', async () => {
  const { id } = await request(['/bin/sleep', '600']);
  await town.until('it runs', async () => (await containersWith(labels.workload, id)).length === 1);
  await town.agent.kill();
  town.agent.start();
  expect(await over(id)).toMatchObject({ status: 'lost', error: { code: 'interrupted' } });
  await town.until('its container is gone', async () => (await containersWith(labels.workload, id)).length === 0);
  expect(await docker('ps', '--all', '--quiet', '--filter', `label=${labels.type}=run`)).toBe('');
});
