import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { git } from '../../agent/tasks/git.ts';
import { headReader } from '../../agent/tasks/read-head.ts';
import { repositoryFiles } from '../../agent/tasks/read-repository.ts';
import { openWorkFolder } from '../../agent/tasks/work-folder.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { syncController } from '../../controllers/sync/reconcile.ts';
import { keys } from '../../store/keys.ts';
import { commit as commitUnit } from '../../store/unit.ts';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { testRepositories } from '../harness/git-server.ts';
import type { GitFiles, TestRepositories, TestRepository } from '../harness/git-server.ts';
import { lead } from '../harness/leading.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let repositories: TestRepositories;
/** How calls of the agent fail; absent: they do not. */
let lack: CallError | undefined;
/** Only those that read files fail. */
let isLackOfFiles = false;
/** Requests write too fast while it is true. */
let isBusy = false;
/** Calls of the agent by their methods, in their order. */
const calls: string[] = [];

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  repositories = running.use(await testRepositories());
  const sources = git({ clock: systemClock, protocols: ['file'], fileRoots: [repositories.folder], loopback: true });
  const folder = await openWorkFolder(join(repositories.folder, 'work'));
  const readHead = headReader({ git: sources, folder });
  const read = repositoryFiles({
    git: sources,
    folder,
    disk: { check: async () => undefined },
    clock: systemClock,
  });
  const agents = {
    async call(_tenant: string, _server: string, params: { method: string }, { signal }: { signal: AbortSignal }) {
      calls.push(`${params.method} ${(params as { repository_url?: string }).repository_url}`);
      if (lack !== undefined && (!isLackOfFiles || params.method !== 'git.head')) throw lack;
      const it = params as Parameters<typeof read>[0] & { method: string; after?: string; tag_pattern?: string }; // as agents read it
      const answer =
        it.method === 'git.tag'
          ? sources.tag({ url: it.repository_url, pattern: it.tag_pattern ?? '' }, signal)
          : it.method === 'git.head'
            ? readHead({ url: it.repository_url, branch: it.branch, since: undefined, after: it.after }, signal)
            : read(it, () => undefined, signal);
      return answer.catch((error: unknown) => {
        throw error instanceof RuntimeFailure ? new CallError(error.code, error.message) : error;
      });
    },
  };
  const apply: ApiWorld['applyCommit'] = async (asked) =>
    isBusy ? { refused: 'Too many writes', isPassing: true } : world.applyCommit(asked);
  running.use(await lead(world, world.clock, syncController({ agents, apply })));
  owner = await world.owner();
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

const object = (kind: string, name: string, ...spec: string[]): string =>
  [
    'apiVersion: setpoint/v1',
    `kind: ${kind}`,
    `metadata: {name: ${name}}`,
    'spec:',
    ...spec.map((it) => `  ${it}`),
  ].join('\n');
const web = (image: string, ...more: string[]): string =>
  object('Application', 'web', `image_url: ${image}`, 'exposed_port: 8080', ...more);
const files = object('Volume', 'files', '{}');

interface At {
  project: string;
  server: string;
  shop: TestRepository;
  fields: object;
}

let count = 0;
async function place(): Promise<At> {
  const { project, server } = await world.place(owner);
  await owner.put(`/projects/${project}`, { default_server_id: server });
  const shop = await repositories.create(`shop-${++count}`);
  const fields = { project_id: project, name: 'shop', repository_url: shop.fileUrl, branch: 'main', path: 'deploy' };
  return { project, server, shop, fields };
}

async function made(at: At, more: object = {}, by = owner): Promise<string> {
  const { status, data } = await by.post('/syncs', { ...at.fields, ...more });
  expect({ status, data }).toMatchObject({ status: 201 });
  return data.id;
}
const shown = async (id: string) => (await owner.get(`/syncs/${id}`)).data;
const runs = async (id: string) => (await owner.get(`/syncs/${id}/runs`)).data;
/** Waits until the sync is in that state of the commit, and answers with it. */
const reaches = (id: string, status: string, commit?: string) =>
  until(
    `it is ${status}`,
    async () => {
      const it = await shown(id);
      return it.status === status && (commit === undefined || it.commit_wanted === commit) ? it : undefined;
    },
    { explain: async () => JSON.stringify(await shown(id)) },
  );
const run = (id: string, body: object = {}) => owner.post(`/syncs/${id}/sync`, body);
const named = async (kind: string, { project }: At, name: string) =>
  (await owner.get(`/${kind}?projectId=${project}`)).data.find((one: { name: string }) => one.name === name);
/** Whether what a person asked for is still to be done. */
async function isAsked(id: string): Promise<boolean> {
  const it = await world.repo.get('sync', id);
  return it?.observed?.handled_request !== it?.desired.request?.at;
}
/** A webhook of the repository; what it returns announces a branch or a tag. */
async function pushes({ project, shop }: At): Promise<(name: string, of?: 'heads' | 'tags') => Promise<unknown>> {
  const hook = crypto.randomUUID();
  const repository = { project_id: project, repository_url: shop.fileUrl };
  await world.create('git_webhook', hook, desiredState('git_webhook', repository));
  return (name, of = 'heads') =>
    world.create(
      'webhook_delivery',
      crypto.randomUUID(),
      desiredState('webhook_delivery', {
        webhook_id: hook,
        project_id: project,
        what: 'push',
        pushes: [{ ref: `refs/${of}/${name}` }],
      }),
    );
}
const readyOf = async (id: string) =>
  (await world.repo.get('sync', id))?.observed?.conditions?.find(({ type }) => type === 'Ready');
