import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { git } from '../../agent/tasks/git.ts';
import { headReader } from '../../agent/tasks/read-head.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import { openWorkFolder } from '../../agent/tasks/work-folder.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { webhookDeliveryController } from '../../controllers/webhook-delivery/reconcile.ts';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import * as hosts from '../harness/git-hosts.ts';
import type { Host, Pushed, Signed } from '../harness/git-hosts.ts';
import { gitHttpServer, testRepositories } from '../harness/git-server.ts';
import type { TestRepository } from '../harness/git-server.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { until } from '../harness/until.ts';

const running = new AsyncDisposableStack();
const zeros = '0'.repeat(40);
const secret = 'a secret of sixteen or more'.replaceAll(' ', '-');
let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };
let shop: TestRepository;
let url: string;
let isAway = false;
/** Of the test, so that no other application follows it. */
let branch: string;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(
    await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, buildDeadlineMs: 60_000 } }),
  );
  const repositories = running.use(await testRepositories());
  const host = running.use(await gitHttpServer(repositories));
  shop = await repositories.create('shop');
  url = `${host.url}/shop.git`;

  const readHead = headReader({
    git: git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
  });
  const comparisons = operationController({
    agents: {
      async call(_tenant, _server, params, { signal }) {
        if (params.method !== 'git.head') throw new Error(`Not expected: ${params.method}`);
        if (isAway) throw new CallError('away', 'The agent of the server is not connected');
        try {
          return await readHead({ url: params.repository_url, branch: params.branch, since: params.since }, signal);
        } catch (error) {
          // what the agent makes of it on its way
          if (error instanceof RuntimeFailure) throw new CallError(error.code, error.message);
          throw error;
        }
      },
    },
    machines: noMachines,
    installation: noInstallation,
  });
  running.use(await lead(world, world.clock, comparisons, webhookDeliveryController));
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});
beforeEach(async () => {
  isAway = false;
  branch = `branch-${(count += 1)}`;
});

let count = 0;

const push = (files: Record<string, string> = { 'src/main.ts': String((count += 1)) }) =>
  shop.commit(files, { branch });

/** An application that serves the head of the branch. */
async function anApplication(fields: object = {}, commit?: string): Promise<string> {
  const serves = commit ?? (await push());
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: `shop-${(count += 1)}`,
    source_type: 'git',
    repository_url: url,
    branch,
    dockerfile_path: 'Dockerfile',
    autodeploy: true,
    ...fields,
  });
  const id = made.data.id;
  const deployed = await owner.post(`/applications/${id}/deploy`);
  if (deployed.status !== 200) throw new Error(JSON.stringify(deployed.body));
  const deployment = deployed.data.id;
  await world.observe('deployment', deployment, { phase: 'succeeded', image: 'i', image_digest: 'd', commit: serves });
  return id;
}

async function aWebhook(provider: string, fields: object = {}): Promise<{ id: string; path: string }> {
  const made = await owner.post('/webhooks/git', {
    project_id: place.project,
    name: `hook-${(count += 1)}`,
    provider,
    repository_url: url,
    secret,
    ...fields,
  });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return made.data;
}

async function call(path: string, { body, headers }: Signed) {
  const answer = await fetch(world.url + path, { method: 'POST', body, headers });
  const sent: Record<string, ReturnType<typeof JSON.parse>> = JSON.parse(await answer.text());
  return { status: answer.status, data: sent['data'], error: sent['error'], success: sent['success'] };
}

const deliveriesOf = async (hook: { id: string }) => (await owner.get(`/webhooks/git/${hook.id}/deliveries`)).data;

/** The newest delivery, once it is decided. */
function decided(hook: { id: string }, id?: string) {
  return until('the delivery is decided', async () => {
    const all: { id: string; status: string }[] = await deliveriesOf(hook);
    const it = id === undefined ? all[0] : all.find((one) => one.id === id);
    return it?.status === 'decided' ? (it as ReturnType<typeof JSON.parse>) : undefined;
  });
}

const deploymentsOf = async (app: string) => (await owner.get(`/applications/${app}/deployments`)).data;

