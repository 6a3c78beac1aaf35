import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { longTag } from '../layer-report.ts';
import { startEtcd } from './etcd.ts';
import type { EtcdServer } from './etcd.ts';
import { removeEverythingOf } from './engine.ts';
import { freePort, present, Program } from './program.ts';
import { TcpProxy } from './tcp-proxy.ts';
import { until } from './until.ts';

export interface InstallationOptions {
  store: 'sqlite' | 'etcd';
  replicas?: 1 | 2;
  /** Further flags of the control plane. */
  serverFlags?: readonly string[];
  agentFlags?: readonly string[];
  /** The agent reaches the first replica by a wire that the test can cut: {@link Installation.link}. */
  withLink?: boolean;
  /** Comes to the environment of all programs. */
  env?: Readonly<Record<string, string>>;
  /** Where the agent keeps its data; in the installation's own folder by default. */
  agentData?: string;
  /** The `setpoint` that all programs run at first; by default that of this checkout. */
  command?: string;
  /** The executable of a release, which runs as the agent instead. */
  agentExecutable?: string;
  /** The executable is installed in that folder, under its supervisor. */
  agentHome?: string;
}

/**
 * For an application whose test is not about releases: an instance takes the place of another one after a second in which
 * it was ready. By default that takes ten, as those of `describeApplications` and of `setpoint dev` show.
 */
export const brief = { min_healthy_seconds: 1 };

/** For what each store could do in its own way: on etcd, which takes longer, among the long tests. */
export const onBothStores: readonly { store: 'sqlite' | 'etcd'; tags: string[] }[] = [
  { store: 'sqlite', tags: [] },
  { store: 'etcd', tags: [longTag] },
];

/** The first user of every installation. */
export const owner = { email: 'owner@example.test', password: 'correct horse battery' };
/** Many tests ask at once: more often, their questions would take a core. */
const everyMs = 150;
const Login = z.object({ token: z.string() });

/** A whole Setpoint: control plane, store and an agent on the real engine, each a process of its own. */
export class Installation implements AsyncDisposable {
  readonly dir: string;
  readonly replicas: readonly { program: Program; url: string }[];
  readonly etcd: EtcdServer | undefined;
  agent!: Program;
  /** The wire between agent and control plane, if it was asked for. */
  link: TcpProxy | undefined;
  /** The first user, against the first replica. */
  client!: Client;
  project!: ApiObject;
  environment!: ApiObject;
  server!: ApiObject;
  readonly #agentFlags: readonly string[];
  readonly #withLink: boolean;
  readonly #env: Readonly<Record<string, string>>;
  readonly #agentData: string;
  readonly #command: string;
  readonly #agentExecutable: string | undefined;
  readonly #agentHome: string | undefined;

  private constructor(
    dir: string,
    replicas: readonly { program: Program; url: string }[],
    etcd: EtcdServer | undefined,
    options: InstallationOptions,
  ) {
    this.dir = dir;
    this.replicas = replicas;
    this.etcd = etcd;
    this.#agentFlags = options.agentFlags ?? [];
    this.#withLink = options.withLink ?? false;
    this.#env = options.env ?? {};
    this.#agentData = options.agentData ?? join(dir, 'agent');
    this.#command = options.command ?? present;
    this.#agentExecutable = options.agentExecutable;
    this.#agentHome = options.agentHome;
  }

  static async start(options: InstallationOptions): Promise<Installation> {
    const dir = await mkdtemp(join(tmpdir(), 'setpoint-e2e-'));
    const etcd = options.store === 'etcd' ? await startEtcd() : undefined;
    const data = join(dir, 'server');
    const replicas: { program: Program; url: string }[] = [];
    for (let i = 0; i < (options.replicas ?? 1); i++) {
      const port = await freePort();
      const store = etcd === undefined ? `sqlite:${join(data, 'store.db')}` : `etcd://${etcd.host}`;
      const flags = ['--listen', `127.0.0.1:${port}`, '--store', store, '--data', data, ...(options.serverFlags ?? [])];
      replicas.push({
        program: new Program(['server', ...flags], join(dir, `server-${i}.log`), options.env),
        url: `http://127.0.0.1:${port}`,
      });
    }
    await mkdir(data, { recursive: true });
    const installation = new Installation(dir, replicas, etcd, options);
    try {
      await installation.#bringUp();
    } catch (error) {
      const logs = await installation.logs();
      await installation[Symbol.asyncDispose]();
      throw new Error(`The installation did not start:\n${logs}`, { cause: error });
    }
    return installation;
  }

