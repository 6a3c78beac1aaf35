import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { environmentController } from '../../controllers/environment/reconcile.ts';
import { previewController } from '../../controllers/preview/reconcile.ts';
import { webhookDeliveryController } from '../../controllers/webhook-delivery/reconcile.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import * as hosts from '../harness/git-hosts.ts';
import { lead } from '../harness/leading.ts';
import { until } from '../harness/until.ts';

const running = new AsyncDisposableStack();
const secret = 'a-secret-of-sixteen-or-more';
const zeros = '0'.repeat(40);
const one = 'a'.repeat(40);
const other = 'b'.repeat(40);
const host = 'https://git.test';
const url = `${host}/team/shop.git`;
const fork = `${host}/anna/shop.git`;
let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  const previews = previewController({ buildDeadlineMs: 60_000 });
  const controllers = [environmentController(world.keyring), previews, webhookDeliveryController];
  running.use(await lead(world, world.clock, ...controllers));
  owner = await world.owner();
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

interface Asked {
  action: 'open' | 'push' | 'close';
  /** Seconds after the first event. */
  at?: number;
  number: number;
  commit: string;
  /** Address of the repository with the branch. */
  from: string;
}
type Provider = 'github' | 'gitea' | 'gitlab' | 'bitbucket' | 'generic';

/** What git hosts send of a request, without what nothing reads. */
const bodies: Record<string, { provider: Provider; of: (it: Asked) => { event: string; body: object } }> = {
  GitHub: { provider: 'github', of: (it) => pullRequest('pull_request', it, 'synchronize') },
  Forgejo: { provider: 'gitea', of: (it) => pullRequest('pull_request', it, 'synchronized') },
  GitLab: {
    provider: 'gitlab',
    of: ({ action, number, commit, from, at }) => ({
      event: 'Merge Request Hook',
      body: {
        object_kind: 'merge_request',
        project: { git_http_url: url, web_url: url.replace('.git', '') },
        object_attributes: {
          iid: number,
          action: { open: 'open', push: 'update', close: 'merge' }[action],
          source_branch: 'feature',
          updated_at: timeOf(at).replace('T', ' ').replace('.000Z', ' UTC'),
          last_commit: { id: commit },
          source: { git_http_url: from },
          target: { git_http_url: url },
        },
      },
    }),
  },
  'Bitbucket Data Center': {
    provider: 'bitbucket',
    of: ({ action, number, commit, from, at }) => ({
      event: { open: 'pr:opened', push: 'pr:from_ref_updated', close: 'pr:merged' }[action],
      body: {
        date: timeOf(at).replace('.000Z', '+0000'),
        pullRequest: {
          id: number,
          fromRef: {
            id: 'refs/heads/feature',
            latestCommit: commit,
            repository: { links: { clone: [{ href: from }] } },
          },
          toRef: { id: 'refs/heads/main', repository: { links: { clone: [{ href: url }] } } },
        },
      },
    }),
  },
};

bodies['any program'] = {
  provider: 'generic',
  of: ({ action, number, commit, from, at }) => ({
    event: 'request',
    body: {
      event: 'request',
      action: { open: 'opened', push: 'updated', close: 'closed' }[action],
      repository_url: url,
      source_url: from,
      number,
      branch: 'feature',
      commit,
      updated_at: timeOf(at),
    },
  }),
};

/** As Bitbucket Cloud sends it: a commit has twelve digits. */
function ofCloud({ action, number, commit, from, at }: Asked) {
  const repository = (address: string, name: string) => ({
    type: 'repository',
    full_name: name,
    links: { html: { href: address.replace('.git', '') }, self: { href: `https://api.bitbucket.test/2.0/${name}` } },
  });
  return {
    event: { open: 'pullrequest:created', push: 'pullrequest:updated', close: 'pullrequest:fulfilled' }[action],
    body: {
      actor: { nickname: 'one' },
      pullrequest: {
        id: number,
        title: 'A feature',
        state: action === 'close' ? 'MERGED' : 'OPEN',
        updated_on: timeOf(at).replace('.000Z', '.123456+00:00'),
        source: {
          branch: { name: 'feature' },
          commit: { type: 'commit', hash: commit.slice(0, 12) },
          repository: repository(from, from === url ? 'team/shop' : 'anna/shop'),
        },
        destination: { branch: { name: 'main' }, repository: repository(url, 'team/shop') },
      },
      repository: repository(url, 'team/shop'),
    },
  };
}