const commit = ({ shop }: At, all: GitFiles, message = 'Change') => shop.commit(all, { message });

describe('a commit', () => {
  it('is applied as a whole, recorded with its plan, and the next one changes and prunes', async () => {
    const at = await place();
    const first = await commit(at, {
      'deploy/web.yaml': web('web:1'),
      'deploy/data/files.json': json(files),
      other: '',
    });
    const id = await made(at);
    expect(await reaches(id, 'in_sync', first)).toMatchObject({
      commit_applied: first,
      message: null,
      differs: [],
      needs_force: [],
    });
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
    expect(await named('volumes', at, 'files')).toBeDefined();
    expect(await runs(id)).toMatchObject([
      {
        commit: first,
        commit_message: 'Change',
        outcome: 'applied',
        changes: 2,
        steps: [
          { action: 'create', key: 'volumes.files' },
          { action: 'create', key: 'applications.web' },
        ],
      },
    ]);
    const second = await commit(at, {
      'deploy/web.yaml': web('web:2'),
      'deploy/more.yml': object('Volume', 'more', '{}'),
    });
    await run(id);
    // a volume goes with its data: that is named
    expect(await reaches(id, 'waiting', second)).toMatchObject({
      commit_applied: first,
      needs_force: ['volumes.files'],
    });
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
    await run(id, { force: ['volumes.files'] });
    await reaches(id, 'in_sync', second);
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
    expect((await runs(id)).map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      'applied',
      'waiting',
      'applied',
    ]);
    const volume = (await named('volumes', at, 'files'))?.id;
    expect((await world.repo.get('volume', volume))?.meta.deletionRequestedAt).toBeDefined();
  });

  it('that cannot be read or planned changes nothing, and is told with its place', async () => {
    const at = await place();
    const good = await commit(at, { 'deploy/web.yaml': web('web:1') });
    const id = await made(at);
    await reaches(id, 'in_sync', good);
    const faulty = await commit(at, { 'deploy/web.yaml': web('web:2'), 'deploy/x.yaml': 'kind: Nothing\n' });
    await run(id);
    expect(await reaches(id, 'failed', faulty)).toMatchObject({
      commit_applied: good,
      message: expect.stringMatching(/^deploy\/x\.yaml, line 1, column \d+: .*must have a kind that can be declared/),
    });
    const foreign = await commit(at, { 'deploy/web.yaml': web('web:2', 'server: nowhere') });
    await run(id);
    expect(await reaches(id, 'failed', foreign)).toMatchObject({
      message: expect.stringContaining('no server nowhere'),
    });
    const empty = await commit(at, { other: '' });
    await run(id);
    expect(await reaches(id, 'failed', empty)).toMatchObject({
      message: expect.stringContaining('deploy is not there'),
    });
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
    const mended = await commit(at, { 'deploy/web.yaml': web('web:3') });
    await run(id);
    await reaches(id, 'in_sync', mended);
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:3' });
    const told = (await owner.get('/notifications')).data.map(({ kind }: { kind: string }) => kind);
    expect(told).toEqual(expect.arrayContaining(['sync_failed', 'sync_recovered']));
    expect((await runs(id)).map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      'applied',
      'failed',
      'failed',
      'failed',
      'applied',
    ]);
  });

  it(
    'that changes nothing is recorded at its objects, so that the next one may change and prune them',
    { tags: [longTag] },
    async () => {
      const at = await place();
      const api = object('Application', 'api', 'image_url: api:1', 'exposed_port: 8081');
      const head = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/api.yaml': api });
      const first = await made(at);
      await reaches(first, 'in_sync', head);
      await owner.delete(`/syncs/${first}`);
      await until('it is gone', async () => (await owner.get(`/syncs/${first}`)).status === 404);
      const id = await made(at);
      await reaches(id, 'in_sync', head);
      expect((await runs(id)).map(({ outcome }: { outcome: string }) => outcome)).toEqual(['unchanged']);
      const { id: app } = await named('applications', at, 'api');
      const next = await commit(at, { 'deploy/web.yaml': web('web:2') });
      await run(id);
      await reaches(id, 'in_sync', next);
      expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
      expect((await world.repo.get('application', app))?.meta.deletionRequestedAt).toBeDefined();
    },
  );

  it.each([
    ['what it declares', () => web('web:1'), 'plan'],
    ['what is wrong with it', () => 'kind: Nothing', 'refused'],
  ])('is parsed once for as long as its files are kept: %s', async (_what, text, answer) => {
    const at = await place();
    const id = await made(at, { is_paused: true });
    const { project_id: project, key_id: key } = (await world.repo.get('sync', id))!.desired;
    let parses = 0;
    const file = {
      path: 'web.yaml',
      get content() {
        parses += 1;
        return text();
      },
    };
    const asked = {
      tenant: 'default',
      project,
      environment: undefined,
      key,
      manager: `sync/${id}`,
      files: [file],
      sync: { id },
      prune: true,
      force: [],
      corrects: false,
      isDryRun: true,
      fence: { key: keys.replica('none'), is: 'absent' } as const,
      signal: AbortSignal.timeout(20_000),
    };
    await world.settled();
    const [first, second] = [await world.applyCommit(asked), await world.applyCommit(asked)];
    expect(first).toHaveProperty(answer);
    expect(second).toEqual(first);
    expect(parses).toBe(1);
  });

  it('goes into the environment that was the default one when its sync was made', { tags: [longTag] }, async () => {
    const at = await place();
    const { data: project } = await owner.get(`/projects/${at.project}`);
    const { data: staging } = await owner.post(`/projects/${at.project}/environments`, { name: 'staging' });
    const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
    const id = await made(at);
    expect(await reaches(id, 'in_sync', first)).toMatchObject({ environment_id: project.default_environment_id });
    const chosen = `/projects/${at.project}/environments/${staging.id}/set-default`;
    expect((await owner.post(chosen)).status).toBe(200);
    const second = await commit(at, { 'deploy/web.yaml': web('web:2') });
    await run(id);
    await reaches(id, 'in_sync', second);
    expect((await owner.get(`/applications?projectId=${at.project}`)).data).toMatchObject([
      { name: 'web', image_url: 'web:2', environment_id: project.default_environment_id },
    ]);
    expect((await owner.put(`/syncs/${id}`, { environment_id: null })).data.environment_id).toBe(staging.id);
  });

  it('is read anew where another path is to be followed, and a single file will do', { tags: [longTag] }, async () => {
    const at = await place();
    const head = await commit(at, {
      'deploy/web.yaml': web('web:1'),
      'other/all.yml': `${web('web:2')}\n---\n${files}`,
    });
    const id = await made(at);
    await reaches(id, 'in_sync', head);
    await owner.put(`/syncs/${id}`, { path: 'other/all.yml' });
    await until('the other file is applied', async () => (await named('volumes', at, 'files')) !== undefined);
    expect(await reaches(id, 'in_sync')).toMatchObject({ path: 'other/all.yml', commit_applied: head });
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
  });

  it.each([
    ['is away', new CallError('away', 'The agent is not connected'), 'The agent is not connected'],
    ['does not answer in time', new CallError('timeout', 'The agent did not answer'), 'the git host is slow'],
  ])('waits while the agent %s, and of a branch that is gone nothing changes', async (_what, error, message) => {
    const at = await place();
    await commit(at, { 'deploy/web.yaml': web('web:1') });
    lack = error;
    try {
      const id = await made(at);
      await until('it waits', async () => (await shown(id)).message?.includes(message) === true);
      expect(await shown(id)).toMatchObject({ status: 'pending', commit_wanted: null });
      lack = undefined;
      await run(id);
      await reaches(id, 'in_sync');
      await owner.put(`/syncs/${id}`, { branch: 'gone' });
      expect(await reaches(id, 'failed')).toMatchObject({ message: expect.stringContaining('gone') });
      expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
    } finally {
      lack = undefined;
    }
  });
});