  async #bringUp(): Promise<void> {
    for (const { program } of this.replicas) {
      program.command = this.#command;
      program.start();
    }
    await Promise.all(this.replicas.map((_, index) => this.ready(index)));
    const url = this.url();
    const visitor = createClient({ server: url, tenant: 'default' });
    await visitor.request('POST', '/api/v1/auth/register', { ...owner, first_name: 'Olive', last_name: 'Owner' });
    const { token } = Login.parse(await visitor.request('POST', '/api/v1/auth/login', owner));
    this.client = createClient({ server: url, tenant: 'default', token });
    this.project = await this.client.object('POST', '/api/v1/projects', {
      name: `p-${randomBytes(3).toString('hex')}`,
    });
    const environments = await this.client.list(`/api/v1/projects/${this.project.id}/environments`);
    this.environment = environments[0]!;
    const created = await this.client.object('POST', '/api/v1/servers', { name: 'one' });
    this.server = await this.client.object('PUT', `/api/v1/servers/${created.id}`, { direct_ports_enabled: true });
    if (this.#withLink) this.link = await TcpProxy.start(Number(new URL(url).port));
    const direct = this.replicas.map((it) => `${it.url}/default`).join(',');
    const settings = {
      server: this.link === undefined ? direct : `http://${this.link.host}/default`,
      token: String(created['join_token']),
      data: this.#agentData,
      'git-protocols': 'http,file',
      'git-file-roots': tmpdir(),
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    const command = this.#agentExecutable === undefined ? ['agent'] : [];
    this.agent = new Program(
      this.#agentHome === undefined ? [...command, ...flags, '--git-loopback', ...this.#agentFlags] : [],
      join(this.dir, 'agent.log'),
      {
        // Earlier releases do not know this setting: they ignore a variable, but not a flag.
        SETPOINT_LOCAL_IMAGES: 'setpoint-test/*',
        // as its supervisor starts it
        ...(this.#agentExecutable !== undefined && { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '1048576' }),
        ...this.#env,
      },
    );
    this.agent.command = this.#agentExecutable ?? this.#command;
    if (this.#agentHome !== undefined) this.agent.command = await this.#install(this.#agentHome);
    // a supervisor passes no flags on
    this.agent.start(
      this.#agentHome === undefined
        ? {}
        : {
            SETPOINT_SERVER: settings.server,
            SETPOINT_JOIN_TOKEN: settings.token,
            SETPOINT_DATA: settings.data,
          },
    );
    await this.until('the server is active', async () => {
      const it = await this.client.object('GET', `/api/v1/servers/${created.id}`);
      return it.status === 'active' ? it : undefined;
    });
  }

  /** Answers with the path of the supervisor. */
  async #install(home: string): Promise<string> {
    const folder = join(home, 'versions/1');
    await mkdir(folder, { recursive: true });
    await copyFile(this.#agentExecutable!, join(folder, 'setpoint-agent'), constants.COPYFILE_FICLONE);
    await writeFile(join(home, 'current'), '1\n');
    await copyFile(new URL('../../manifests/install/agent/supervise.sh', import.meta.url), join(home, 'supervise'));
    await chmod(join(home, 'supervise'), 0o755);
    return join(home, 'supervise');
  }

  url(index = 0): string {
    return this.replicas[index]!.url;
  }

  /** The same user, against another replica. */
  clientAt(index: number): Client {
    return createClient({ ...this.client.connection, server: this.url(index) });
  }

  /** The index of the replica that the agent is connected to. @throws Error if it is connected to none */
  async replicaOfAgent(): Promise<number> {
    for (const [index, { url }] of this.replicas.entries()) {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      if (/^setpoint_agents_connected 1$/m.test(metrics)) return index;
    }
    throw new Error('The agent is connected to no replica');
  }

  ready(index = 0): Promise<void> {
    return this.replicas[index]!.program.ready(this.url(index));
  }

  /** Creates an application of an image or a git source in the installation's project. */
  createApplication(fields: Record<string, unknown>): Promise<ApiObject> {
    return this.client.object('POST', '/api/v1/applications', {
      project_id: this.project.id,
      environment_id: this.environment.id,
      server_id: this.server.id,
      name: `app-${randomBytes(3).toString('hex')}`,
      ...fields,
    });
  }

  application(id: string): Promise<ApiObject> {
    return this.client.object('GET', `/api/v1/applications/${id}`);
  }

  /** Deploys an application that does not run: a long test begins with it also where the tests before it did not run. */
  async ensureDeployed(id: string): Promise<void> {
    const { status } = await this.application(id);
    if (status !== 'running') await this.deployment((await this.deploy(id)).id, 'succeeded', 120_000);
  }

  deploy(id: string): Promise<ApiObject> {
    return this.client.object('POST', `/api/v1/applications/${id}/deploy`, {});
  }

  /** The deployment once it has that status. */
  deployment(id: string, status: string, timeoutMs = 60_000): Promise<ApiObject> {
    return this.until(
      `deployment is ${status}`,
      async () => {
        const it = await this.client.object('GET', `/api/v1/deployments/${id}`);
        if (it.status === status) return it;
        if (['succeeded', 'failed', 'cancelled', 'superseded'].includes(it.status ?? ''))
          throw new Error(`It is ${it.status}: ${JSON.stringify(it['error'])}`);
        return undefined;
      },
      timeoutMs,
    );
  }

  until<T>(what: string, probe: () => Promise<T | undefined | false>, timeoutMs = 30_000): Promise<T> {
    return until(what, probe, { timeoutMs, everyMs, explain: () => this.logs() });
  }

  /** The last lines of every process, for the message of a failure. */
  async logs(): Promise<string> {
    const programs = [...this.replicas.map((it) => it.program), ...(this.agent === undefined ? [] : [this.agent])];
    const texts = await Promise.all(programs.map((it) => it.lastOutput()));
    return texts.join('\n---\n');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // a supervisor ends its agent
    await this.agent?.kill(this.#agentHome === undefined ? 'SIGKILL' : 'SIGTERM');
    await Promise.all(this.replicas.map((it) => it.program.kill()));
    await this.link?.[Symbol.asyncDispose]();
    await this.etcd?.[Symbol.asyncDispose]();
    if (this.server !== undefined) await removeEverythingOf(this.server.id);
    await rm(this.dir, { recursive: true, force: true });
  }
}