describe('a push that a git host announces', () => {
  it.each<[string, string, Host]>([
    ['github', 'GitHub', hosts.github],
    ['github', 'GitHub as a form', hosts.githubForm],
    ['gitlab', 'GitLab', hosts.gitlab],
    ['gitlab', 'GitLab with a signing token', hosts.gitlabSigned(() => world.clock.now())],
    ['gitea', 'Gitea', hosts.gitea],
    ['gitea', 'Forgejo', hosts.forgejo],
    ['bitbucket', 'Bitbucket', hosts.bitbucket],
    ['bitbucket', 'Bitbucket Data Center', hosts.bitbucketServer],
    ['generic', 'any program', (it, key) => hosts.generic(it, key, Math.floor(world.clock.now().getTime() / 1000))],
  ])('is deployed by %s (%s), exactly that commit and once', async (provider, _name, host) => {
    const app = await anApplication();
    const hook = await aWebhook(provider);
    const after = await push();
    const signed = host({ url, ref: `refs/heads/${branch}`, before: zeros, after }, secret);
    const answer = await call(hook.path, signed);
    expect(answer).toMatchObject({ status: 200, success: true, data: { status: 'accepted' } });
    const delivery = await decided(hook);
    expect(delivery).toMatchObject({
      verified: true,
      ref: `refs/heads/${branch}`,
      commit: after,
      decision: 'evaluated',
      applications: [{ id: app, decision: 'deployed', commit: after }],
    });
    const deployment = (await owner.get(`/deployments/${delivery.applications[0].deployment_id}`)).data;
    expect(deployment).toMatchObject({ commit: after, trigger: 'webhook', number: 2, application_id: app });

    // the very same call again, also twice at once, is a duplicate
    const again = await Promise.all([call(hook.path, signed), call(hook.path, signed)]);
    for (const one of again) expect(one).toMatchObject({ status: 200, data: { status: 'duplicate' } });
    expect(await deploymentsOf(app)).toHaveLength(2);
    expect(await deliveriesOf(hook)).toHaveLength(1);
  });

  it('that comes twice at once is one delivery, and two different calls for it are one deployment', async () => {
    const app = await anApplication();
    const hook = await aWebhook('github');
    const after = await push();
    const of = (before: string) => hosts.github({ url, ref: `refs/heads/${branch}`, before, after }, secret);
    const [one, other] = [of(zeros), of('c'.repeat(40))];
    const answers = await Promise.all([one, one, other, other].map((it) => call(hook.path, it)));
    expect(answers.map(({ data }): string => data.status).toSorted((a, b) => a.localeCompare(b))).toEqual([
      'accepted',
      'accepted',
      'duplicate',
      'duplicate',
    ]);
    const all = await deliveriesOf(hook);
    expect(all).toHaveLength(2);
    for (const { id } of all) await decided(hook, id);
    const found = (await deliveriesOf(hook)).flatMap((it: { applications: object[] }) => it.applications);
    expect(found).toContainEqual(expect.objectContaining({ decision: 'deployed' }));
    expect(await deploymentsOf(app)).toHaveLength(2);
  });

  it('reaches every application with that repository and branch, in any spelling of its address, and no other', async () => {
    const base = await push({ 'src/main.ts': String((count += 1)), 'docs/a.md': '1' });
    const [follows, watches, off, other] = [
      await anApplication({}, base),
      await anApplication({ watch_paths: 'docs/**' }, base),
      await anApplication({ autodeploy: false }, base),
      await anApplication({ branch: 'other' }, base),
    ];
    const hook = await aWebhook('gitea', { repository_url: url.replace('http://', 'ssh://git@').toUpperCase() });
    const after = await push({ 'src/main.ts': String((count += 1)), 'docs/a.md': '1' });
    await call(hook.path, hosts.gitea({ url, ref: `refs/heads/${branch}`, before: base, after }, secret));
    const { applications } = await decided(hook);
    const found = new Map(applications.map((it: { id: string; decision: string }) => [it.id, it.decision]));
    expect([follows, watches, off, other].map((id) => found.get(id))).toEqual([
      'deployed',
      'not_matched',
      'autodeploy_off',
      undefined,
    ]);
  });

  it('is deployed as the branch is, whatever the call says of its commit', async () => {
    await anApplication();
    const hook = await aWebhook('github');
    const head = await push();
    const forged = { url, ref: `refs/heads/${branch}`, before: zeros, after: 'f'.repeat(40) };
    await call(hook.path, hosts.github(forged, secret));
    expect((await decided(hook)).applications).toMatchObject([{ decision: 'deployed', commit: head }]);
  });

  it('waits for a server that is away, and is decided when it is back', async () => {
    const app = await anApplication();
    const hook = await aWebhook('github');
    await world.observe('server', place.server, { phase: 'offline' });
    isAway = true;
    const after = await push();
    await call(hook.path, hosts.github({ url, ref: `refs/heads/${branch}`, before: zeros, after }, secret));
    const [waiting] = await until('it waits', async () => {
      const all = await deliveriesOf(hook);
      return all[0].applications.length > 0 ? all : undefined;
    });
    expect(waiting).toMatchObject({
      status: 'pending',
      applications: [{ decision: 'pending', reason: 'It waits for the server of the application to be connected' }],
    });
    // a later push takes its place
    const newest = await push();
    await call(hook.path, hosts.github({ url, ref: `refs/heads/${branch}`, before: after, after: newest }, secret));
    isAway = false;
    await world.observe('server', place.server, { phase: 'active' });
    expect((await decided(hook)).applications).toMatchObject([{ id: app, decision: 'deployed', commit: newest }]);
    expect((await decided(hook, waiting.id)).applications).toMatchObject([{ decision: 'superseded' }]);
    expect(await deploymentsOf(app)).toHaveLength(2);
  });

  it('of a commit that failed is deployed again only by a replay', async () => {
    await anApplication();
    const hook = await aWebhook('github');
    const after = await push();
    const pushed = { url, ref: `refs/heads/${branch}`, before: zeros, after };
    await call(hook.path, hosts.github(pushed, secret));
    const first = await decided(hook);
    await world.observe('deployment', first.applications[0].deployment_id, { phase: 'failed', commit: after });
    const another = await call(hook.path, hosts.github({ ...pushed, before: 'c'.repeat(40) }, secret));
    expect((await decided(hook, another.data.delivery_id)).applications).toMatchObject([{ decision: 'already_tried' }]);
    const replayed = await owner.post(`/webhooks/deliveries/${first.id}/replay?wait=30`);
    expect(replayed.data).toMatchObject({
      replay_of: first.id,
      status: 'decided',
      applications: [{ decision: 'deployed', commit: after }],
    });
  });

  it('that cannot be compared is told to the users of the application', async () => {
    const app = await anApplication();
    await owner.put(`/applications/${app}`, { branch: 'gone' });
    const hook = await aWebhook('github');
    await call(hook.path, hosts.github({ url, ref: 'refs/heads/gone', before: zeros, after: 'a'.repeat(40) }, secret));
    expect((await decided(hook)).applications).toMatchObject([{ decision: 'failed' }]);
    const { data } = await owner.get('/notifications');
    expect(data).toContainEqual(
      expect.objectContaining({ kind: 'autodeploy_failed', resource: expect.objectContaining({ id: app }) }),
    );
  });
});

