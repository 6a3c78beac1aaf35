import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { environmentController } from '../../controllers/environment/reconcile.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { previewController } from '../../controllers/preview/reconcile.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { until } from '../harness/until.ts';

const running = new AsyncDisposableStack();
const repository = 'https://git.test/team/shop.git';
const fork_url = 'https://git.test/anna/shop.git';
const approved = 'a'.repeat(40);
const pushed = 'b'.repeat(40);
let world: ApiWorld;
let owner: Client;
/** The head of the branch of the fork. */
let head: string;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  const config = { rateLimit: unlimited, heavyRateLimit: unlimited, buildDeadlineMs: 60_000 };
  world = running.use(await startApi({ config }));
  const comparisons = operationController({
    agents: { call: async () => ({ commit: head, changed_files: ['a'] }) },
    machines: noMachines,
    installation: noInstallation,
  });
  const previews = previewController({ buildDeadlineMs: 60_000 });
  running.use(await lead(world, world.clock, environmentController(world.keyring), previews, comparisons));
  owner = await world.owner();
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

/** A preview of a fork with one approved commit, of which nothing serves yet. */
async function approvedFork() {
  const { project, server } = await world.place(owner);
  const source = { source_type: 'git', repository_url: repository, branch: 'main', dockerfile_path: 'Dockerfile' };
  await owner.post('/applications', { project_id: project, server_id: server, name: 'web', ...source });
  const body = { project_id: project, name: 'pr-3', branch: 'patch', fork_url, commit: approved };
  const { id } = (await owner.post('/previews', body)).data;
  await owner.post(`/previews/${id}/approve`, { commit: approved });
  await until('it is deployed', async () => (await owner.get(`/previews/${id}`)).data.status === 'deploying');
  const { preview_environment_id: environment } = (await owner.get(`/previews/${id}`)).data;
  const all = (await owner.get(`/applications?projectId=${project}`)).data;
  const web = all.find((it: { environment_id: string }) => it.environment_id === environment);
  const first = web.deployment_id as string;
  await world.observe('deployment', first, { phase: 'failed' });
  return { project, id, web: web.id as string, first };
}

/** The fork has another commit. */
async function push(id: string, commit = pushed): Promise<void> {
  const it = (await world.repo.get('preview', id))!;
  const unit = world.repo.begin();
  unit.change(it, (draft) => void (draft.commit = commit));
  await unit.commit();
  await world.settled();
}

const callers: [name: string, of: (project: string) => Promise<Client>][] = [
  [
    'a member',
    async (project) => {
      const user = await world.user();
      await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'member' });
      return user;
    },
  ],
  [
    'a service key that may only deploy',
    async () => {
      const { key } = (await owner.post('/settings/service-keys', { name: randomUUID(), scopes: ['deploy'] })).data;
      const by = world.client();
      const post: Client['post'] = (path, body) => by.post(path, body, { 'x-service-key': key });
      return { ...by, post };
    },
  ],
];

describe.each(callers)('SEC-66: %s', (_, of) => {
  it.each(['deploy', 'start'])('has nothing of a fork built by %s but the commit that was approved', async (verb) => {
    const { project, id, web, first } = await approvedFork();
    const caller = await of(project);
    await push(id);
    const refused = await caller.post(`/applications/${web}/${verb}`);
    expect(refused.status).toBe(409);
    expect(refused.body.error?.message).toContain('pr-3');
    expect((await world.repo.get('application', web))?.desired.deployment_id).toBe(first);
    await push(id, approved);
    expect((await caller.post(`/applications/${web}/${verb}`)).status).toBe(200);
    const made = (await world.repo.get('application', web))?.desired.deployment_id ?? first;
    expect(made).not.toBe(first);
    expect((await world.repo.get('deployment', made))?.desired.commit).toBe(approved);
  });
});

it('SEC-66: a deployment by hand of what is built of a fork is of the approved commit', async () => {
  const { web } = await approvedFork();
  const { data } = await owner.post(`/applications/${web}/deploy`);
  expect((await world.repo.get('deployment', data.id))?.desired.commit).toBe(approved);
  // whatever a person calls the branch, and however the address is written
  await owner.put(`/applications/${web}`, { branch: 'other', repository_url: 'git@git.test:anna/shop.git' });
  const again = (await owner.post(`/applications/${web}/deploy`)).data.id;
  expect((await world.repo.get('deployment', again))?.desired.commit).toBe(approved);
  // a branch of the repository itself is no code of a stranger
  await owner.put(`/applications/${web}`, { branch: 'main', repository_url: repository });
  const own = (await owner.post(`/applications/${web}/deploy`)).data.id;
  expect((await world.repo.get('deployment', own))?.desired.commit).toBeUndefined();
});

it('SEC-66: a comparison brings no commit of a fork that was not approved, also with autodeploy', async () => {
  const { web, first } = await approvedFork();
  await owner.put(`/applications/${web}`, { autodeploy: true });
  head = pushed;
  const asked = await owner.post(`/applications/${web}/deployments/sync`);
  expect(asked.data).toMatchObject({ decision: 'refused', deployment_id: null });
  expect(asked.data.reason).toContain('pr-3');
  expect((await world.repo.get('application', web))?.desired.deployment_id).toBe(first);
  head = approved;
  const same = await owner.post(`/applications/${web}/deployments/sync`);
  expect(same.data).toMatchObject({ decision: 'deployed' });
});