let second = 0;

/** Of the event, which is later than each before it unless the test says otherwise. */
function timeOf(at = (second += 1)): string {
  return new Date(Date.UTC(2026, 0, 1) + at * 1000).toISOString();
}

function pullRequest(event: string, { action, number, commit, from, at }: Asked, pushed: string) {
  const head = { ref: 'feature', sha: commit, repo: { clone_url: from } };
  const body = {
    action: { open: 'opened', push: pushed, close: 'closed' }[action],
    number,
    pull_request: { number, head, updated_at: timeOf(at), base: { ref: 'main', repo: { clone_url: url } } },
    repository: { clone_url: url, html_url: url.replace('.git', '') },
  };
  return { event, body };
}

function signed(provider: Provider, event: string, sent: object): { body: string; headers: Record<string, string> } {
  const body = JSON.stringify(sent);
  const sum = hosts.hex(secret, body);
  const id = randomUUID();
  switch (provider) {
    case 'github':
      return {
        body,
        headers: { 'x-github-event': event, 'x-github-delivery': id, 'x-hub-signature-256': `sha256=${sum}` },
      };
    case 'gitea':
      return { body, headers: { 'x-gitea-event': event, 'x-gitea-delivery': id, 'x-gitea-signature': sum } };
    case 'gitlab':
      return { body, headers: { 'x-gitlab-event': event, 'x-gitlab-event-uuid': id, 'x-gitlab-token': secret } };
    case 'bitbucket':
      return {
        body,
        headers: {
          'x-event-key': event,
          'x-request-uuid': id,
          'x-hook-uuid': randomUUID(),
          'x-attempt-number': '1',
          'x-hub-signature': `sha256=${sum}`,
        },
      };
    case 'generic': {
      const at = Math.floor(world.clock.now().getTime() / 1000);
      const headers = { 'x-setpoint-signature': `t=${at},v1=${hosts.hex(secret, `${at}.${body}`)}` };
      return { body, headers };
    }
  }
}

interface Hook {
  id: string;
  server: string;
  path: string;
  project: string;
  environment: string;
}

/** A project with an application of the repository, and a webhook that makes previews unless it says otherwise. */
async function hookOf(provider: Provider, makes = true): Promise<Hook> {
  const { project, environment, server } = await world.place(owner);
  const source = { source_type: 'git', repository_url: url, branch: 'main', dockerfile_path: 'Dockerfile' };
  await owner.post('/applications', { project_id: project, server_id: server, name: 'web', ...source });
  const fields = { project_id: project, name: 'shop', provider, repository_url: url, secret };
  const made = await owner.post('/webhooks/git', {
    ...fields,
    ...(makes && { previews: { environment_id: environment, ttl_seconds: 7200 } }),
  });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return { ...made.data, project, environment, server };
}

type Sent = ReturnType<typeof signed>;

async function deliver(hook: Hook, { body, headers }: Sent): Promise<{ delivery_id: string }> {
  const answer = await fetch(world.url + hook.path, { method: 'POST', body, headers });
  expect(answer.status).toBe(200);
  const { data }: { data: { delivery_id: string } } = JSON.parse(await answer.text());
  return data;
}

/** What was decided of a call. */
async function call(hook: Hook, sent: Sent) {
  const data = await deliver(hook, sent);
  const path = `/webhooks/deliveries/${data.delivery_id}`;
  await until('it is decided', async () => (await owner.get(path)).data?.status === 'decided');
  return (await owner.get(path)).data;
}

/** Removes the deliveries of a webhook, as happens to old ones. */
async function forgetDeliveries(hook: Hook): Promise<void> {
  const unit = world.repo.begin();
  for (const { id } of (await owner.get(`/webhooks/git/${hook.id}/deliveries`)).data)
    unit.requestDelete((await world.repo.get('webhook_delivery', id))!);
  await unit.commit();
  await world.settled();
}