describe('SEC-45: a call that was captured', () => {
  it.each<[string, string, Host]>([
    ['github', 'GitHub', hosts.github],
    ['github', 'GitHub as a form', hosts.githubForm],
    ['gitea', 'Gitea', hosts.gitea],
    ['gitea', 'Forgejo', hosts.forgejo],
    ['gitlab', 'GitLab', hosts.gitlab],
    ['bitbucket', 'Bitbucket', hosts.bitbucket],
    ['bitbucket', 'Bitbucket Data Center', hosts.bitbucketServer],
  ])('is a duplicate under any id, as %s (%s) does not sign that', async (provider, _name, host) => {
    const hook = await aWebhook(provider);
    const pushed = { url, ref: 'refs/heads/nothing', before: zeros, after: 'a'.repeat(40) };
    const first = await call(hook.path, host(pushed, secret));
    expect(first.data.status).toBe('accepted');
    const again = await call(hook.path, host(pushed, secret, { id: randomUUID() }));
    expect(again.data).toMatchObject({ status: 'duplicate', delivery_id: first.data.delivery_id });
    // and what has the id of a delivery is that delivery
    const id = randomUUID();
    const second = await call(hook.path, host({ ...pushed, before: 'c'.repeat(40) }, secret, { id }));
    const other = await call(hook.path, host({ ...pushed, before: 'd'.repeat(40) }, secret, { id }));
    expect(other.data).toMatchObject({ status: 'duplicate', delivery_id: second.data.delivery_id });
    expect(await deliveriesOf(hook)).toHaveLength(2);
  });
});