it('a commit is neither failed nor forgotten while requests write too fast', { tags: [longTag] }, async () => {
  const at = await place();
  const head = await commit(at, { 'deploy/web.yaml': web('web:1') });
  isBusy = true;
  try {
    const id = await made(at);
    await until('it waits', async () => (await shown(id)).message === 'Too many writes');
    expect(await shown(id)).toMatchObject({ status: 'pending', commit_wanted: head, commit_applied: null });
    expect(await runs(id)).toEqual([]);
    isBusy = false;
    await run(id);
    await reaches(id, 'in_sync', head);
  } finally {
    isBusy = false;
  }
});

it('the files of a commit that cannot be read are not asked for at each look', { tags: [longTag] }, async () => {
  const at = await place();
  const head = await commit(at, { other: '' });
  const id = await made(at, { interval_seconds: 86_400 });
  await reaches(id, 'failed', head);
  const called = (method: string): number => calls.filter((it) => it === `${method} ${at.shop.fileUrl}`).length;
  expect([called('git.head'), called('repository.read')]).toEqual([1, 1]);
  const push = await pushes(at);
  // the second look begins after the first one has ended
  for (const looks of [2, 3]) {
    await push('main');
    await until('it looks', async () => called('git.head') === looks);
  }
  expect(called('repository.read')).toBe(1);
  await run(id);
  await until('a person makes it read', async () => called('repository.read') === 2);
});

it('syncs of two branches of a repository keep the files of both', { tags: [longTag] }, async () => {
  const at = await place();
  const [one, other] = [
    await commit(at, { 'deploy/files.yaml': files }),
    await at.shop.commit({ 'deploy/more.yaml': object('Volume', 'more', '{}') }, { branch: 'next' }),
  ];
  const far = { interval_seconds: 86_400 };
  const id = await made(at, far);
  await reaches(id, 'in_sync', one);
  await reaches(await made(at, { ...far, name: 'next', branch: 'next' }), 'in_sync', other);
  const called = (method: string): number => calls.filter((it) => it === `${method} ${at.shop.fileUrl}`).length;
  const push = await pushes(at);
  for (const looks of [3, 4]) {
    await push('main');
    await until('it looks', async () => called('git.head') === looks);
  }
  expect(called('repository.read')).toBe(2);
});

