import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createSocketServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { Certificate } from './certificates.ts';
import { startSshd } from './sshd.ts';

const exec = promisify(execFile);

/** What a commit consists of: text, an executable, a symbolic link to somewhere, or the commit of another repository. */
export type GitFiles = Readonly<
  Record<string, string | { executable: string } | { link: string } | { submodule: string }>
>;

export interface TestRepository {
  /** Of the bare repository. */
  path: string;
  /** Address without transport: by its folder. */
  fileUrl: string;
  /** Replaces all files of the branch by these; answers with the commit's id. */
  commit(files: GitFiles, options?: { branch?: string; message?: string }): Promise<string>;
  /** Lets a tag lead to a commit, also one that is there; with a message if that is given. */
  tag(name: string, commit: string, message?: string): Promise<void>;
  untag(name: string): Promise<void>;
  /** Adds a commit of the same files that follows the head of `main`; answers with its id. */
  grow(): Promise<string>;
}

/** A folder of real repositories. */
export interface TestRepositories extends AsyncDisposable {
  folder: string;
  create(name: string): Promise<TestRepository>;
}

const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid', '-c', 'commit.gpgsign=false'];

export async function testRepositories(): Promise<TestRepositories> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-git-'));
  return {
    folder,
    async create(name) {
      const path = join(folder, `${name}.git`);
      await exec('git', ['init', '--quiet', '--bare', '--initial-branch=main', path]);
      return {
        path,
        fileUrl: `file://${path}`,
        commit: (files, options) => commit(path, files, options),
        grow: () => grow(path),
        tag: async (name, it, message) => {
          const kind = message === undefined ? [] : ['--annotate', '--message', message];
          await exec('git', [...identity, '-C', path, 'tag', '--force', ...kind, name, it]);
        },
        untag: async (name) => void (await exec('git', ['-C', path, 'tag', '--delete', name])),
      };
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

async function grow(repository: string): Promise<string> {
  const git = async (...args: string[]): Promise<string> =>
    (await exec('git', [...identity, '-C', repository, ...args])).stdout.trim();
  const head = await git('commit-tree', 'main^{tree}', '-p', 'main', '-m', 'More');
  await git('update-ref', 'refs/heads/main', head);
  return head;
}

async function commit(
  repository: string,
  files: GitFiles,
  { branch = 'main', message = 'Change' }: { branch?: string; message?: string } = {},
): Promise<string> {
  const tree = await mkdtemp(join(tmpdir(), 'setpoint-git-tree-'));
  const git = async (...args: string[]): Promise<string> =>
    (await exec('git', [...identity, '-C', tree, ...args])).stdout.trim();
  try {
    await git('init', '--quiet', `--initial-branch=${branch}`);
    const submodules: string[] = [];
    for (const [name, content] of Object.entries(files)) {
      const path = join(tree, name);
      await mkdir(dirname(path), { recursive: true });
      if (typeof content === 'string') await writeFile(path, content);
      else if ('link' in content) await symlink(content.link, path);
      else if ('submodule' in content) submodules.push(`160000,${content.submodule},${name}`);
      else {
        await writeFile(path, content.executable);
        await chmod(path, 0o755);
      }
    }
    await git('add', '--all', '--force');
    for (const one of submodules) await git('update-index', '--add', '--cacheinfo', one);
    await git('commit', '--quiet', '--allow-empty', '-m', message);
    await git('push', '--quiet', '--force', repository, `HEAD:refs/heads/${branch}`);
    return await git('rev-parse', 'HEAD');
  } finally {
    await rm(tree, { recursive: true });
  }
}

export interface TestGitServer extends AsyncDisposable {
  /** Address of the folder; a repository is `<url>/<name>.git`. */
  url: string;
}

/**
 * Serves the repositories by git's own smart HTTP; without `.git` at the end it sends to the address with it. Answers
 * 403 to a request whose body is refused.
 */
export async function gitHttpServer(
  { folder }: TestRepositories,
  refuses: (body: string) => boolean = () => false,
): Promise<TestGitServer> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const bare = /^\/([^/.]+)\/(.*)$/.exec(url.pathname);
    if (bare) return void response.writeHead(301, { location: `/${bare[1]}.git/${bare[2]}${url.search}` }).end();
    const body = await buffer(request);
    const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
    if (refuses(text.toString())) return void response.writeHead(403).end();
    backend(folder, url, request, body, response);
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Serves the repositories by https at `https://localhost:PORT/NAME.git` to who has the user name and the password.
 * `asked` is called with each request.
 */
export async function gitHttpsServer(
  { folder }: TestRepositories,
  certificate: Certificate,
  { username, password, asked }: { username: string; password: string; asked?: (request: IncomingMessage) => void },
): Promise<TestGitServer & { host: string }> {
  const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    asked?.(request);
    const body = await buffer(request);
    if (request.headers.authorization !== wanted)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
    backend(folder, new URL(request.url ?? '/', 'http://localhost'), request, body, response);
  };
  const [cert, key] = await Promise.all([readFile(certificate.cert), readFile(certificate.key)]);
  const server = createTlsServer({ cert, key }, (request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `localhost:${(server.address() as AddressInfo).port}`;
  return {
    host,
    url: `https://${host}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** One request by CGI. */
function backend(folder: string, url: URL, request: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(body);
  let head = Buffer.alloc(0);
  child.stdout.on('data', (chunk: Buffer) => {
    if (response.headersSent) {
      if (!response.write(chunk)) child.stdout.pause();
      return undefined;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end === -1) return undefined;
    const headers = head
      .toString('latin1', 0, end)
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string]);
    const status = Number(headers.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200);
    response.writeHead(status, headers.filter(([name]) => name !== 'Status').flat());
    return void response.write(head.subarray(end + 4));
  });
  response.on('drain', () => child.stdout.resume());
  response.on('close', () => child.kill());
  child.stdout.on('end', () => response.end());
}

/** Repositories by HTTP, for tests that go in by the API. */
export interface GitServer extends TestGitServer {
  /** A new repository with one commit on `main`; `head` is its id. */
  repository(
    files: GitFiles,
    options?: { symlinks?: Readonly<Record<string, string>> },
  ): Promise<{ url: string; head: string; commit: TestRepository['commit'] }>;
  /** A server that accepts connections and never sends anything; it ends with this one. */
  hanging(): Promise<{ url: string }>;
}

export async function startGitServer(): Promise<GitServer> {
  await using started = new AsyncDisposableStack();
  const repositories = started.use(await testRepositories());
  const { url } = started.use(await gitHttpServer(repositories));
  const all = started.move();
  return {
    url,
    async repository(files, { symlinks = {} } = {}) {
      const name = randomUUID();
      const made = await repositories.create(name);
      const links = Object.entries(symlinks).map(([path, link]) => [path, { link }] as const);
      const head = await made.commit({ ...files, ...Object.fromEntries(links) });
      return { url: `${url}/${name}.git`, head, commit: (changed, options) => made.commit(changed, options) };
    },
    hanging: async () => all.use(await hangingServer()),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Accepts connections and never sends anything. */
export async function hangingServer(): Promise<TestGitServer & { connected: Promise<void> }> {
  const sockets = new Set<Socket>();
  const connected = Promise.withResolvers<void>();
  const server = createSocketServer((socket) => {
    sockets.add(socket.resume());
    socket.on('error', () => undefined);
    connected.resolve();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connected: connected.promise,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The repositories by the real sshd; `config` is a configuration of ssh for it. */
export async function gitSshServer({ folder }: TestRepositories): Promise<TestGitServer & { config: string }> {
  const sshd = await startSshd({ settings: ['AcceptEnv GIT_PROTOCOL'] });
  const home = dirname(sshd.keyFile);
  const config = [
    `IdentityFile ${sshd.keyFile}`,
    'IdentitiesOnly yes',
    `UserKnownHostsFile ${join(home, 'known_hosts')}`,
    'GlobalKnownHostsFile /dev/null',
    'StrictHostKeyChecking accept-new',
  ];
  await writeFile(join(home, 'config'), `${config.join('\n')}\n`);
  return {
    url: `ssh://${sshd.username}@127.0.0.1:${sshd.port}${folder}`,
    config: join(home, 'config'),
    [Symbol.asyncDispose]: () => sshd[Symbol.asyncDispose](),
  };
}
