import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { webhookDeliveryController } from '../../controllers/webhook-delivery/reconcile.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import * as hosts from '../harness/git-hosts.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

const repository = 'https://git.example.com/team/shop.git';
const secret = 'a-secret-of-sixteen-or-more';
const serves = 'a'.repeat(40);
let head = serves;

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let cli: CommandLine;
let place: { project: string; server: string };

beforeAll(async () => {
  world = running.use(await startApi());
  const comparisons = operationController({
    agents: { call: () => Promise.resolve({ commit: head }) },
    machines: noMachines,
    installation: noInstallation,
  });
  running.use(await lead(world, world.clock, comparisons, webhookDeliveryController));
  owner = await world.owner();
  place = await world.place(owner);
  cli = running.use(await CommandLine.open());
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

const environment = () => ({
  SETPOINT_URL: world.url,
  SETPOINT_TENANT: 'default',
  SETPOINT_TOKEN: owner.token ?? '',
});
const run = (argv: readonly string[], stdin = '') => cli.run(argv, stdin, environment());
const create = async (name: string, ...more: string[]) =>
  run(
    [
      'create',
      'git-webhook',
      name,
      '--project',
      place.project,
      '--provider',
      'github',
      '--repository',
      repository,
      ...more,
    ],
    more.includes('--secret') ? `${secret}\n` : '',
  );

/** What the command says to enter at the git host. */
function entryIn(out: string): { url: string; secret: string } {
  const [, url = '', made = ''] =
    /Enter this at the git host[^\n]*:\n {2}(\S+)\nwith this secret[^\n]*:\n {2}(\S+)\n$/.exec(out) ?? [];
  return { url: world.url + new URL(url).pathname, secret: made };
}

async function push(url: string, signedBy: string): Promise<number> {
  const pushed = { url: repository, ref: 'refs/heads/main', before: serves, after: head };
  const { body, headers } = hosts.github(pushed, signedBy);
  return (await fetch(url, { method: 'POST', body, headers })).status;
}

it('a webhook is made, changed and given another secret, which is printed once', async () => {
  const made = await create('shop');
  expect(made).toMatchObject({ code: 0, err: '' });
  const first = entryIn(made.out);
  expect(await push(first.url, first.secret)).toBe(200);

  const set = ['set', 'git-webhook', 'shop', '--project', place.project];
  const renamed = await run([...set, '--name', 'store', '--provider', 'gitea']);
  expect(renamed).toEqual({ code: 0, out: 'git-webhook store is changed\n', err: '' });
  for (const [environment, shown] of [
    ['production', { ttl_seconds: 604_800 }],
    ['none', null],
  ] as const) {
    expect((await run(['set', 'git-webhook', 'store', '--previews', environment])).code).toBe(0);
    const [now] = (await owner.get('/webhooks/git')).data;
    if (shown === null) expect(now.previews).toBeNull();
    else expect(now.previews).toMatchObject(shown);
  }
  const back = ['set', 'git-webhook', 'store', '--provider', 'github', '--new-secret'];
  const replaced = await run(back);
  expect(replaced.out).toMatch(/^git-webhook store is changed\n/);
  const second = entryIn(replaced.out);
  expect(second.url).toBe(first.url);
  expect(second.secret).not.toBe(first.secret);
  expect(await push(first.url, first.secret)).toBe(404);
  expect(await push(second.url, second.secret)).toBe(200);

  // one that the user knows is not printed
  const own = await run(['set', 'git-webhook', 'store', '--secret'], `${secret}\n`);
  expect(own).toEqual({ code: 0, out: 'git-webhook store is changed\n', err: '' });
  expect(await push(second.url, second.secret)).toBe(404);
  expect(await push(second.url, secret)).toBe(200);
  const shown = await run(['describe', 'git-webhook', 'store']);
  for (const text of [shown.out, (await run(['get', 'git-webhooks', '-o', 'json'])).out])
    expect([first.secret, second.secret, secret].filter((it) => text.includes(it))).toEqual([]);
});

it.each([
  [
    [],
    'Nothing to set: name what changes, by --name or --provider, --repository, --previews, --secret, --new-secret\n',
  ],
  [['--address', '192.0.2.1'], '--address is not an option of a git-webhook: it has --name, --provider, '],
  [['--secret', '--new-secret'], "option '--new-secret' cannot be used with option '--secret'"],
])('set git-webhook with %j is refused', async (argv, words) => {
  const refused = await run(['set', 'git-webhook', 'any', ...argv]);
  expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringContaining(words) });
});