it('what a person has stopped follows a commit, and is not started by it', async () => {
  const at = await place();
  const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
  const id = await made(at);
  await reaches(id, 'in_sync', first);
  const app = (await named('applications', at, 'web')).id;
  expect((await owner.post(`/applications/${app}/stop`)).status).toBe(200);
  const second = await commit(at, { 'deploy/web.yaml': web('web:2') });
  await run(id);
  await reaches(id, 'in_sync', second);
  expect((await owner.get(`/applications/${app}`)).data.image_url).toBe('web:2');
  expect((await world.repo.get('application', app))?.desired.run).toBe('stopped');
  expect((await owner.get(`/applications/${app}/deployments`)).data).toHaveLength(1);
});

it('an object that a commit gives another name is renamed, and keeps its data', async () => {
  const at = await place();
  const first = await commit(at, { 'deploy/files.yaml': files });
  const id = await made(at);
  await reaches(id, 'in_sync', first);
  const volume = await named('volumes', at, 'files');
  const moved = object('Volume', 'content', '{}').replace('content}', 'content, moved_from: files}');
  const second = await commit(at, { 'deploy/files.yaml': moved });
  await run(id);
  await reaches(id, 'in_sync', second);
  expect(await named('volumes', at, 'content')).toMatchObject({ id: volume.id });
  expect((await runs(id))[0].steps).toEqual([
    { action: 'update', key: 'volumes.content', renamed_from: 'files', fields: ['name'], loses_data: false },
  ]);
});

describe('what is forced', () => {
  it('stays forced while it waits for something else to be gone', { tags: [longTag] }, async () => {
    const at = await place();
    const mounted = web('web:1', 'volumes: [{volume: files, path: /files}]');
    const first = await commit(at, { 'deploy/web.yaml': mounted, 'deploy/files.yaml': files });
    const id = await made(at);
    await reaches(id, 'in_sync', first);
    const [{ id: app }, { id: volume }] = [await named('applications', at, 'web'), await named('volumes', at, 'files')];
    const second = await commit(at, { 'deploy/other.yaml': object('Volume', 'other', '{}') });
    await run(id);
    expect(await reaches(id, 'waiting', second)).toMatchObject({ needs_force: ['volumes.files'] });
    await run(id, { force: ['volumes.files'] });
    await until('the application goes first', async () => (await shown(id)).message?.includes('to be gone') === true);
    expect((await world.repo.get('volume', volume))?.meta.deletionRequestedAt).toBeUndefined();
    const unit = world.repo.begin();
    const leaving = await world.repo.get('application', app);
    for (const finalizer of leaving?.meta.finalizers ?? []) unit.release(leaving!, finalizer);
    await commitUnit(unit);
    await reaches(id, 'in_sync', second);
    expect((await world.repo.get('volume', volume))?.meta.deletionRequestedAt).toBeDefined();
  });

  it('is of the commit that was seen, and of no later one', async () => {
    const at = await place();
    const good = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/files.yaml': files });
    const id = await made(at);
    await reaches(id, 'in_sync', good);
    const seen = await commit(at, { 'deploy/web.yaml': web('web:2') });
    await run(id);
    await reaches(id, 'waiting', seen);
    const later = await commit(at, { 'deploy/web.yaml': web('web:3') });
    expect((await run(id, { force: ['volumes.files'] })).status).toBe(200);
    expect(await reaches(id, 'waiting', later)).toMatchObject({ needs_force: ['volumes.files'], commit_applied: good });
    const volume = (await named('volumes', at, 'files'))?.id;
    expect((await world.repo.get('volume', volume))?.meta.deletionRequestedAt).toBeUndefined();
    // what is asked for during a pause is not kept for its end
    await owner.put(`/syncs/${id}`, { is_paused: true });
    expect((await world.repo.get('sync', id))?.desired.request).toMatchObject({ commit: seen, force: [] });
  });

  it('is of what the caller has seen', async () => {
    const at = await place();
    const good = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/files.yaml': files });
    const id = await made(at);
    await reaches(id, 'in_sync', good);
    const head = await commit(at, { 'deploy/web.yaml': web('web:2') });
    await run(id);
    const { generation } = await reaches(id, 'waiting', head);
    const force = ['volumes.files'];
    for (const [seen, words] of [
      [{ commit: good }, `is not ${good.slice(0, 12)} but ${head.slice(0, 12)}`],
      [{ commit: head, generation: generation - 1 }, `its generation is ${generation}, not ${generation - 1}`],
    ] as const)
      expect((await run(id, { force, ...seen })).body.error).toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining(words),
      });
    expect((await run(id, { force, commit: head.slice(0, 7), generation })).status).toBe(200);
    await reaches(id, 'in_sync', head);
  });

  it('may be named one after another until the commit is applied', async () => {
    const at = await place();
    const more = object('Volume', 'more', '{}');
    const good = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/files.yaml': `${files}\n---\n${more}` });
    const id = await made(at);
    await reaches(id, 'in_sync', good);
    const head = await commit(at, { 'deploy/web.yaml': web('web:2') });
    await run(id);
    await reaches(id, 'waiting', head);
    await run(id, { force: ['volumes.files'] });
    await until('the first is looked at', async () => {
      const { desired, observed } = (await world.repo.get('sync', id))!;
      return observed?.handled_request === desired.request?.at;
    });
    expect(await shown(id)).toMatchObject({ status: 'waiting', commit_applied: good });
    await run(id, { force: ['volumes.more'] });
    await reaches(id, 'in_sync', head);
    // what was done is not forced again
    await run(id, { force: ['applications.web'] });
    expect((await world.repo.get('sync', id))?.desired.request?.force).toEqual(['applications.web']);
  });

  it('is of a plan that was made, and not of a commit that was only seen', async () => {
    const at = await place();
    const good = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/files.yaml': files });
    const id = await made(at);
    await reaches(id, 'in_sync', good);
    const planned = await commit(at, { 'deploy/web.yaml': web('web:2') });
    await run(id);
    expect(await reaches(id, 'waiting', planned)).toMatchObject({ needs_force: ['volumes.files'] });
    [lack, isLackOfFiles] = [new CallError('timeout', 'The agent did not answer in time'), true];
    try {
      const head = await commit(at, { 'deploy/web.yaml': web('web:3') });
      await run(id);
      await until('the head was seen', async () => (await shown(id)).commit_wanted === head);
      expect(await shown(id)).toMatchObject({ needs_force: [], differs: [] });
      expect((await run(id, { force: ['volumes.files'], commit: head })).body.error).toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining(`commit ${head.slice(0, 12)} was not planned`),
      });
    } finally {
      [lack, isLackOfFiles] = [undefined, false];
    }
    await run(id);
    await until('it is planned', async () => (await shown(id)).needs_force.length > 0);
    expect((await run(id, { force: ['volumes.files'] })).status).toBe(200);
    await reaches(id, 'in_sync');
  });

  it('is nothing while no commit is known', async () => {
    const at = await place();
    const id = await made(at, { is_paused: true });
    lack = new CallError('away', 'The agent is not connected');
    try {
      await owner.put(`/syncs/${id}`, { is_paused: false });
      expect((await run(id, { force: ['volumes.files'] })).body.error).toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining('no commit is known yet'),
      });
    } finally {
      lack = undefined;
    }
  });
});