/** Lets go of what is in an environment that is being deleted, as the controllers do that are not here. */
async function drain(environment: string): Promise<void> {
  await until('it is gone', async () => {
    const view = world.mirror.tenant('default');
    const inIt = [
      ...view.by('application', 'environment', environment),
      ...view.list('deployment').filter(({ desired }) => desired.environment_id === environment),
    ];
    for (const it of inIt) {
      const unit = world.repo.begin();
      unit.requestDelete(it);
      for (const finalizer of it.meta.finalizers) unit.release(it, finalizer);
      await unit.commit();
    }
    await world.settled();
    return view.get('environment', environment) === undefined;
  });
}

const previewsOf = async (hook: Hook) =>
  (await owner.get(`/previews?projectId=${hook.project}`)).data.filter(
    ({ status }: { status: string }) => status !== 'deleting',
  );
const environmentsOf = async (hook: Hook) => (await owner.get(`/projects/${hook.project}/environments`)).data;

describe.each(Object.entries(bodies))('a request at %s', (_, { provider, of }) => {
  const send = (hook: Hook, it: Asked) => {
    const { event, body } = of(it);
    return call(hook, signed(provider, event, body));
  };

  it('has one preview from its opening to its end', async () => {
    const hook = await hookOf(provider);
    const asked: Asked = { action: 'open', number: 7, commit: one, from: url };
    expect(await send(hook, asked)).toMatchObject({ decision: 'evaluated', reason: 'Preview pr-7 is made' });
    const [made] = await previewsOf(hook);
    expect(made).toMatchObject({
      name: 'pr-7',
      request_number: 7,
      branch: 'feature',
      fork_url: null,
      requested_by: null,
    });
    expect(made.source_environment_id).toBe(hook.environment);
    const again = await send(hook, { ...asked, action: 'push', commit: other });
    expect(again.reason).toBe('Preview pr-7 is there already');
    expect(await previewsOf(hook)).toHaveLength(1);
    const closed = await send(hook, { ...asked, action: 'close' });
    expect(closed.reason).toContain('has no preview any more');
    expect(await previewsOf(hook)).toEqual([]);
  });

  it('SEC-45: that is open is not closed by an event from before, whatever its id and whenever it comes', async () => {
    const hook = await hookOf(provider);
    const asked: Asked = { action: 'open', number: 7, commit: one, from: fork };
    const at = (second += 10);
    await send(hook, { ...asked, at });
    const close = of({ ...asked, action: 'close', at: at + 1 });
    await call(hook, signed(provider, close.event, close.body));
    await until(
      'its preview is gone',
      async () => (await owner.get(`/previews?projectId=${hook.project}`)).data.length === 0,
    );
    await send(hook, { ...asked, action: 'push', at: at + 3 });
    expect(await previewsOf(hook)).toHaveLength(1);
    // the very same call under another id
    await call(hook, signed(provider, close.event, close.body));
    // and one that the git host sends late
    const late = await send(hook, { ...asked, action: 'close', at: at + 2 });
    expect(late.reason).toBe('A later event of the request is decided instead');
    expect(await previewsOf(hook)).toHaveLength(1);
    // the preview itself knows it, too, when the deliveries are forgotten
    await forgetDeliveries(hook);
    const again = await call(hook, signed(provider, close.event, close.body));
    expect(again.reason).toBe('A later event of the request is decided instead');
    expect(await previewsOf(hook)).toHaveLength(1);
  });

  it('SEC-66: of a fork gets nothing before a person approves its commit, and each further one', async () => {
    const hook = await hookOf(provider);
    const asked: Asked = { action: 'open', number: 8, commit: one, from: fork };
    expect((await send(hook, asked)).reason).toContain('waits for an approval');
    const [made] = await previewsOf(hook);
    expect(made).toMatchObject({ status: 'awaiting_approval', fork_url: fork, commit: one });
    expect(await environmentsOf(hook)).toHaveLength(1);
    expect((await send(hook, { ...asked, action: 'push', commit: other })).reason).toContain(other.slice(0, 12));
    expect((await owner.post(`/previews/${made.id}/approve`, { commit: one })).status).toBe(409);
    expect(await environmentsOf(hook)).toHaveLength(1);
    expect((await owner.post(`/previews/${made.id}/approve`, { commit: other })).status).toBe(200);
    await until('it has an environment', async () => (await environmentsOf(hook)).length === 2);
    await send(hook, { ...asked, action: 'push', commit: 'c'.repeat(40) });
    await until('it waits again', async () => (await previewsOf(hook))[0]?.status === 'awaiting_approval');
  });
});

