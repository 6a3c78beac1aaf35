import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { docker, instancesOf } from '../harness/engine.ts';
import { createAuthority, type Authority } from '../harness/certificates.ts';
import { gitHttpsServer, testRepositories, type TestRepositories } from '../harness/git-server.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { startSshd } from '../harness/sshd.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const credentials = '/api/v1/settings/git-credentials';

let town: Installation;
let repositories: TestRepositories;
let authority: Authority;
let image: string;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  repositories = await testRepositories();
  authority = await createAuthority();
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
});

/** Everything that the installation, its agent and the engine show or keep of an application, as text. */
async function traces(application: string, deployment: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const entry of await readdir(town.dir, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name);
      found.set(path, await readFile(path, 'latin1').catch(() => '')); // what is gone by now shows nothing
    }
  const containers = await instancesOf(application);
  expect(containers).toHaveLength(1);
  found.set('containers', await docker('inspect', ...containers));
  found.set('image', await docker('inspect', await docker('inspect', '--format', '{{.Image}}', ...containers)));
  found.set(
    'layers',
    await docker('history', '--no-trunc', await docker('inspect', '-f', '{{.Image}}', ...containers)),
  );
  for (const path of [`/deployments/${deployment}`, `/deployments/${deployment}/logs`, `/applications/${application}`])
    found.set(path, JSON.stringify(await town.client.request('GET', `/api/v1${path}`)));
  return found;
}

/** Deploys an application whose repository is read with the credential; answers with the commit. */
async function deployed(repository_url: string, git_credential_id: string, fields: object = {}) {
  const port = await freePort();
  const app = await town.createApplication({
    ...brief,
    source_type: 'git',
    repository_url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    git_credential_id,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port) },
    ...fields,
  });
  const { id } = await town.deploy(app.id);
  const { commit } = await town.deployment(id, 'succeeded');
  const revision = await (await fetch(`http://127.0.0.1:${port}/env/REVISION`)).text();
  return { app: app.id, deployment: id, commit, revision };
}

async function expectNoTrace(app: string, deployment: string, secrets: readonly string[]): Promise<void> {
  const shown = await traces(app, deployment);
  expect(shown.size).toBeGreaterThan(5);
  const leaks = [...shown].filter(([, text]) => secrets.some((secret) => text.includes(secret)));
  expect(leaks.map(([where]) => where)).toEqual([]);
}

describe('an application of a repository that is not public', () => {
  it('is built and runs with a token by https, with a submodule of the same host, which no log, container, image and file shows', async () => {
    const token = randomBytes(24).toString('hex');
    const username = 'reader';
    const certificate = await authority.issue('git');
    const seen: (string | undefined)[] = [];
    await using server = await gitHttpsServer(repositories, certificate, {
      username,
      password: token,
      asked: ({ headers }) => void seen.push(headers.authorization),
    });
    const made = await repositories.create('by-token');
    const library = await repositories.create('library');
    const head = await made.commit({
      Dockerfile: `FROM ${image}\nENV REVISION=by-token\nRUN env\nCOPY lib/value /value\n`,
      lib: { submodule: await library.commit({ value: 'of a submodule' }) },
      '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../library.git\n',
    });
    const credential = await town.client.object('POST', credentials, {
      name: 'token',
      host: server.host,
      type: 'token',
      username,
      token,
      ca_certificate: await readFile(certificate.ca, 'utf8'),
    });
    const { app, deployment, commit, revision } = await deployed(`${server.url}/by-token.git`, credential.id, {
      submodules: true,
    });
    expect({ commit, revision }).toEqual({ commit: head, revision: 'by-token' });
    const basic = Buffer.from(`${username}:${token}`).toString('base64');
    expect(seen).toContain(`Basic ${basic}`);
    await expectNoTrace(app, deployment, [token, basic]);
  });

  it('is built and runs with a deploy key by ssh, which no log, container, image and file shows', async () => {
    await using sshd = await startSshd({ settings: ['AcceptEnv GIT_PROTOCOL'] });
    const made = await repositories.create('by-key');
    const head = await made.commit({ Dockerfile: `FROM ${image}\nENV REVISION=by-key\nRUN env\n` });
    const credential = await town.client.object('POST', credentials, {
      name: 'key',
      host: `127.0.0.1:${sshd.port}`,
      type: 'ssh',
      private_key: sshd.privateKey,
      host_keys: [sshd.hostKey.split(' ').slice(0, 2).join(' ')],
    });
    const url = `ssh://${sshd.username}@127.0.0.1:${sshd.port}${made.path}`;
    const { app, deployment, commit, revision } = await deployed(url, credential.id);
    expect({ commit, revision }).toEqual({ commit: head, revision: 'by-key' });
    const lines = sshd.privateKey.split('\n').filter((line) => line.length > 40);
    expect(lines.length).toBeGreaterThan(2);
    // the first lines are the same in all keys of this type
    await expectNoTrace(app, deployment, lines.slice(1));
  });

  it('fails with what to do once its token is another one, and names no secret', async () => {
    const token = randomBytes(24).toString('hex');
    const certificate = await authority.issue('other');
    await using server = await gitHttpsServer(repositories, certificate, { username: 'reader', password: token });
    const made = await repositories.create('refused');
    await made.commit({ Dockerfile: `FROM ${image}\n` });
    const wrong = randomBytes(24).toString('hex');
    const { id } = await town.client.object('POST', credentials, {
      name: 'wrong',
      host: server.host,
      type: 'token',
      username: 'reader',
      token: wrong,
      ca_certificate: await readFile(certificate.ca, 'utf8'),
    });
    const app = await town.createApplication({
      ...brief,
      source_type: 'git',
      repository_url: `${server.url}/refused.git`,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      git_credential_id: id,
      app_type: 'worker',
    });
    const { id: deployment } = await town.deploy(app.id);
    const { error } = await town.deployment(deployment, 'failed');
    expect(error).toMatchObject({
      code: 'repository_unreachable',
      message: expect.stringContaining('its host refuses the git credential'),
    });
    expect(JSON.stringify(error)).not.toContain(wrong);
  });
});