function json(yaml: string): string {
  const [, name = ''] = /name: (\w+)/.exec(yaml) ?? [];
  return JSON.stringify({ apiVersion: 'setpoint/v1', kind: 'Volume', metadata: { name } });
}

describe('what somebody changes by hand', () => {
  it('is told, and changed back by a sync that is asked for with force', async () => {
    const at = await place();
    const head = await commit(at, { 'deploy/web.yaml': web('web:1') });
    const id = await made(at);
    await reaches(id, 'in_sync', head);
    const { id: app } = await named('applications', at, 'web');
    await owner.put(`/applications/${app}`, { exposed_port: 9090, replicas: 2 });
    expect(await reaches(id, 'drifted')).toMatchObject({ differs: ['applications.web'], commit_applied: head });
    await run(id, { force: ['applications.web'] });
    await reaches(id, 'in_sync');
    // a field that is not declared is that of whoever set it
    expect((await owner.get(`/applications/${app}`)).data).toMatchObject({ exposed_port: 8080, replicas: 2 });
  });

  it('is changed back by itself where that was asked for', async () => {
    const at = await place();
    const head = await commit(at, { 'deploy/web.yaml': web('web:1') });
    const id = await made(at, { drift: 'correct' });
    await reaches(id, 'in_sync', head);
    const { id: app } = await named('applications', at, 'web');
    await owner.put(`/applications/${app}`, { exposed_port: 9090 });
    await until('it is changed back', async () => (await owner.get(`/applications/${app}`)).data.exposed_port === 8080);
  });

  it(
    'is forced by a person where somebody else made or declares it, also of a sync that corrects',
    { tags: [longTag] },
    async () => {
      const at = await place();
      const where = { project_id: at.project, server_id: at.server };
      const byHand = { ...where, name: 'web', source_type: 'image', image_url: 'web:0', exposed_port: 8080 };
      expect((await owner.post('/applications', byHand)).status).toBe(201);
      const head = await commit(at, { 'deploy/web.yaml': web('web:1') });
      const id = await made(at, { drift: 'correct' });
      expect(await reaches(id, 'waiting', head)).toMatchObject({ needs_force: ['applications.web'] });
      expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:0' });
      await run(id, { force: ['applications.web'] });
      await reaches(id, 'in_sync', head);
      // two declare the same field: none of them writes until a person decides
      const content = web('web:2');
      const other = { project_id: at.project, content, manager: 'ci', force: ['applications.web'] };
      expect((await owner.post('/apply', other)).status).toBe(200);
      expect(await reaches(id, 'waiting', head)).toMatchObject({ needs_force: ['applications.web'] });
      expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
    },
  );
});

it.each(['manager', 'set'])('nobody else applies as a sync: %s', async (field) => {
  const { project } = await place();
  const body = { project_id: project, content: files, [field]: `sync/${crypto.randomUUID()}` };
  expect((await owner.post('/apply', body)).body.error).toMatchObject({
    code: 'BAD_REQUEST',
    details: [{ field, message: expect.stringContaining('sync/ is for syncs') }],
  });
});