it('a request at Bitbucket Cloud has one preview from its opening to its end, and none if it is of a fork', async () => {
  const hook = await hookOf('bitbucket');
  const send = (it: Asked) => {
    const { event, body } = ofCloud(it);
    return call(hook, signed('bitbucket', event, body));
  };
  const asked: Asked = { action: 'open', number: 7, commit: one, from: url };
  expect(await send(asked)).toMatchObject({ event: 'pullrequest:created', reason: 'Preview pr-7 is made' });
  const [made] = await previewsOf(hook);
  expect(made).toMatchObject({ name: 'pr-7', request_number: 7, branch: 'feature', fork_url: null });
  expect((await send({ ...asked, action: 'push', commit: other })).reason).toBe('Preview pr-7 is there already');
  const ofFork = await send({ ...asked, number: 8, from: fork });
  expect(ofFork.reason).toContain('does not say which commit of the fork it is');
  expect(await previewsOf(hook)).toHaveLength(1);
  expect((await send({ ...asked, action: 'close' })).reason).toContain('has no preview any more');
  expect(await previewsOf(hook)).toEqual([]);
});

it('any program says that a branch is gone, and a request without its fields is kept as unreadable', async () => {
  const hook = await hookOf('generic', false);
  await owner.post('/previews', { project_id: hook.project, name: 'one', branch: 'feature' });
  const gone = { repository_url: url, ref: 'refs/heads/feature', before: one, deleted: true };
  expect((await call(hook, signed('generic', 'push', gone))).reason).toBe('Removed with the branch: one');
  expect(await previewsOf(hook)).toEqual([]);
  const half = { event: 'request', repository_url: url, action: 'opened', number: 3 };
  expect(await call(hook, signed('generic', 'request', half))).toMatchObject({ event: 'request', decision: 'ignored' });
});

const opened = (number: number, from = url) => {
  const { event, body } = pullRequest('pull_request', { action: 'open', number, commit: one, from }, 'synchronize');
  return signed('github', event, body);
};

it('a branch that is deleted takes its previews along, also those that the API made, and no others', async () => {
  const hook = await hookOf('github', false);
  for (const [name, branch] of [
    ['one', 'feature'],
    ['two', 'other'],
  ])
    await owner.post('/previews', { project_id: hook.project, name, branch });
  const gone = hosts.github({ url, ref: 'refs/heads/feature', before: one, after: zeros }, secret);
  expect(await call(hook, gone)).toMatchObject({ decision: 'evaluated', reason: 'Removed with the branch: one' });
  expect((await previewsOf(hook)).map(({ name }: { name: string }) => name)).toEqual(['two']);
  const nothing = hosts.github({ url, ref: 'refs/heads/nobodys', before: one, after: zeros }, secret);
  expect(await call(hook, nothing)).toMatchObject({ decision: 'ignored', reason: 'The branch was deleted' });
});

it('a delivery that makes or ends previews is replayed by who may make and end them, with a key that may write', async () => {
  const hook = await hookOf('github');
  const withRole = async (role: 'member' | 'admin') => {
    const user = await world.user();
    await world.create('member', randomUUID(), { project_id: hook.project, user_id: user.id, role });
    return user;
  };
  const [member, admin] = [await withRole('member'), await withRole('admin')];
  const keyOf = async (scope: string) => {
    const { key } = (await admin.post('/settings/service-keys', { name: randomUUID(), scopes: [scope] })).data;
    const post: Client['post'] = (path, body) => world.client().post(path, body, { 'x-service-key': key });
    return { post };
  };
  const [deploying, writing] = [await keyOf('deploy'), await keyOf('write')];
  const replays = async (by: Pick<Client, 'post'>, { id }: { id: string }) =>
    (await by.post(`/webhooks/deliveries/${id}/replay`)).status;
  const { event, body } = pullRequest('pull_request', { action: 'close', number: 1, commit: one, from: url }, '');
  const close = await call(hook, signed('github', event, body));
  const open = await call(hook, opened(2));
  const gone = hosts.github({ url, ref: 'refs/heads/feature', before: one, after: zeros }, secret);
  for (const delivery of [close, open, await call(hook, gone)]) {
    for (const by of [member, deploying]) expect(await replays(by, delivery)).toBe(403);
    for (const by of [admin, writing]) expect(await replays(by, delivery)).toBe(200);
  }
  const pushed = hosts.github({ url, ref: 'refs/heads/feature', before: zeros, after: one }, secret);
  const push = await call(hook, pushed);
  for (const by of [member, deploying]) expect(await replays(by, push)).toBe(200);
  // nothing follows from it any more
  await owner.put(`/webhooks/git/${hook.id}`, { previews: null });
  expect(await replays(member, open)).toBe(200);
});

