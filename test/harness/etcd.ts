import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Certificate } from './certificates.ts';
import { memoryFolder } from './memory-folder.ts';
import { freePort } from './program.ts';

const run = promisify(execFile);
const startMs = 20_000;

interface MemberOptions {
  name: string;
  folder: string;
  clientPort: number;
  peerPort: number;
  initialCluster: string;
  flags: readonly string[];
  /** Clients are served over TLS and must prove themselves; health is served in the clear at `healthPort`. */
  tls?: { server: Certificate; client: Certificate; healthPort: number };
}

/** One real etcd on loopback, with its data in a folder of its own. */
export class EtcdServer implements AsyncDisposable {
  readonly #options: MemberOptions;
  #data: string;
  #child: ChildProcess | undefined;
  #failure: Error | undefined;
  #files = 0;
  readonly #killAtExit = (): void => void this.#child?.kill('SIGKILL');

  constructor(options: MemberOptions) {
    this.#options = options;
    this.#data = join(options.folder, 'data');
  }

  get port(): number {
    return this.#options.clientPort;
  }

  /** As a store wants it: `HOST:PORT`. */
  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Starts the process; {@link ready} tells when it serves. */
  launch(): void {
    const { name, clientPort, peerPort, initialCluster, flags, tls } = this.#options;
    const client = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${clientPort}`;
    const peer = `http://127.0.0.1:${peerPort}`;
    const options = {
      name,
      'data-dir': this.#data,
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'listen-peer-urls': peer,
      'initial-advertise-peer-urls': peer,
      'initial-cluster': initialCluster,
      'heartbeat-interval': 50,
      'election-timeout': 500,
      logger: 'zap',
      'log-level': 'error',
      'log-outputs': 'stderr',
      ...(tls !== undefined && {
        'trusted-ca-file': tls.server.ca,
        'cert-file': tls.server.cert,
        'key-file': tls.server.key,
        'client-cert-auth': 'true',
        'listen-metrics-urls': `http://127.0.0.1:${tls.healthPort}`,
      }),
    };
    const args = Object.entries(options).map(([option, value]) => `--${option}=${value}`);
    const child = spawn('etcd', [...args, ...flags], { stdio: 'ignore' });
    this.#child = child;
    // A missing program fails the test that waits for it.
    child.once('error', (error) => (this.#failure = error));
    process.once('exit', this.#killAtExit);
  }

  /** Resolves once the cluster has a leader and this member answers. */
  async ready(): Promise<void> {
    const deadline = performance.now() + startMs;
    for (;;) {
      if (this.#failure !== undefined) throw new Error('Cannot start etcd', { cause: this.#failure });
      if (this.#child?.exitCode !== null) throw new Error(`etcd ended with code ${this.#child?.exitCode}`);
      if (await isHealthy(this.#options.tls?.healthPort ?? this.port)) return;
      if (performance.now() > deadline) throw new Error(`etcd did not serve within ${startMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** As a power cut would: no handler runs. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
    process.off('exit', this.#killAtExit);
  }

  async restart(): Promise<void> {
    await this.kill();
    this.launch();
    await this.ready();
  }

  /** Stops the process without ending its connections; resolves once none of its threads runs. */
  async freeze(): Promise<void> {
    this.#child?.kill('SIGSTOP');
    const tasks = `/proc/${this.#child?.pid}/task`;
    const isStopped = async (id: string): Promise<boolean> =>
      / [Tt] /.test((await readFile(`${tasks}/${id}/stat`, 'utf8')).replace(/\(.*\)/, ''));
    while (!(await Promise.all((await readdir(tasks)).map(isStopped))).every(Boolean)) continue;
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  async snapshot(): Promise<string> {
    const file = join(this.#options.folder, `snapshot-${++this.#files}.db`);
    await this.etcdctl('snapshot', 'save', file);
    return file;
  }

  /** Starts again with the data of a snapshot; `token` makes another cluster id unless it is the same as before. */
  async restore(snapshot: string, token = 'etcd-cluster'): Promise<void> {
    await this.kill();
    this.#data = join(this.#options.folder, `data-${++this.#files}`);
    const { name, peerPort, initialCluster } = this.#options;
    const peer = `http://127.0.0.1:${peerPort}`;
    const target = ['--name', name, '--data-dir', this.#data, '--initial-cluster', initialCluster];
    const cluster = ['--initial-advertise-peer-urls', peer, '--initial-cluster-token', token];
    await this.etcdctl('snapshot', 'restore', snapshot, ...target, ...cluster);
    this.launch();
    await this.ready();
  }

  /** Removes all keys. */
  async clear(): Promise<void> {
    await this.etcdctl('del', '', '--prefix');
  }

  /** Runs the program on this member. @returns what it prints. */
  async etcdctl(...args: string[]): Promise<string> {
    const { tls } = this.#options;
    const proof =
      tls === undefined ? [] : ['--cacert', tls.client.ca, '--cert', tls.client.cert, '--key', tls.client.key];
    const endpoint = tls === undefined ? this.host : `localhost:${this.port}`;
    const { stdout } = await run('etcdctl', ['--endpoints', endpoint, ...proof, ...args], {
      env: { ...process.env, ETCDCTL_API: '3' },
    });
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#options.folder, { recursive: true, force: true });
  }
}

/** A cluster of one. `flags` are those of the etcd program. `onDisk`: it syncs to a disk, as where it serves. */
export async function startEtcd(flags: readonly string[] = [], { onDisk = false } = {}): Promise<EtcdServer> {
  const [server] = await startEtcdCluster(1, flags, { onDisk });
  if (server === undefined) throw new Error('A cluster has at least one member');
  return server;
}

/** A cluster of one that talks to clients of the authority of these certificates alone. */
export async function startEtcdWithTls(tls: { server: Certificate; client: Certificate }): Promise<EtcdServer> {
  const [clientPort, peerPort, healthPort] = await Promise.all([freePort(), freePort(), freePort()]);
  const folder = await memoryFolder('setpoint-etcd-');
  const initialCluster = `m0=http://127.0.0.1:${peerPort}`;
  const options = { name: 'm0', folder, clientPort, peerPort, initialCluster, flags: [], tls: { ...tls, healthPort } };
  const server = new EtcdServer(options);
  server.launch();
  try {
    await server.ready();
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
  return server;
}

/** A cluster of `size` members on loopback. Dispose of each. */
export async function startEtcdCluster(
  size: number,
  flags: readonly string[] = [],
  { onDisk = false } = {},
): Promise<EtcdServer[]> {
  const ports = await Promise.all(Array.from({ length: 2 * size }, freePort));
  const names = Array.from({ length: size }, (_, n) => `m${n}`);
  const initialCluster = names.map((name, n) => `${name}=http://127.0.0.1:${ports[size + n]}`).join(',');
  const servers: EtcdServer[] = [];
  for (const [n, name] of names.entries()) {
    const folder = await (onDisk ? mkdtemp(join(tmpdir(), 'setpoint-etcd-')) : memoryFolder('setpoint-etcd-'));
    const [clientPort, peerPort] = [ports[n]!, ports[size + n]!];
    servers.push(new EtcdServer({ name, folder, clientPort, peerPort, initialCluster, flags }));
  }
  for (const server of servers) server.launch();
  try {
    await Promise.all(servers.map((server) => server.ready()));
  } catch (error) {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    throw error;
  }
  return servers;
}

async function isHealthy(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(1000) });
    return ((await answer.json()) as { health?: string }).health === 'true';
  } catch {
    return false;
  }
}