describe('what is no push to the branch of the repository', () => {
  const of = (more: Partial<Pushed>): Pushed => ({
    url,
    ref: `refs/heads/${branch}`,
    before: 'b'.repeat(40),
    after: 'a'.repeat(40),
    ...more,
  });

  it.each<[string, string, () => Signed, string, string]>([
    ['another branch', 'github', () => hosts.github(of({ ref: 'refs/heads/nobodys' }), secret), 'no_application', ''],
    ['a pull request', 'github', () => hosts.github(of({ ref: 'refs/pull/7/head' }), secret), 'ignored', 'No branch'],
    [
      'a merge request',
      'gitlab',
      () => hosts.gitlab(of({ ref: 'refs/merge-requests/7/head' }), secret),
      'ignored',
      'No branch',
    ],
    [
      'an event of a pull request',
      'github',
      () => hosts.github(of({}), secret, { event: 'pull_request' }),
      'ignored',
      'Only pushes',
    ],
    [
      'an event of a merge request',
      'gitlab',
      () => hosts.gitlab(of({}), secret, { event: 'Merge Request Hook' }),
      'ignored',
      'Only pushes',
    ],
    ['a tag', 'github', () => hosts.github(of({ ref: `refs/tags/${branch}` }), secret), 'ignored', 'No branch'],
    [
      'a tag of GitLab',
      'gitlab',
      () => hosts.gitlab(of({ ref: `refs/tags/${branch}` }), secret),
      'ignored',
      'No branch',
    ],
    [
      'a tag of Bitbucket',
      'bitbucket',
      () => hosts.bitbucket(of({ ref: `refs/tags/${branch}` }), secret),
      'ignored',
      'No branch',
    ],
    ['a deletion', 'github', () => hosts.github(of({ after: zeros }), secret), 'ignored', 'The branch was deleted'],
    [
      'a deletion at Bitbucket',
      'bitbucket',
      () => hosts.bitbucket(of({ after: zeros }), secret),
      'ignored',
      'The branch was deleted',
    ],
    [
      'another repository',
      'github',
      () => hosts.github(of({ url: url.replace('shop', 'shop2') }), secret),
      'ignored',
      'The push is to another',
    ],
    [
      'the repository of another host',
      'gitea',
      () => hosts.gitea(of({ url: 'https://evil.test/shop.git' }), secret),
      'ignored',
      'The push is to another',
    ],
    ['a ping', 'github', () => hosts.github(of({}), secret, { event: 'ping' }), 'ping', 'The git host tried'],
    [
      'a body of another provider',
      'bitbucket',
      () => ({ ...hosts.bitbucket(of({}), secret), ...bodyOf('{"push":[]}') }),
      'ignored',
      'The body is no push',
    ],
    ['no JSON', 'gitea', () => withBody('{"ref":'), 'ignored', 'The body is no push'],
    ['deep JSON', 'gitea', () => withBody('['.repeat(100_000)), 'ignored', 'The body is no push'],
  ])('%s is kept with its reason, and deploys nothing', async (_name, provider, signed, decision, reason) => {
    const app = await anApplication();
    await push();
    const hook = await aWebhook(provider);
    expect(await call(hook.path, signed())).toMatchObject({ status: 200 });
    const it = await decided(hook);
    expect(it).toMatchObject({ decision, reason: expect.stringContaining(reason), applications: [] });
    expect(await deploymentsOf(app)).toHaveLength(1);
  });

  it('a tag that a sync of the project follows makes that look, and is deleted for nothing', async () => {
    const hook = await aWebhook('github');
    const fields = { project_id: place.project, server_id: place.server, repository_url: url };
    const made = await owner.post('/syncs', { ...fields, name: branch, tag_pattern: `${branch}-v*` });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const tagged = (name: string, more: object = {}) =>
      call(hook.path, hosts.github({ ...of({}), ref: `refs/tags/${name}`, ...more }, secret));
    const { data } = await tagged(`${branch}-v1.0.0`);
    expect(data).toMatchObject({ status: 'accepted' });
    expect(await decided(hook, data.delivery_id)).toMatchObject({
      decision: 'evaluated',
      reason: `Sync ${branch} looks at the repository`,
    });
    for (const other of [await tagged(`${branch}-w1.0.0`), await tagged(`${branch}-v1.0.0`, { after: zeros })])
      expect(other.data).toMatchObject({ status: 'ignored', reason: expect.stringContaining('no tag that a sync') });
  });

  function bodyOf(body: string): Signed {
    const { headers } = hosts.bitbucket(of({}), secret);
    return { body, headers: { ...headers, 'x-hub-signature': `sha256=${hosts.hex(secret, body)}` } };
  }
  function withBody(body: string): Signed {
    const { headers } = hosts.gitea(of({}), secret);
    return { body, headers: { ...headers, 'x-gitea-signature': hosts.hex(secret, body) } };
  }
});