describe('rights', () => {
  it('are those of who made it, in its project alone, and end with its key', async () => {
    const at = await place();
    const user = await world.user();
    await owner.post(`/projects/${at.project}/members`, { user_id: user.id, role: 'admin' });
    const head = await commit(at, { 'deploy/web.yaml': web('web:1') });
    const id = await made(at, {}, user);
    await reaches(id, 'in_sync', head);
    const [key] = (await user.get('/settings/service-keys')).data;
    expect(key).toMatchObject({ name: 'Sync shop', project_id: at.project, scopes: ['write'] });
    const { data: audited } = await owner.get(`/audit?projectId=${at.project}`);
    expect(audited).toContainEqual(
      expect.objectContaining({ route: 'POST /apply', key_id: key.id, request_id: expect.any(String) }),
    );
    await commit(at, { 'deploy/web.yaml': web('web:2') });
    await user.delete(`/settings/service-keys/${key.id}`);
    await run(id);
    expect(await reaches(id, 'failed')).toMatchObject({ message: expect.stringContaining('was revoked') });
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
    expect((await owner.put(`/syncs/${id}`, { take_over: true })).data.requested_by).not.toBe(user.id);
    await reaches(id, 'in_sync');
    expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
  });

  it('to a repository are those of its credential, which stays while the sync is there', async () => {
    const at = await place();
    const { data: credential } = await owner.post('/settings/git-credentials', {
      name: `git-${count}`,
      host: 'git.example.test',
      type: 'token',
      token: 'secret',
    });
    const refused = await owner.post('/syncs', { ...at.fields, git_credential_id: credential.id });
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([400, 'other_protocol']);
    const url = 'https://git.example.test/shop.git';
    const id = await made(at, { repository_url: url, git_credential_id: credential.id, is_paused: true });
    expect((await owner.delete(`/settings/git-credentials/${credential.id}`)).status).toBe(409);
    await owner.put(`/syncs/${id}`, { git_credential_id: null });
    expect((await owner.delete(`/settings/git-credentials/${credential.id}`)).status).toBe(204);
  });
});

it('a webhook that announces the branch makes its sync look at once', async () => {
  const at = await place();
  const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
  const id = await made(at, { interval_seconds: 86_400 });
  await reaches(id, 'in_sync', first);
  const push = await pushes(at);
  const second = await commit(at, { 'deploy/web.yaml': web('web:2') });
  await push('other');
  await push('main');
  await reaches(id, 'in_sync', second);
});

it('a branch whose history was rewritten is announced with both commits, and one that grew is not', async () => {
  const at = await place();
  const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
  const id = await made(at);
  await reaches(id, 'in_sync', first);
  const events = async () =>
    (await owner.get(`/syncs/${id}/events`)).data.filter((it: { reason: string }) => it.reason === 'HistoryRewritten');
  const grown = await at.shop.grow();
  await run(id);
  await reaches(id, 'in_sync', grown);
  expect(await events()).toEqual([]);
  const other = await commit(at, { 'deploy/web.yaml': web('web:2') });
  await run(id);
  await reaches(id, 'in_sync', other);
  await until('it is announced', async () => (await events()).length > 0);
  expect(await events()).toMatchObject([
    {
      type: 'warning',
      message: `The history of branch main was rewritten: ${other.slice(0, 12)} does not follow ${grown.slice(0, 12)}, which was its head before`,
    },
  ]);
  // what is on another branch follows nothing
  const next = await at.shop.commit({ 'deploy/web.yaml': web('web:3') }, { branch: 'next' });
  await owner.put(`/syncs/${id}`, { branch: 'next' });
  await reaches(id, 'in_sync', next);
  expect(await events()).toHaveLength(1);
});