it('a webhook makes previews only of its repository, while it is asked to, and of an environment of its project', async () => {
  const hook = await hookOf('github', false);
  expect((await call(hook, opened(1))).reason).toContain('makes no previews');
  const set = (previews: object | null) => owner.put(`/webhooks/git/${hook.id}`, { previews });
  const foreign = await hookOf('github');
  expect((await set({ environment_id: foreign.environment })).status).toBe(404);
  expect((await set({ environment_id: hook.environment })).data.previews).toMatchObject({ ttl_seconds: 604_800 });
  const { event, body } = pullRequest('pull_request', { action: 'open', number: 2, commit: one, from: url }, '');
  const elsewhere = { ...body, repository: { clone_url: `${host}/team/another.git` } };
  expect((await call(hook, signed('github', event, elsewhere))).reason).toContain('is to another repository');
  expect(await previewsOf(hook)).toEqual([]);
  await call(hook, opened(3));
  expect(await previewsOf(hook)).toHaveLength(1);
  expect((await set(null)).data.previews).toBeNull();
  expect((await call(hook, opened(4))).decision).toBe('ignored');
  // a name that an environment has already
  await set({ environment_id: hook.environment });
  await owner.post(`/projects/${hook.project}/environments`, { name: 'pr-5' });
  expect((await call(hook, opened(5))).reason).toContain('is called pr-5 already');
  // a fork that was deleted
  const lost = {
    ...body,
    number: 6,
    pull_request: { ...body.pull_request, head: { ref: 'feature', sha: one, repo: null } },
  };
  expect((await call(hook, signed('github', event, lost))).reason).toContain('is not there any more');
  expect(await previewsOf(hook)).toHaveLength(1);
});

it('requests of strangers fill their own room alone, and an approval needs that of previews', async () => {
  const hook = await hookOf('github');
  for (let n = 1; n <= 11; n += 1) {
    const { reason } = await call(hook, opened(n, fork));
    expect(reason).toContain(n <= 10 ? 'waits for an approval' : '10 previews of forks wait for an approval already');
  }
  for (let n = 21; n <= 41; n += 1) {
    const { reason } = await call(hook, opened(n));
    expect(reason).toContain(n <= 40 ? 'is made' : 'has 20 previews already');
  }
  const [waiting] = (await previewsOf(hook)).filter(({ fork_url }: { fork_url: string | null }) => fork_url !== null);
  const approved = await owner.post(`/previews/${waiting.id}/approve`, { commit: one });
  expect(approved.status).toBe(409);
  expect(approved.body.error?.details).toMatchObject([{ reason: 'limit' }]);
});

it('a request gets no environment where a copy has no place', async () => {
  const hook = await hookOf('github');
  const { data } = await owner.get(`/applications?projectId=${hook.project}`);
  const server = (await world.repo.get('server', data[0].server_id))!;
  const unit = world.repo.begin();
  unit.change(server, (draft) => void (draft.allowed_projects = []));
  await unit.commit();
  await world.settled();
  await call(hook, opened(1));
  await until('it says so', async () => (await previewsOf(hook))[0]?.status === 'failed');
  const [made] = await previewsOf(hook);
  expect(made.conditions).toContainEqual(
    expect.objectContaining({
      type: 'Ready',
      reason: 'ServerNotUsable',
      message: expect.stringContaining(server.desired.name),
    }),
  );
  expect(await environmentsOf(hook)).toHaveLength(1);
});