describe('SEC-45: a call that is not signed by the secret', () => {
  const pushed = () => ({ url, ref: `refs/heads/${branch}`, before: zeros, after: 'a'.repeat(40) });
  const changed = (signed: Signed, name: string, value: string | undefined): Signed => ({
    body: signed.body,
    headers: Object.fromEntries(
      Object.entries({ ...signed.headers, [name]: value }).flatMap(([key, it]) =>
        it === undefined ? [] : [[key, it]],
      ),
    ),
  });

  it.each<[string, string, () => Signed]>([
    ['by another secret', 'github', () => hosts.github(pushed(), 'x'.repeat(20))],
    ['by an empty secret', 'github', () => hosts.github(pushed(), '')],
    ['not at all', 'github', () => changed(hosts.github(pushed(), secret), 'x-hub-signature-256', undefined)],
    ['by an empty signature', 'github', () => changed(hosts.github(pushed(), secret), 'x-hub-signature-256', '')],
    [
      'by half a signature',
      'github',
      () => changed(hosts.github(pushed(), secret), 'x-hub-signature-256', 'sha256=ab'),
    ],
    [
      'by SHA-1',
      'github',
      () => changed(hosts.github(pushed(), secret), 'x-hub-signature-256', 'sha1=' + 'a'.repeat(40)),
    ],
    ['for another body', 'github', () => ({ ...hosts.github(pushed(), secret), body: '{}' })],
    ['by an empty token', 'gitlab', () => changed(hosts.gitlab(pushed(), secret), 'x-gitlab-token', '')],
    [
      'by a part of the token',
      'gitlab',
      () => changed(hosts.gitlab(pushed(), secret), 'x-gitlab-token', secret.slice(1)),
    ],
    ['by the form of another host', 'gitlab', () => hosts.github(pushed(), secret)],
    [
      'long ago',
      'gitlab',
      () => hosts.gitlabSigned(() => new Date(world.clock.now().getTime() - 301_000))(pushed(), secret),
    ],
    [
      'in the future',
      'generic',
      () => hosts.generic(pushed(), secret, Math.floor(world.clock.now().getTime() / 1000) + 302),
    ],
    [
      'long ago by a program',
      'generic',
      () => hosts.generic(pushed(), secret, Math.floor(world.clock.now().getTime() / 1000) - 301),
    ],
  ])('%s is refused like an unknown address', async (_name, provider, signed) => {
    const hook = await aWebhook(provider);
    const sent = signed();
    const refused = await call(hook.path, sent);
    const unknown = await call(hook.path.replace(hook.id, randomUUID()), sent);
    expect(refused.status).toBe(404);
    expect({ ...refused.error, request_id: '' }).toEqual({ ...unknown.error, request_id: '' });
    expect(await deliveriesOf(hook)).toEqual([]);
    await until('it is counted', async () => {
      const { data } = await owner.get(`/webhooks/git/${hook.id}`);
      return data.refused === 1 && data.last_refused_at !== null ? true : undefined;
    });
  });

  it('fills nothing, however often it comes', async () => {
    const hook = await aWebhook('github');
    const before = (await world.store.revision()) as number;
    for (let at = 0; at < 100; at += 1) await call(hook.path, hosts.github(pushed(), 'x'.repeat(20)));
    await world.settled();
    expect(((await world.store.revision()) as number) - before).toBeLessThanOrEqual(1);
  });

  it('is refused if its body is longer than 1 MiB, whoever signed it', async () => {
    const hook = await aWebhook('gitea');
    const body = JSON.stringify({ pad: 'x'.repeat(2 * 1024 * 1024) });
    const { headers } = hosts.gitea(pushed(), secret);
    const signed = { body, headers: { ...headers, 'x-gitea-signature': hosts.hex(secret, body) } };
    expect(await call(hook.path, signed)).toMatchObject({ status: 400 });
    expect(await deliveriesOf(hook)).toEqual([]);
  });
});

