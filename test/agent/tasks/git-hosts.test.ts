import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { networks } from '../../../network/address.ts';
import { git, type Git } from '../../../agent/tasks/git.ts';
import { gitHostAddresses } from '../../../agent/tasks/git-host.ts';
import { gitUrl } from '../../../agent/tasks/git-source.ts';
import { gitVersion, parseGitVersion, pinsAddresses, type ReadGitVersion } from '../../../agent/tasks/git-version.ts';
import { sshPin, sshVariables } from '../../../agent/tasks/git-ssh.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { gitHttpServer, gitSshServer, testRepositories, type TestRepositories } from '../../harness/git-server.ts';

const exec = promisify(execFile);
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

let repositories: TestRepositories;
let work: WorkFolder;
let client: Git;

beforeAll(async () => {
  repositories = await testRepositories();
  work = await openWorkFolder(join(repositories.folder, 'work'));
  client = git({ clock: systemClock, protocols: ['http', 'file'], fileRoots: [repositories.folder], loopback: true });
});
afterAll(() => repositories[Symbol.asyncDispose]());

/** A server on loopback and the paths that it was asked for. */
async function server(
  answer: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>,
): Promise<{ url: string; asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const started: Server = createServer((request, response) => {
    asked.push(request.url ?? '');
    Promise.resolve(answer(request, response)).catch((error: unknown) => response.destroy(error as Error));
  }).listen(0, '127.0.0.1');
  await once(started, 'listening');
  return {
    url: `http://127.0.0.1:${(started.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      started.closeAllConnections();
      started.close();
      await once(started, 'close');
    },
  };
}

test('SEC-10 a host that sends elsewhere is not followed', async () => {
  const shop = await repositories.create('redirected');
  await shop.commit({ a: 'a' });
  await using real = await gitHttpServer(repositories);
  await using inner = await server(
    (request, response) => void response.writeHead(302, { location: `${real.url}${request.url}` }).end(),
  );
  for (const status of [301, 302, 307, 308]) {
    await using outer = await server((request, response) => {
      response.writeHead(status, { location: `${inner.url}${request.url}` }).end();
    });
    await expect(client.head({ url: `${outer.url}/redirected.git`, branch: 'main' }, signal())).rejects.toMatchObject({
      code: 'repository_unreachable',
    });
    expect(outer.asked.length).toBeGreaterThan(0);
  }
  expect(inner.asked).toEqual([]);
});

test('SEC-10 what a host left out is not fetched afterwards, unseen', async () => {
  const made = await repositories.create('promised');
  for (const setting of ['uploadpack.allowFilter', 'uploadpack.allowAnySHA1InWant'])
    await exec('git', ['-C', made.path, 'config', setting, 'true']);
  const since = await made.commit({ 'a/one': '1' });
  const commit = await made.commit({ 'a/one': '2' });
  await using real = await gitHttpServer(repositories);
  let left = 0;
  await using hostile = await server(async (request, response) => {
    const given = await buffer(request);
    const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(given) : given;
    // Commits without their trees: the client did not ask for that.
    const text = body.toString('latin1').replace(/([0-9a-f]{4})filter blob:none/, (_all, length: string) => {
      left += 1;
      return `${(Number.parseInt(length, 16) - 3).toString(16).padStart(4, '0')}filter tree:0`;
    });
    const { 'content-encoding': _encoding, 'content-length': _length, host: _host, ...headers } = request.headers;
    const answer = await fetch(`${real.url}${request.url}`, {
      method: request.method ?? 'GET',
      headers: headers as Record<string, string>,
      ...(request.method === 'POST' && { body: Buffer.from(text, 'latin1') }),
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  await using folder = await work.make();
  const url = `${hostile.url}/promised.git`;
  expect(await client.changes({ url, commit }, since, folder.path, signal())).toBeUndefined();
  expect(left).toBe(1);
  const store = join(folder.path, 'git');
  const objects = await exec('git', [
    `--git-dir=${store}`,
    'cat-file',
    '--batch-all-objects',
    '--batch-check=%(objecttype)',
  ]);
  expect(objects.stdout.trim().split('\n')).toEqual(['commit', 'commit']);
});

test('SEC-15 a folder whose name begins with that of an allowed one is not allowed', async () => {
  const shop = await repositories.create('beside');
  await shop.commit({ a: 'a' });
  const narrow = git({
    clock: systemClock,
    protocols: ['file'],
    fileRoots: [shop.path.slice(0, -1), join(dirname(shop.path), 'bes')],
    loopback: true,
  });
  await expect(narrow.head({ url: shop.fileUrl, branch: 'main' }, signal())).rejects.toMatchObject({
    code: 'invalid_source',
  });
});

test('SEC-02 the first line of a commit has no character that steers or hides text', async () => {
  const hostile = await repositories.create('terminal');
  await hostile.commit({ a: 'a' }, { message: 'probe \u001b]0;owned\u0007\u001b[31mred \u202eleft' });
  await using folder = await work.make();
  const source = { url: hostile.fileUrl, branch: 'main', withinMs: 60_000 };
  const { message } = await client.checkout(source, folder.path, signal());
  expect(message).toBe('probe \uFFFD]0;owned\uFFFD\uFFFD[31mred \uFFFDleft');
});

describe('SEC-10 a host in a private network', () => {
  const allowed = networks(['10.1.0.0/16']);

  test.each(['10.2.0.1', '192.168.1.1', '172.16.0.1', '100.64.0.1', '[fd00::1]', '[64:ff9b::a00:1]'])(
    'is refused: %s',
    async (host) => {
      await expect(gitHostAddresses(host, allowed, signal())).rejects.toMatchObject({
        code: 'invalid_source',
        message: expect.stringContaining('--git-private-networks'),
      });
    },
  );

  test('is allowed where the operator names its network', async () => {
    expect(await gitHostAddresses('10.1.2.3', allowed, signal())).toEqual(['10.1.2.3']);
  });

  test.each(['127.0.0.1', '169.254.169.254', '[fd00:ec2::254]', '[64:ff9b::a9fe:a9fe]'])(
    'is not this machine, whatever the operator names: %s',
    async (host) => {
      await expect(gitHostAddresses(host, () => true, signal())).rejects.toMatchObject({ code: 'invalid_source' });
    },
  );
});

describe('SEC-10 a git that would ignore the address that was judged', () => {
  const reading =
    (text: string | undefined): ReadGitVersion =>
    async () =>
      text === undefined ? undefined : parseGitVersion(`git version ${text}\n`);
  const open = (version: ReadGitVersion, loopback = false): Git =>
    git({ clock: systemClock, protocols: [], fileRoots: [], loopback, privateNetworks: ['10.0.0.0/8'], version });
  const source = { url: 'https://10.1.2.3/shop.git', branch: 'main' };

  test.each(['2.34.1', '2.36.6', '1.9.0', undefined])('reads nothing by https: %s', async (text) => {
    await expect(open(reading(text)).head(source, signal())).rejects.toMatchObject({
      code: 'repository_unreachable',
      retryable: false,
      message: expect.stringContaining('install git 2.37 or later'),
    });
  });

  test.each(['2.37.0', '2.39.2 (Apple Git-143)', '2.100.1', '3.0.0-rc1'])('is none of %s', async (text) => {
    const version = await reading(text)(signal());
    expect(version !== undefined && pinsAddresses(version)).toBe(true);
  });

  test('is not asked where every address is allowed', async () => {
    const asked = vi.fn<ReadGitVersion>();
    const url = 'https://127.0.0.1:1/shop.git';
    await expect(open(asked, true).head({ ...source, url }, signal())).rejects.toMatchObject({ retryable: true });
    expect(asked).not.toHaveBeenCalled();
  });

  test('is told by its version', async () => {
    const { stdout } = await exec('git', ['--version']);
    expect(await gitVersion(signal())).toMatchObject({ text: stdout.trim().split(' ')[2] });
  });
});

describe('SEC-14 ssh', () => {
  /** What ssh would do for a host, as git starts it. */
  async function settings(variables: Record<string, string>, ...args: string[]): Promise<string[]> {
    const env = { ...variables, PATH: process.env['PATH'] };
    const { stdout } = await exec('sh', ['-c', `${variables['GIT_SSH_COMMAND'] ?? ''} "$@"`, 'ssh', '-G', ...args], {
      env,
    });
    return stdout.split('\n');
  }

  test('has no key and no known host of the user without a configuration', async () => {
    const settingLines = await settings(sshVariables(undefined, undefined), 'git.test');
    expect(settingLines.filter((line) => line.startsWith('identityfile'))).toEqual(['identityfile none']);
    expect(settingLines).toContain('identitiesonly yes');
    expect(settingLines).toContain('identityagent none');
    expect(settingLines).toContain('userknownhostsfile /dev/null');
    expect(settingLines.join('\n')).not.toContain(join(homedir(), '.ssh/id'));
  });

  test('has the keys of its configuration alone', async () => {
    const config = join(repositories.folder, 'ssh_config');
    await writeFile(config, 'Host git.test\n  IdentityFile /keys/git\n  UserKnownHostsFile /keys/known\n');
    const settingLines = await settings(sshVariables(config, undefined), 'git.test');
    expect(settingLines.filter((line) => line.startsWith('identityfile'))).toEqual([
      'identityfile none',
      'identityfile /keys/git',
    ]);
    expect(settingLines).toContain('userknownhostsfile /keys/known');
    const other = await settings(sshVariables(config, undefined), 'other.test');
    expect(other.filter((line) => line.startsWith('identityfile'))).toEqual(['identityfile none']);
  });

  test('goes to the address that was judged, and knows the host by its name', async () => {
    await using ssh = await gitSshServer(repositories);
    const { port } = new URL(ssh.url);
    const source = gitUrl(`ssh://${userInfo().username}@git.test:${port}/shop.git`, new Set(['ssh']));
    const pin = await sshPin(source, '127.0.0.1', ssh.config, signal());
    expect(pin).toEqual({ address: '127.0.0.1', alias: `[git.test]:${port}` });
    const variables = sshVariables(ssh.config, pin);
    const env = { ...variables, PATH: process.env['PATH'] };
    const command = [
      `${variables['GIT_SSH_COMMAND'] ?? ''} "$@"`,
      'ssh',
      '-p',
      port,
      `${userInfo().username}@git.test`,
      'echo',
      'reached',
    ];
    expect((await exec('sh', ['-c', ...command], { env })).stdout).toBe('reached\n');
    const known = await readFile(join(dirname(ssh.config), 'known_hosts'), 'utf8');
    expect(known).toContain(`[git.test]:${port} `);
  });

  test('is left to its configuration where that leads a host elsewhere', async () => {
    const config = join(repositories.folder, 'ssh_config_elsewhere');
    await writeFile(
      config,
      'Host git.test\n  HostName ssh.git.test\nHost far.test\n  ProxyJump gate.test\nHost *.test\n  Port 2200\n',
    );
    const pinOf = (host: string) =>
      sshPin(gitUrl(`git@${host}:shop.git`, new Set(['ssh'])), '198.51.100.1', config, signal());
    expect(await pinOf('git.test')).toBeUndefined();
    expect(await pinOf('far.test')).toBeUndefined();
    expect(await pinOf('near.test')).toEqual({ address: '198.51.100.1', alias: '[near.test]:2200' });
    const plain = gitUrl('git@near.test:shop.git', new Set(['ssh']));
    expect(await sshPin(plain, '198.51.100.1', undefined, signal())).toEqual({
      address: '198.51.100.1',
      alias: 'near.test',
    });
  });
});