it('a fork that goes back to the approved commit waits for nothing any more', async () => {
  const hook = await hookOf('github');
  const send = (action: Asked['action'], commit: string) => {
    const { event, body } = pullRequest('pull_request', { action, number: 9, commit, from: fork }, 'synchronize');
    return call(hook, signed('github', event, body));
  };
  await send('open', one);
  const [made] = await previewsOf(hook);
  expect((await owner.post(`/previews/${made.id}/approve`, { commit: one })).status).toBe(200);
  await send('push', other);
  expect((await previewsOf(hook))[0]).toMatchObject({ status: 'awaiting_approval', commit: other });
  await send('push', one);
  const [back] = await previewsOf(hook);
  expect(back).toMatchObject({ commit: one, approved_commit: one });
  expect(back.status).not.toBe('awaiting_approval');
});

const closed = (number: number, from = url) => {
  const { event, body } = pullRequest('pull_request', { action: 'close', number, commit: one, from }, '');
  return signed('github', event, body);
};

describe('a request that is closed', () => {
  it('takes its preview along when its webhook makes none any more', async () => {
    const hook = await hookOf('github');
    await call(hook, opened(1));
    await owner.put(`/webhooks/git/${hook.id}`, { previews: null });
    expect((await call(hook, closed(1))).reason).toContain('has no preview any more');
    expect(await previewsOf(hook)).toEqual([]);
  });

  it('takes along what the API made for it, and nothing of another repository or request', async () => {
    const hook = await hookOf('github', false);
    const elsewhere = { source_type: 'git', repository_url: `${host}/team/other.git`, branch: 'main' };
    const { server } = hook;
    const fields = { project_id: hook.project, server_id: server, name: 'other', dockerfile_path: 'Dockerfile' };
    await owner.post('/applications', { ...fields, ...elsewhere });
    for (const [name, request_number, repository_url] of [
      ['one', 12, url],
      ['two', 13, url],
      ['three', 12, `${host}/team/other.git`],
    ]) {
      const made = { project_id: hook.project, name, branch: 'feature', request_number, repository_url };
      expect((await owner.post('/previews', made)).status).toBe(201);
    }
    await call(hook, closed(12));
    const left = (await previewsOf(hook)).map(({ name }: { name: string }) => name);
    expect(left.toSorted()).toEqual(['three', 'two']);
  });

  it('is followed by a webhook that was made anew, to its fork too', async () => {
    const hook = await hookOf('github');
    await call(hook, opened(5, fork));
    await owner.delete(`/webhooks/git/${hook.id}`);
    const fields = { project_id: hook.project, name: 'anew', provider: 'github', repository_url: url, secret };
    const previews = { environment_id: hook.environment, ttl_seconds: 7200 };
    const anew = { ...hook, ...(await owner.post('/webhooks/git', { ...fields, previews })).data };
    const { event, body } = pullRequest(
      'pull_request',
      { action: 'push', number: 5, commit: other, from: fork },
      'synchronize',
    );
    expect((await call(anew, signed('github', event, body))).reason).toContain(other.slice(0, 12));
    expect((await previewsOf(hook))[0]).toMatchObject({ commit: other });
    await call(anew, closed(5, fork));
    expect(await previewsOf(hook)).toEqual([]);
  });

  it('and opened again at once has a preview as soon as the one before is gone', async () => {
    const hook = await hookOf('github');
    await call(hook, opened(6));
    const [before] = await previewsOf(hook);
    await until('it has an environment', async () => (await environmentsOf(hook)).length === 2);
    await call(hook, closed(6));
    const { delivery_id: id } = await deliver(hook, opened(6));
    const path = `/webhooks/deliveries/${id}`;
    await until('it waits', async () => (await owner.get(path)).data.reason !== null);
    expect((await owner.get(path)).data).toMatchObject({ status: 'pending' });
    await drain(before.preview_environment_id ?? (await environmentsOf(hook))[1].id);
    await until('it is decided', async () => (await owner.get(path)).data.status === 'decided');
    expect((await owner.get(path)).data.reason).toBe('Preview pr-6 is made');
    expect((await previewsOf(hook)).map(({ name }: { name: string }) => name)).toEqual(['pr-6']);
  });
});

it('a request gets no preview of an environment with an inline compose file, which is named', async () => {
  const hook = await hookOf('github');
  const compose_file = 'services:\n  web:\n    image: web:1\n';
  const at = { project_id: hook.project, server_id: hook.server, name: 'stack' };
  expect((await owner.post('/applications', { ...at, source_type: 'compose', compose_file })).status).toBe(201);
  expect((await call(hook, opened(1))).reason).toContain('stack');
  expect(await previewsOf(hook)).toEqual([]);
});