it('a sync of a pattern of tags applies what the newest one leads to, and says which', async () => {
  const at = await place();
  const image = async () => (await named('applications', at, 'web'))?.image_url;
  const eventsOf = async (id: string) =>
    (await owner.get(`/syncs/${id}/events`)).data
      .filter((it: { reason: string }) => it.reason.startsWith('Tag'))
      .map((it: { reason: string; message: string }) => `${it.reason}: ${it.message}`);
  const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
  const of = { ...at.fields, branch: undefined };
  const refused = async (body: object) => (await owner.post('/syncs', body)).body.error?.details?.[0];
  expect(await refused(of)).toMatchObject({ field: 'branch', reason: 'required' });
  expect(await refused({ ...at.fields, tag_pattern: 'v1.*' })).toMatchObject({ field: 'tag_pattern' });
  expect(await refused({ ...of, tag_pattern: 'v1 *' })).toMatchObject({ field: 'tag_pattern' });
  const id = await made(at, { branch: undefined, tag_pattern: 'v1.*', interval_seconds: 86_400 });
  expect(await reaches(id, 'failed')).toMatchObject({
    branch: null,
    commit_wanted: null,
    message: expect.stringContaining('has no tag that matches v1.*'),
  });
  expect(await readyOf(id)).toMatchObject({ status: 'false', reason: 'NoMatchingTag' });
  const push = await pushes(at);
  await at.shop.tag('v1.0', first);
  await run(id);
  await until('it tells why', async () => (await shown(id)).message?.includes('has 1 tag that matches v1.*') === true);
  await at.shop.tag('v1.9.0', first, 'The first one');
  await push('v1.9.0', 'tags');
  expect(await reaches(id, 'in_sync', first)).toMatchObject({ tag_wanted: 'v1.9.0', tag_applied: 'v1.9.0' });
  expect(await runs(id)).toMatchObject([{ commit: first, tag: 'v1.9.0', outcome: 'applied' }]);
  const second = await commit(at, { 'deploy/web.yaml': web('web:2') });
  for (const other of ['v1.10.0-rc.1', 'v2.0.0']) await at.shop.tag(other, second);
  await run(id);
  await until('it looks', async () => !(await isAsked(id)));
  expect(await shown(id)).toMatchObject({ status: 'in_sync', commit_wanted: first, tag_wanted: 'v1.9.0' });
  await at.shop.tag('v1.10.0', second);
  await run(id);
  expect(await reaches(id, 'in_sync', second)).toMatchObject({ tag_applied: 'v1.10.0' });
  expect(await eventsOf(id)).toEqual([]);
  // a tag that is moved is applied as a push by force is, and told
  const third = await commit(at, { 'deploy/web.yaml': web('web:3') });
  await at.shop.tag('v1.10.0', third);
  await run(id);
  await reaches(id, 'in_sync', third);
  expect(await image()).toBe('web:3');
  const [two, three, one] = [second, third, first].map((it) => it.slice(0, 12));
  await until('it is told', async () => (await eventsOf(id)).length > 0);
  expect(await eventsOf(id)).toEqual([`TagMoved: The tag v1.10.0 was moved: it is commit ${three}, and was ${two}`]);
  // a commit is gone back to with the tag by which it was found
  expect((await owner.post(`/syncs/${id}/rollback`, { commit: first })).data).toMatchObject({ pinned_commit: first });
  expect(await reaches(id, 'in_sync', first)).toMatchObject({ tag_wanted: 'v1.9.0', tag_applied: 'v1.9.0' });
  await owner.put(`/syncs/${id}`, { pinned_commit: null });
  await reaches(id, 'in_sync', third);
  await at.shop.untag('v1.10.0');
  await run(id);
  await reaches(id, 'in_sync', first);
  await until('it is told', async () => (await eventsOf(id)).length > 1);
  expect((await eventsOf(id)).find((it: string) => it.startsWith('TagRemoved'))).toBe(
    `TagRemoved: The tag v1.10.0 of commit ${three} is gone: the newest one is v1.9.0 of commit ${one} now`,
  );
  // a branch takes the place of the tags
  expect((await owner.put(`/syncs/${id}`, { tag_pattern: null })).body.error?.details).toMatchObject([
    { field: 'branch' },
  ]);
  expect((await owner.put(`/syncs/${id}`, { branch: 'main' })).data).toMatchObject({
    branch: 'main',
    tag_pattern: null,
  });
  expect(await reaches(id, 'in_sync', third)).toMatchObject({ tag_wanted: null, tag_applied: null });
});

it('variables and secrets stand in the files, and a change of one is applied', async () => {
  const at = await place();
  const env = 'env: {TOKEN: "a-${vars.TOKEN}", MODE: "${vars.MODE}", KEPT: "$${vars.MODE}"}';
  const head = await commit(at, { 'deploy/web.yaml': web('web:${vars.TAG}', env) });
  const id = await made(at, { variables: { TAG: '1', MODE: 'plain' } });
  expect(await reaches(id, 'failed', head)).toMatchObject({
    message: expect.stringMatching(/^deploy\/web\.yaml, line 7, column \d+: spec\.env\.TOKEN uses \$\{vars\.TOKEN\}, /),
  });
  const put = (body: object) => owner.put(`/syncs/${id}`, body);
  expect((await put({ secrets: { TOKEN: 's3cret-one' } })).data).toMatchObject({ secret_names: ['TOKEN'] });
  await reaches(id, 'in_sync', head);
  const { id: app, image_url } = await named('applications', at, 'web');
  expect(image_url).toBe('web:1');
  const envOf = async () => (await owner.get(`/applications/${app}/env`)).data.env;
  expect(await envOf()).toEqual({ TOKEN: 'a-s3cret-one', MODE: 'plain', KEPT: '$${vars.MODE}' });
  for (const body of [await shown(id), await runs(id), (await world.repo.get('sync', id))?.desired])
    expect(JSON.stringify(body)).not.toContain('s3cret');
  // secrets that are not named stay, variables are replaced as a whole
  expect((await put({ variables: { TAG: '2', MODE: 'fancy' } })).data).toMatchObject({
    variables: { TAG: '2', MODE: 'fancy' },
    secret_names: ['TOKEN'],
  });
  await until('it is applied', async () => (await named('applications', at, 'web')).image_url === 'web:2');
  await reaches(id, 'in_sync', head);
  await put({ secrets: { TOKEN: 's3cret-two' } });
  await until('it is applied', async () => (await envOf()).TOKEN === 'a-s3cret-two');
  expect(await envOf()).toMatchObject({ MODE: 'fancy' });
  for (const [body, words] of [
    [{ variables: { TOKEN: 'x' } }, 'TOKEN is a secret'],
    [{ variables: { 'a b': 'x' } }, 'must be a name'],
    [{ variables: { A: '${databases.db.url}' } }, 'must not have ${'],
    [{ pinned_commit: head }, 'Only null releases it'],
  ] as const)
    expect(JSON.stringify((await put(body)).body.error)).toContain(words);
  expect((await put({ secrets: { TOKEN: null } })).data.secret_names).toEqual([]);
  expect(await reaches(id, 'failed', head)).toMatchObject({ message: expect.stringContaining('${vars.TOKEN}') });
});