describe('a webhook', () => {
  it('shows its secret once, which opens nothing after it was replaced', async () => {
    const made = await owner.post('/webhooks/git', {
      project_id: place.project,
      name: 'made',
      provider: 'github',
      repository_url: url,
    });
    const { id, secret: given, url: address, path } = made.data;
    expect(given).toMatch(/^[0-9a-f]{64}$/);
    expect(address).toBe(`http://setpoint.test${path}`);
    const shown = [await owner.get(`/webhooks/git/${id}`), await owner.get('/webhooks/git')];
    for (const { body } of shown) expect(JSON.stringify(body)).not.toContain(given);
    const pushed = { url, ref: 'refs/heads/nothing', before: zeros, after: 'a'.repeat(40) };
    expect(await call(path, hosts.github(pushed, given))).toMatchObject({ status: 200 });
    await owner.put(`/webhooks/git/${id}`, { secret });
    expect(await call(path, hosts.github(pushed, given))).toMatchObject({ status: 404 });
    expect(await call(path, hosts.github(pushed, secret))).toMatchObject({ status: 200 });
    await owner.delete(`/webhooks/git/${id}`);
    expect(await call(path, hosts.github(pushed, secret))).toMatchObject({ status: 404 });
  });

  it.each([
    '',
    'short',
    'with a space in it!!',
    'ü'.repeat(20),
    // signing tokens of which nothing or little is left when they are decoded
    'whsec_!!!!!!!!!!',
    `whsec_${Buffer.alloc(15, 1).toString('base64')}`,
    `whsec_${Buffer.alloc(32, 1).toString('base64')}!`,
  ])('takes no such secret: %s', async (wrong) => {
    const made = await owner.post('/webhooks/git', {
      project_id: place.project,
      name: 'wrong',
      provider: 'github',
      repository_url: url,
      secret: wrong,
    });
    expect(made.status).toBe(400);
  });

  it('takes a signing token as GitLab makes it', async () => {
    const token = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    await aWebhook('gitlab', { secret: token });
  });

  it.each([
    'https://x-access-token:ghp_0123456789@github.com/team/shop.git',
    'https://ghp_0123456789@github.com/team/shop.git',
    'https://git.test/team/shop.git?private_token=glpat-0123456789',
  ])('takes no address with a credential, as it is stored and shown: %s', async (repository_url) => {
    const fields = { project_id: place.project, name: `hook-${(count += 1)}`, provider: 'github' };
    const made = await owner.post('/webhooks/git', { ...fields, repository_url });
    expect(made.status).toBe(400);
    expect(made.body.error?.details).toMatchObject([{ field: 'repository_url' }]);
    const hook = await aWebhook('github');
    expect((await owner.put(`/webhooks/git/${hook.id}`, { repository_url })).status).toBe(400);
  });
});
