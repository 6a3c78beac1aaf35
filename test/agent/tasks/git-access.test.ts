import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GitCredential } from '../../../agent-protocol/git-credential.ts';
import { git, type Git } from '../../../agent/tasks/git.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { systemClock } from '../../../time/clock.ts';
import { createAuthority, type Authority, type Certificate } from '../../harness/certificates.ts';
import { gitHttpsServer, testRepositories, type TestRepositories } from '../../harness/git-server.ts';
import { startSshd, type TestSshd } from '../../harness/sshd.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const username = 'reader';
const password = 'a token of 40 letters: äöü %41 "$(id)"';
const basic = Buffer.from(`${username}:${password}`).toString('base64');

let repositories: TestRepositories;
let work: WorkFolder;
let workPath: string;
let client: Git;
let authority: Authority;
let certificate: Certificate;
let head: string;
let since: string;

beforeAll(async () => {
  repositories = await testRepositories();
  workPath = join(repositories.folder, 'work');
  work = await openWorkFolder(workPath);
  client = git({ clock: systemClock, protocols: [], fileRoots: [], loopback: true, folder: work });
  authority = await createAuthority();
  certificate = await authority.issue('git');
  const shop = await repositories.create('shop');
  since = await shop.commit({ Dockerfile: 'FROM scratch' });
  head = await shop.commit({ Dockerfile: 'FROM scratch', 'src/main': '1' });
});
afterAll(async () => {
  expect(await readdir(workPath)).toEqual([]);
  await repositories[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
});

async function token(host: string, changes: object = {}): Promise<GitCredential> {
  const ca = await readFile(certificate.ca, 'utf8');
  return { type: 'token', host, username, token: password, ca_certificate: ca, ...changes };
}

/** What the programs of this machine show of the secret in their arguments. */
function shownInArguments(): string[] {
  return readdirSync('/proc')
    .filter((id) => /^\d+$/.test(id))
    .flatMap((id) => {
      try {
        return readFileSync(`/proc/${id}/cmdline`, 'utf8');
      } catch {
        return []; // it has ended
      }
    })
    .filter((line) => line.includes(password) || line.includes(basic));
}

describe('a token', () => {
  test('reads head, files and changes by https, and is in no argument, file and address', async () => {
    const asked: string[] = [];
    await using server = await gitHttpsServer(repositories, certificate, {
      username,
      password,
      asked: ({ url }) => {
        asked.push(url ?? '');
        expect(shownInArguments()).toEqual([]);
      },
    });
    const credential = await token(server.host);
    const url = `${server.url}/shop.git`;
    expect(await client.head({ url, branch: 'main', credential }, signal())).toBe(head);
    await using folder = await work.make();
    const { commit } = await client.checkout(
      { url, branch: 'main', credential, withinMs: 60_000 },
      folder.path,
      signal(),
    );
    expect(commit).toBe(head);
    expect(await readFile(join(folder.path, 'tree', 'src/main'), 'utf8')).toBe('1');
    await using other = await work.make();
    // a host that gives commits by their id
    const changes = await client.changes({ url, commit: head, credential }, since, other.path, signal());
    expect(changes === undefined || changes.files.includes('src/main')).toBe(true);
    for (const one of [folder.path, other.path])
      for (const entry of await readdir(one, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const text = await readFile(join(entry.parentPath, entry.name), 'latin1');
        expect(text.includes(basic) || text.includes(password), entry.name).toBe(false);
      }
    expect(asked.length).toBeGreaterThan(3);
    expect(asked.join()).not.toContain(encodeURIComponent(password));
  });

  test('that is wrong is refused with what to do, and not shown', async () => {
    await using server = await gitHttpsServer(repositories, certificate, { username, password });
    const url = `${server.url}/shop.git`;
    const wrong = await token(server.host, { token: 'another secret' });
    const error = await client.head({ url, branch: 'main', credential: wrong }, signal()).catch((it: unknown) => it);
    expect(error).toMatchObject({
      code: 'repository_unreachable',
      message: expect.stringContaining('its host refuses the git credential'),
    });
    expect(JSON.stringify(error)).not.toContain('another secret');
    const none = client.head({ url, branch: 'main' }, signal());
    await expect(none).rejects.toMatchObject({ code: 'repository_unreachable' });
  });

  test.each([301, 302, 307, 308])('SEC-14 does not follow a redirect (%i) to another host', async (status) => {
    const seen: IncomingMessage['headers'][] = [];
    await using other = await gitHttpsServer(repositories, certificate, {
      username,
      password,
      asked: ({ headers }) => void seen.push(headers),
    });
    const { createServer } = await import('node:https');
    const [cert, key] = await Promise.all([readFile(certificate.cert), readFile(certificate.key)]);
    const first = createServer({ cert, key }, (request, response) => {
      response.writeHead(status, { location: `${other.url}${request.url}` }).end();
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => first.once('listening', resolve));
    const { port } = first.address() as { port: number };
    try {
      const credential = await token(`localhost:${port}`);
      const url = `https://localhost:${port}/shop`;
      await expect(client.head({ url, branch: 'main', credential }, signal())).rejects.toMatchObject({
        code: 'repository_unreachable',
      });
    } finally {
      first.closeAllConnections();
      first.close();
    }
    expect(seen).toEqual([]);
  });

  test('SEC-14 is sent to no other host, port and protocol', async () => {
    const seen: unknown[] = [];
    await using server = await gitHttpsServer(repositories, certificate, {
      username,
      password,
      asked: ({ url }) => void seen.push(url),
    });
    const url = `${server.url}/shop.git`;
    const others = ['localhost', 'localhost:1', `127.0.0.1:${new URL(url).port}`, `sub.${server.host}`];
    for (const host of others)
      await expect(client.head({ url, branch: 'main', credential: await token(host) }, signal())).rejects.toMatchObject(
        {
          code: 'invalid_source',
          message: expect.stringContaining('it is not sent to the host'),
        },
      );
    const open = git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true, folder: work });
    const plain = `http://${server.host}/shop.git`;
    await expect(
      open.head({ url: plain, branch: 'main', credential: await token(server.host) }, signal()),
    ).rejects.toMatchObject({ code: 'invalid_source', message: expect.stringContaining('is for https') });
    expect(seen).toEqual([]);
  });

  test('SEC-13 is not sent to a host whose certificate nobody trusts', async () => {
    const seen: unknown[] = [];
    await using server = await gitHttpsServer(repositories, certificate, {
      username,
      password,
      asked: ({ url }) => void seen.push(url),
    });
    const { ca_certificate: _, ...credential } = (await token(server.host)) as GitCredential & { type: 'token' };
    await expect(
      client.head({ url: `${server.url}/shop.git`, branch: 'main', credential }, signal()),
    ).rejects.toMatchObject({ code: 'repository_unreachable', message: expect.stringMatching(/certificate/i) });
    expect(seen).toEqual([]);
  });
});

describe('a deploy key', () => {
  let one: TestSshd;
  let two: TestSshd;
  beforeAll(async () => {
    [one, two] = await Promise.all([startSshd({ settings: ['AcceptEnv GIT_PROTOCOL'] }), startSshd()]);
  });
  afterAll(() => Promise.all([one[Symbol.asyncDispose](), two[Symbol.asyncDispose]()]));

  const keyFor = (at: TestSshd, changes: object = {}): GitCredential => ({
    type: 'ssh',
    host: `127.0.0.1:${at.port}`,
    private_key: at.privateKey,
    host_keys: [at.hostKey.split(' ').slice(0, 2).join(' ')],
    ...changes,
  });
  const urlAt = (at: TestSshd): string => `ssh://${at.username}@127.0.0.1:${at.port}${repositories.folder}/shop.git`;

  test('reads each of two hosts with the key for it, and leaves no file', async () => {
    for (const at of [one, two]) {
      const credential = keyFor(at);
      expect(await client.head({ url: urlAt(at), branch: 'main', credential }, signal())).toBe(head);
      await using folder = await work.make();
      const source = { url: urlAt(at), branch: 'main', credential, withinMs: 60_000 };
      expect((await client.checkout(source, folder.path, signal())).commit).toBe(head);
      expect(await readdir(folder.path)).toEqual(expect.arrayContaining(['git', 'tree']));
      expect(await readdir(workPath)).toHaveLength(1);
    }
    expect(await readdir(workPath)).toEqual([]);
  });

  test('that the host does not know is refused with what to do', async () => {
    const credential = keyFor(one, { private_key: two.privateKey });
    await expect(client.head({ url: urlAt(one), branch: 'main', credential }, signal())).rejects.toMatchObject({
      code: 'repository_unreachable',
      message: expect.stringContaining('its host refuses the git credential'),
    });
  });

  test('SEC-12 is not shown to a host with another key than the pinned ones', async () => {
    const credential = keyFor(one, { host_keys: [two.hostKey.split(' ').slice(0, 2).join(' ')] });
    await expect(client.head({ url: urlAt(one), branch: 'main', credential }, signal())).rejects.toMatchObject({
      code: 'repository_unreachable',
      retryable: false,
      message: expect.stringContaining('its host shows another key than those that the git credential has'),
    });
  });

  test('SEC-14 is used for no other host', async () => {
    await expect(
      client.head({ url: urlAt(two), branch: 'main', credential: keyFor(one) }, signal()),
    ).rejects.toMatchObject({ code: 'invalid_source' });
  });

  test('ignores the configuration of ssh that the operator gave for other repositories', async () => {
    const configured = git({
      clock: systemClock,
      protocols: [],
      fileRoots: [],
      loopback: true,
      folder: work,
      sshConfig: '/nonexistent',
    });
    expect(await configured.head({ url: urlAt(one), branch: 'main', credential: keyFor(one) }, signal())).toBe(head);
  });
});