it('a sync is rolled back to a commit that it has applied, and stays with it until it is released', async () => {
  const at = await place();
  const first = await commit(at, { 'deploy/web.yaml': web('web:1') });
  const id = await made(at, { interval_seconds: 86_400 });
  await reaches(id, 'in_sync', first);
  const back = (body: object = {}) => owner.post(`/syncs/${id}/rollback`, body);
  expect((await back()).body.error?.message).toBe('There is nothing to roll back to: no commit was applied before');
  const second = await commit(at, { 'deploy/web.yaml': web('web:2'), 'deploy/files.yaml': files });
  await run(id);
  await reaches(id, 'in_sync', second);
  const faulty = await commit(at, { 'deploy/web.yaml': 'kind: Nothing' });
  await run(id);
  await reaches(id, 'failed', faulty);
  expect((await back({ commit: faulty })).body.error).toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining(`${second.slice(0, 12)}, ${first.slice(0, 12)}`),
  });
  expect((await back({ commit: 'main' })).status).toBe(400);
  expect((await back()).data).toMatchObject({ pinned_commit: first });
  // what would lose data waits for a person, as it does with any other commit
  expect(await reaches(id, 'waiting', first)).toMatchObject({ needs_force: ['volumes.files'] });
  await run(id, { force: ['volumes.files'] });
  expect(await reaches(id, 'in_sync', first)).toMatchObject({ commit_applied: first, pinned_commit: first });
  expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:1' });
  expect((await world.repo.get('sync', id))?.observed?.conditions).toMatchObject([
    { type: 'Ready', status: 'true', reason: 'Pinned', message: expect.stringContaining(first.slice(0, 12)) },
  ]);
  // commits of the branch change nothing meanwhile
  const push = await pushes(at);
  const third = await commit(at, { 'deploy/web.yaml': web('web:3') });
  await push('main');
  await run(id);
  expect(await reaches(id, 'in_sync', first)).toMatchObject({ commit_applied: first });
  // drift is of the pinned commit
  const { id: app } = await named('applications', at, 'web');
  await owner.put(`/applications/${app}`, { exposed_port: 9090 });
  await reaches(id, 'drifted', first);
  expect((await owner.put(`/syncs/${id}`, { pinned_commit: null })).data.pinned_commit).toBeNull();
  expect(await reaches(id, 'waiting', third)).toMatchObject({ needs_force: ['applications.web'] });
  await run(id, { force: ['applications.web'] });
  await reaches(id, 'in_sync', third);
  // who reads why it failed learns that it is pinned
  lack = new CallError('branch_not_found', 'The commit is not there any more');
  try {
    await back({ commit: second });
    expect(await reaches(id, 'failed', second)).toMatchObject({
      message: `The commit is not there any more. It is pinned to ${second.slice(0, 12)}: later commits are not applied until it is released (pinned_commit: null)`,
    });
  } finally {
    lack = undefined;
  }
  const unit = world.repo.begin();
  unit.change((await world.repo.get('server', at.server))!, (draft) => void (draft.allowed_projects = []));
  await commitUnit(unit);
  await run(id);
  await until('it may not use the server', async () =>
    /is not for this project any more.*It is pinned/.test((await shown(id)).message),
  );
  // another branch has nothing to do with the commit
  expect((await back({ commit: second.slice(0, 7) })).data.pinned_commit).toBe(second);
  expect((await owner.put(`/syncs/${id}`, { branch: 'other' })).data.pinned_commit).toBeNull();
  expect((await back({ commit: first })).body.error?.message).toContain('repository, branch and path');
  expect((await back()).status).toBe(409);
  await owner.put(`/syncs/${id}`, { branch: 'main' });
  expect((await back({ commit: second })).status).toBe(200);
  expect((await owner.put(`/syncs/${id}`, { path: 'elsewhere' })).data.pinned_commit).toBeNull();
  expect((await back({ commit: second })).status).toBe(409);
});

it('a sync that is paused looks at nothing, and what it made outlives it', async () => {
  const at = await place();
  const hello = object('Function', 'hello', 'runtime: node20', 'code: "export default () => new Response()"');
  const first = await commit(at, { 'deploy/web.yaml': web('web:1'), 'deploy/hello.yaml': hello });
  const id = await made(at);
  await reaches(id, 'in_sync', first);
  expect((await owner.put(`/syncs/${id}`, { is_paused: true })).data.status).toBe('paused');
  await commit(at, { 'deploy/web.yaml': web('web:2'), 'deploy/hello.yaml': hello });
  expect((await run(id)).status).toBe(409);
  await owner.put(`/syncs/${id}`, { is_paused: false });
  await until('it goes on', async () => (await named('applications', at, 'web')).image_url === 'web:2');
  const { id: app } = await named('applications', at, 'web');
  const { id: called } = await named('functions', at, 'hello');
  expect((await world.repo.get('function', called))?.desired.declarations).toMatchObject([{ manager: `sync/${id}` }]);
  expect((await owner.delete(`/syncs/${id}`)).status).toBe(200);
  await until('it is gone', async () => (await owner.get(`/syncs/${id}`)).status === 404);
  // nothing declares it any more, so that another one may
  expect((await world.repo.get('application', app))?.desired.declarations).toBeUndefined();
  expect((await world.repo.get('function', called))?.desired.declarations).toBeUndefined();
  expect((await owner.post('/syncs', { ...at.fields, interval_seconds: 1 })).status).toBe(400);
  expect(await named('applications', at, 'web')).toMatchObject({ image_url: 'web:2' });
});
