import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { openFrames } from '../harness/frames.ts';

const unlimited = { perMinute: 0, burst: 1 };
const path = '/settings/git-credentials';
const token = 'glpat-a-very-secret-token';
const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

let world: ApiWorld;
let owner: Client;
let place: Awaited<ReturnType<ApiWorld['place']>>;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited }, logLevel: 'trace' });
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;
const detailOf = ({ body }: Answer) => body.error?.details?.[0];

async function aToken(fields: object = {}): Promise<string> {
  const { status, data } = await owner.post(path, {
    name: aName(),
    host: 'git.example.com',
    type: 'token',
    token,
    ...fields,
  });
  expect(status).toBe(201);
  return data.id;
}

const aKey = (fields: object = {}): Promise<Answer> =>
  owner.post(path, { name: aName(), host: 'git.example.com', type: 'ssh', host_keys: [hostKey], ...fields });

const gitSource = {
  source_type: 'git',
  repository_url: 'https://git.example.com/team/web.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
};

const anApplication = (fields: object = {}): Promise<Answer> =>
  owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: aName(),
    ...gitSource,
    ...fields,
  });

describe('a git credential', () => {
  it('is a token for one host, and never shows it', async () => {
    const name = aName();
    const made = await owner.post(path, { name, host: 'Git.Example.COM:443', type: 'token', token });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({
      name,
      host: 'git.example.com',
      type: 'token',
      username: 'x-access-token',
      public_key: null,
      fingerprint: null,
      host_keys: [],
      allowed_projects: 'all',
      application_ids: [],
      status: 'unused',
    });
    const { data: shown, body } = await owner.get(`${path}/${made.data.id}`);
    expect(shown).toEqual(made.data);
    expect(JSON.stringify(body)).not.toContain(token);
  });

  it('is a deploy key that is made here, with the keys that its host may show', async () => {
    const { status, data } = await aKey({ host: 'git.example.com:2222', host_keys: [`git.example.com ${hostKey} x`] });
    expect(status).toBe(201);
    expect(data).toMatchObject({
      type: 'ssh',
      host: 'git.example.com:2222',
      username: null,
      public_key: expect.stringMatching(/^ssh-ed25519 AAAA/),
      fingerprint: expect.stringMatching(/^SHA256:/),
      host_keys: [hostKey],
    });
  });

  it('is a deploy key that is imported', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    const { data } = await aKey({ private_key: pem });
    expect(data.public_key).toMatch(/^ecdsa-sha2-nistp256 /);
    expect(JSON.stringify(data)).not.toContain('PRIVATE');
  });

  it.each([
    [{ type: 'token', token: undefined }, 'token'],
    [{ type: 'token', private_key: 'x' }, 'private_key'],
    [{ type: 'token', host_keys: [hostKey] }, 'host_keys'],
    [{ type: 'token', token: 'two\nlines' }, 'token'],
    [{ type: 'token', username: 'with:colon' }, 'username'],
    [{ type: 'token', host: 'https://git.example.com' }, 'host'],
    [{ type: 'token', host: 'git.example.com/path' }, 'host'],
    [{ type: 'token', host: '-git' }, 'host'],
    [{ type: 'token', host: 'user@git.example.com' }, 'host'],
    [{ type: 'token', ca_certificate: 'no certificate' }, 'ca_certificate'],
    [{ type: 'ssh', token: undefined, host_keys: [] }, 'host_keys'],
    [{ type: 'ssh', token: undefined, host_keys: ['nonsense'] }, 'host_keys.0'],
    [{ type: 'ssh', token: undefined, host_keys: [`@cert-authority * ${hostKey}`] }, 'host_keys.0'],
    [{ type: 'ssh', token: undefined, host_keys: [hostKey.replace('ssh-ed25519', 'ssh-rsa')] }, 'host_keys.0'],
    [{ type: 'ssh', host_keys: [hostKey] }, 'token'],
    [{ type: 'ssh', token: undefined, host_keys: [hostKey], private_key: 'nonsense' }, 'private_key'],
  ])('is refused with the field: %j', async (fields, field) => {
    const { status, body } = await owner.post(path, {
      name: aName(),
      host: 'git.example.com',
      token,
      ...fields,
    });
    expect([status, body.error?.details?.[0]?.field]).toEqual([400, field]);
  });

  it('keeps its secret when its name changes, and takes another one', async () => {
    const id = await aToken();
    const before = (await world.repo.get('git_credential', id))!.desired.credential;
    expect((await owner.put(`${path}/${id}`, { name: aName(), username: 'oauth2' })).data.username).toBe('oauth2');
    const renamed = (await world.repo.get('git_credential', id))!.desired.credential;
    expect(renamed).toEqual({ ...before, username: 'oauth2' });
    const { data } = await owner.get(`${path}/${id}`);
    expect((await owner.put(`${path}/${id}`, data)).data).toEqual(data); // an answer can be sent back
    expect((await owner.put(`${path}/${id}`, { token: 'another' })).status).toBe(200);
    const changed = (await world.repo.get('git_credential', id))!.desired.credential;
    if (changed.type !== 'token') throw new Error('It is a token');
    const opened = world.keyring.unseal(changed.token, {
      tenant: 'default',
      kind: 'git_credential',
      id,
      path: 'credential.token',
    });
    expect(opened).toBe('another');
  });

  it('SEC-14 is bound to its host: another one needs the secret anew, and no application that uses it', async () => {
    const id = await aToken();
    const host = 'evil.example.com';
    const alone = await owner.put(`${path}/${id}`, { host });
    expect([alone.status, detailOf(alone)?.field]).toEqual([400, 'token']);
    const typed = await owner.put(`${path}/${id}`, { type: 'ssh', host_keys: [hostKey] });
    expect([typed.status, detailOf(typed)?.field]).toEqual([400, 'type']);
    const key = (await aKey()).data.id;
    const moved = await owner.put(`${path}/${key}`, { host, generate: 'ed25519' });
    expect([moved.status, detailOf(moved)?.field]).toEqual([400, 'host_keys']);
    const app = (await anApplication({ git_credential_id: id })).data;
    const used = await owner.put(`${path}/${id}`, { host, token: 'for the other one' });
    expect([used.status, used.body.error?.message]).toEqual([409, expect.stringContaining(app.name)]);
    expect((await owner.put(`/applications/${app.id}`, { git_credential_id: null })).data.git_credential_id).toBeNull();
    expect((await owner.put(`${path}/${id}`, { host, token: 'for the other one' })).data.host).toBe(host);
  });

  it('is not deleted while applications use it, which the answer names', async () => {
    const id = await aToken();
    const app = (await anApplication({ git_credential_id: id })).data;
    expect((await owner.get(`${path}/${id}`)).data).toMatchObject({ status: 'used', application_ids: [app.id] });
    const refused = await owner.delete(`${path}/${id}`);
    expect([refused.status, refused.body.error?.details]).toEqual([
      409,
      [{ field: 'git_credential_id', reason: 'in_use', message: `Application ${app.name} (${app.id})` }],
    ]);
    await owner.put(`/applications/${app.id}`, { git_credential_id: null });
    expect((await owner.delete(`${path}/${id}`)).status).toBe(204);
  });

  it('and an application meet at one host, whichever of them changes', async () => {
    const id = await aToken({ host: 'git.example.com:8443' });
    const url = 'https://git.example.com:8443/team/web.git';
    for (const repository_url of [
      'https://git.example.com/team/web.git',
      'https://other.example.com:8443/team/web.git',
      'http://git.example.com:8443/team/web.git',
      'ssh://git@git.example.com:8443/team/web.git',
      'git@git.example.com:team/web.git',
    ]) {
      const refused = await anApplication({ git_credential_id: id, repository_url });
      expect([refused.status, detailOf(refused)?.field]).toEqual([400, 'git_credential_id']);
    }
    const app = (await anApplication({ git_credential_id: id, repository_url: url })).data;
    expect(app.git_credential_id).toBe(id);
    const moved = await owner.put(`/applications/${app.id}`, { repository_url: 'https://evil.example.com:8443/a.git' });
    expect([moved.status, detailOf(moved)?.field]).toEqual([400, 'repository_url']);
    expect((await owner.put(`/applications/${app.id}`, { repository_url: `${url}/` })).status).toBe(200);
    const key = (await aKey()).data.id;
    const ssh = await anApplication({ git_credential_id: key, repository_url: 'git@git.example.com:team/web.git' });
    expect(ssh.status).toBe(201);
    const image = await owner.put(`/applications/${app.id}`, { source_type: 'image', image_url: 'nginx:1' });
    expect([image.status, image.data.git_credential_id]).toEqual([200, null]);
  });

  it('SEC-28 is for the projects that it allows: others get 403, and do not see it', async () => {
    const other = (await owner.post('/projects', { name: aName() })).data.id;
    const id = await aToken({ allowed_projects: [other] });
    const refused = await anApplication({ git_credential_id: id });
    expect([refused.status, detailOf(refused)?.reason]).toEqual([403, 'not_granted']);
    await owner.put(`${path}/${id}`, { allowed_projects: 'all' });
    const app = (await anApplication({ git_credential_id: id })).data.id;
    await owner.put(`${path}/${id}`, { allowed_projects: [other] });
    expect((await owner.post(`/applications/${app}/deploy`)).status).toBe(403);
    const member = await world.user();
    const unit = world.repo.begin();
    unit.create('member', crypto.randomUUID(), { project_id: place.project, user_id: member.id, role: 'member' });
    await commit(unit);
    await world.settled();
    const listed = (await member.get(path)).data as { id: string }[];
    expect(listed.map((it) => it.id)).not.toContain(id);
    expect((await member.get(`${path}/${id}`)).status).toBe(403);
    const seen = await aToken();
    const [shown] = ((await member.get(path)).data as { id: string }[]).filter((it) => it.id === seen);
    expect(Object.keys(shown!).toSorted()).toEqual(['host', 'id', 'name', 'type']);
  });

  it('SEC-28 is judged by a return to an earlier deployment as the source of that one names it', async () => {
    const other = (await owner.post('/projects', { name: aName() })).data.id;
    const [named, unnamed] = [await aToken(), await aToken()];
    const app = (await anApplication({ git_credential_id: named })).data.id;
    const deployed: string[] = [];
    for (const git_credential_id of [named, null, unnamed]) {
      await owner.put(`/applications/${app}`, { git_credential_id });
      const { id } = (await owner.post(`/applications/${app}/deploy`)).data;
      const built = { image: `image-${id}`, image_digest: 'sha256:1', commit: 'a'.repeat(40) };
      await world.observe('deployment', id, { phase: 'succeeded', ...built });
      deployed.push(id);
    }
    const [withNamed, withNone] = deployed;
    for (const id of [named, unnamed]) await owner.put(`${path}/${id}`, { allowed_projects: [other] });
    const back = (deployment_id: string | undefined) => owner.post(`/applications/${app}/rollback`, { deployment_id });
    // the one that it has now is not asked for, and is had no more
    const toNone = await back(withNone);
    await owner.put(`/applications/${app}`, { git_credential_id: null });
    const refused = await back(withNamed);
    expect([toNone.status, refused.status, detailOf(refused)]).toEqual([
      200,
      403,
      expect.objectContaining({ field: 'git_credential_id', reason: 'not_granted' }),
    ]);
    expect((await owner.get(`/applications/${app}`)).data.git_credential_id).toBeNull();
  });

  it('goes with a deployment by its id, in none of whose records it is', async () => {
    const id = await aToken();
    const app = (await anApplication({ git_credential_id: id })).data.id;
    const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
    const { source } = (await world.repo.get('deployment', deployment))!.desired;
    expect(source).toMatchObject({ type: 'git', git_credential_id: id });
  });

  it('shows its secret in no log, audit record and record of the store', async () => {
    const secret = `secret-${crypto.randomUUID()}`;
    const id = await aToken({ token: secret });
    await owner.put(`${path}/${id}`, { token: `${secret}-2` });
    await owner.post(path, { name: aName(), host: 'x y', type: 'token', token: secret });
    const audit = JSON.stringify((await owner.get('/audit?limit=500')).body);
    expect(audit).toContain(id);
    const stored = JSON.stringify(await entriesOf(world.store));
    for (const text of [...world.logged, audit, stored]) expect(text).not.toContain(secret);
  });

  it('is in /ws/watch, also when an application begins to use it', async () => {
    const id = await aToken();
    const address = `${world.url.replace('http', 'ws')}/default/ws/watch?kinds=git_credential`;
    await using frames = await openFrames(address, { authorization: `Bearer ${owner.token}` });
    await anApplication({ git_credential_id: id });
    const isUsed = (it: Record<string, unknown>): boolean =>
      it['id'] === id && (it['object'] as { status: string } | undefined)?.status === 'used';
    while (!frames.all.some(isUsed)) await frames.next('change');
  });
});