it('shows what a git host sent with each decision, and has one decided again', async () => {
  const { url } = entryIn((await create('calls')).out);
  expect(await run(['deliveries', 'calls'])).toEqual({ code: 0, out: 'webhook calls was never called\n', err: '' });
  const nothing = await run(['replay', 'calls']);
  expect(nothing).toEqual({ code: 1, out: '', err: 'There is nothing to replay: webhook calls was never called\n' });

  await run(['set', 'git-webhook', 'calls', '--secret'], `${secret}\n`);
  const app = await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: 'web',
    source_type: 'git',
    repository_url: repository,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    autodeploy: true,
  });
  const first = (await owner.post(`/applications/${app.data.id}/deploy`)).data.id;
  await world.observe('deployment', first, { phase: 'succeeded', image: 'i', image_digest: 'd', commit: serves });
  expect(await push(url, secret)).toBe(200);
  const again = await run(['replay', 'calls']);
  expect(again).toMatchObject({ code: 0, out: expect.stringMatching(/^web: up_to_date: What serves is of the head/) });

  head = 'b'.repeat(40);
  expect(await push(url, secret)).toBe(200);
  const deployed = await run(['replay', 'calls']);
  expect(deployed.out).toMatch(/^web: (deployed|deploying): Deployment 2 /);
  const listed = await run(['deliveries', 'calls']);
  expect(listed.out).toMatch(/^AGE +EVENT +REF +APPLICATION +DECISION +ID +MESSAGE\n/);
  expect(listed.out.match(/push +refs\/heads\/main +web +/g)).toHaveLength(4);
  const all: { id: string }[] = JSON.parse((await run(['deliveries', 'calls', '-o', 'json'])).out);
  const oldest = all.at(-1)?.id ?? '';
  expect((await run(['replay', 'calls', oldest])).code).toBe(0);
  expect((await run(['replay', 'calls', createHmac('sha256', 'x').digest('hex')])).code).toBe(1);
});

it('shows the request that a delivery is about', { tags: [longTag] }, async () => {
  const { url } = entryIn((await create('requests')).out);
  await run(['set', 'git-webhook', 'requests', '--secret'], `${secret}\n`);
  const of = { ref: 'feature', sha: serves, repo: { clone_url: repository } };
  const body = JSON.stringify({
    action: 'closed',
    number: 7,
    pull_request: { head: of, updated_at: '2026-01-01T00:00:00Z' },
    repository: { clone_url: repository },
  });
  const headers = {
    'x-github-event': 'pull_request',
    'x-github-delivery': 'seven',
    'x-hub-signature-256': `sha256=${hosts.hex(secret, body)}`,
  };
  expect((await fetch(url, { method: 'POST', body, headers })).status).toBe(200);
  const listed = await run(['deliveries', 'requests']);
  expect(listed.out).toMatch(/ pull_request +#7 feature +/);
  const [{ id }] = JSON.parse((await run(['deliveries', 'requests', '-o', 'json'])).out);
  const shown = await run(['deliveries', 'requests', id]);
  expect(shown).toMatchObject({ code: 0, err: '' });
  expect(shown.out).toMatch(/^request +\{"action":"close","number":7,"branch":"feature",/m);
  expect((await run(['deliveries', 'requests', 'none'])).code).toBe(1);
});
