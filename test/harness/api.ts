import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogChunk } from '../../agent-protocol/logs.ts';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import type { TrafficSample } from '../../agent-protocol/traffic.ts';
import type {
  CallParams,
  ImportStreamParams,
  LogStreamParams,
  TerminalParams,
  TunnelParams,
} from '../../agent-protocol/messages.ts';
import type { Agents } from '../../api/ground/agents.ts';
import { ApiConfig } from '../../api/ground/config.ts';
import { systemRandom } from '../../api/ground/random.ts';
import type { Mail, Mailer } from '../../api/ground/mailer.ts';
import type { ProbeBucket, SearchBucket } from '../../api/ground/bucket-probe.ts';
import type { LogIn } from '../../api/ground/registry-login.ts';
import { createApi } from '../../api/server.ts';
import type { Api } from '../../api/server.ts';
import type { Clock } from '../../time/clock.ts';
import { systemClock } from '../../time/clock.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { Mirror } from '../../store/mirror.ts';
import { otherLeader } from '../../store/replicas.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { ConditionInput, Resource } from '../../store/resource.ts';
import { openKeyring } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import { commit } from '../../store/unit.ts';
import { emptyStore } from './api-store.ts';
import { desiredState } from './states.ts';

/** An answer as it came: what a test looks at. */
export interface Answer {
  status: number;
  headers: Headers;
  /** The parsed body; `undefined` without one. */
  body: {
    success: boolean;
    data: never;
    meta?: { next_cursor: string | null; limit: number; total: number };
    error?: { code: string; message: string; details?: { field: string; reason: string }[]; request_id: string };
  };
  /** `body.data`, whose form the test knows. */
  data: ReturnType<typeof JSON.parse>;
}

export interface Client {
  token: string | undefined;
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  put(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  patch(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  delete(path: string, headers?: Record<string, string>): Promise<Answer>;
}

/** Agents whose answers the test sets; away until then. */
export interface ScriptedAgents extends Agents {
  answer: ((server: string, params: CallParams) => unknown) | undefined;
  sample: ((server: string, signal: AbortSignal) => AsyncIterable<ServerSample>) | undefined;
  /** Traffic of a workload. */
  window: ((server: string, workload: string, signal: AbortSignal) => AsyncIterable<TrafficSample>) | undefined;
  /** Round trips in milliseconds, by server. */
  measured: Map<string, number>;
  follow: ((server: string, params: LogStreamParams, signal: AbortSignal) => AsyncIterable<LogChunk>) | undefined;
  exec:
    | ((
        server: string,
        params: TerminalParams,
        incoming: AsyncIterable<Uint8Array>,
        signal: AbortSignal,
      ) => AsyncIterable<Uint8Array>)
    | undefined;
  /** Takes a dump in that a client sends. */
  uploaded:
    | ((
        params: ImportStreamParams,
        incoming: AsyncIterable<Uint8Array>,
        signal: AbortSignal,
      ) => AsyncIterable<Uint8Array>)
    | undefined;
  tunnel:
    | ((params: TunnelParams, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<Uint8Array>)
    | undefined;
}

export interface ApiWorld extends AsyncDisposable {
  url: string;
  store: Store;
  mirror: Mirror;
  repo: Repository;
  registry: Registry;
  keyring: Awaited<ReturnType<typeof openKeyring>>;
  clock: Clock;
  agents: ScriptedAgents;
  applyCommit: Api['applyCommit'];
  /** What was sent, oldest first. */
  mails: Mail[];
  /** Lines that were logged at error or above; a test that ends with one unlooked at has missed a bug. */
  faults: string[];
  /** All lines that were logged, at `logLevel` or above. */
  logged: string[];
  /** What the first user of a tenant must present. */
  setupToken(tenant: string): string | undefined;
  /** Resolves when the mirror shows what is committed. */
  settled(): Promise<void>;
  /** Starts another replica over the same store; answers with its address. */
  replica(): Promise<string>;
  /** A client of the default tenant, or of another. */
  client(token?: string, tenant?: string): Client;
  /** Registers the first user and is it. */
  owner(): Promise<Client>;
  /** Puts a user into the store and logs it in. */
  user(role?: 'superadmin' | 'admin' | 'user', email?: string): Promise<Client & { id: string }>;
  /** A project with its environment and a server to run on. */
  place(client: Client): Promise<{ project: string; environment: string; server: string }>;
  /** Writes what a controller would have observed. */
  observe<K extends KindName>(
    kind: K,
    id: string,
    observed: ObservedOf<K>,
    conditions?: ConditionInput[],
  ): Promise<void>;
  /** Creates an object as a controller would. */
  create<K extends KindName>(kind: K, id: string, desired: DesiredOf<K>): Promise<Resource<K>>;
}

export const password = 'correct horse battery';

/** The interface over an empty store, reached by HTTP. */
export async function startApi(
  options: {
    clock?: Clock;
    config?: Partial<ApiConfig>;
    freeze?: boolean;
    logLevel?: 'error' | 'trace';
    mailer?: Mailer;
    registryLogin?: LogIn;
    probeBucket?: ProbeBucket;
    searchBucket?: SearchBucket;
    wrap?: (store: Store) => Store;
  } = {},
): Promise<ApiWorld> {
  const clock = options.clock ?? systemClock;
  await using starting = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-api-'));
  starting.defer(() => rm(dir, { recursive: true, force: true }));
  const faults: string[] = [];
  const logged: string[] = [];
  const write = (line: string): void => {
    logged.push(line);
    if (JSON.parse(line).level >= pino.levels.values['error']!) faults.push(line);
  };
  const log = pino({ level: options.logLevel ?? 'error' }, { write });
  const inner = starting.use(await emptyStore(clock));
  const store = options.wrap?.(inner) ?? inner;
  const keyring = await openKeyring({ path: join(dir, 'keys.json'), store });
  const repo = openRepository(store, 'default', clock);
  const agents = scriptedAgents();
  const mails: Mail[] = [];
  const outbox: Mailer = { send: async (mail) => void mails.push(mail) };
  const serve = async (
    stack: AsyncDisposableStack,
  ): Promise<{ url: string; mirror: Mirror; registry: Registry; api: Api }> => {
    const mirror = stack.use(startMirror({ store, clock, log, seals: keyring, freeze: options.freeze ?? true }));
    const registry = new Registry();
    const api = stack.use(
      await createApi({
        store,
        mirror,
        repositoryFor: (tenant) => openRepository(store, tenant, clock),
        otherLeader: () => otherLeader(mirror, 'this'),
        sealer: keyring,
        unsealer: keyring,
        agents,
        mailer: options.mailer ?? outbox,
        registryLogin: options.registryLogin ?? (async () => ({ failure: undefined, message: 'The login succeeded' })),
        probeBucket: options.probeBucket ?? (async () => ({ trouble: undefined })),
        searchBucket: options.searchBucket ?? (async () => ({ objects: [] })),
        clock,
        random: systemRandom,
        log,
        registry,
        config: ApiConfig.parse({ version: '1.2.3', publicUrl: 'http://setpoint.test', ...options.config }),
      }),
    );
    api.server.on('upgrade', (request, socket, head) => {
      if (!api.handleUpgrade(request, socket, head)) socket.destroy();
    });
    api.server.listen(0, '127.0.0.1');
    await once(api.server, 'listening');
    const { port } = api.server.address() as AddressInfo;
    return { url: `http://127.0.0.1:${port}`, mirror, registry, api };
  };
  const { url, mirror, registry, api } = await serve(starting);

  const client = (token?: string, tenant = 'default'): Client => createClient(`${url}/${tenant}/api/v1`, token);
  const settled = async (): Promise<void> => {
    await mirror.reached(await store.revision(), AbortSignal.timeout(5000));
  };
  const login = async (email: string): Promise<Client> => {
    const answer = await client().post('/auth/login', { email, password });
    if (answer.status !== 200) throw new Error(`Login failed: ${JSON.stringify(answer.body)}`);
    return client(answer.data.token);
  };
  let users = 0;
  const running = starting.move();
  return {
    url,
    store,
    mirror,
    repo,
    registry,
    keyring,
    clock,
    agents,
    applyCommit: api.applyCommit,
    mails,
    faults,
    logged,
    setupToken: api.setupToken,
    settled,
    replica: async () => (await serve(running)).url,
    client,
    async owner() {
      const answer = await client().post('/auth/register', { email: 'owner@example.test', password });
      if (answer.status !== 201) throw new Error(`Registration failed: ${JSON.stringify(answer.body)}`);
      return client(answer.data.token);
    },
    async user(role = 'user', email = `user-${(users += 1)}@example.test`) {
      const id = crypto.randomUUID();
      const unit = repo.begin();
      unit.create(
        'user',
        id,
        desiredState('user', {
          email,
          role,
          password_hash: await passwordHash(),
        }),
      );
      await commit(unit);
      return Object.assign(await login(email), { id });
    },
    async place(by) {
      const name = crypto.randomUUID().slice(0, 8);
      const project = await by.post('/projects', { name: `project-${name}` });
      const server = crypto.randomUUID();
      const unit = repo.begin();
      unit.create(
        'server',
        server,
        desiredState('server', {
          name: `server-${name}`,
        }),
      );
      await commit(unit);
      return { project: project.data.id, environment: project.data.default_environment_id, server };
    },
    async observe(kind, id, observed, conditions = []) {
      const it = await repo.get(kind, id);
      if (it === undefined) throw new Error(`Cannot observe what is not there: ${kind} ${id}`);
      const { generation } = it.meta;
      const stamped = conditions.map((one) => ({
        ...one,
        observedGeneration: generation,
        changedAt: clock.now().toISOString(),
      }));
      // exactOptionalPropertyTypes: a resource is its own readonly form
      await repo.observe(
        it as never,
        { ...observed, observedGeneration: generation, conditions: stamped } as never,
        [],
      );
      await settled();
    },
    async create(kind, id, desired) {
      const unit = repo.begin();
      const made = unit.create(kind, id, desired);
      await commit(unit);
      await settled();
      return made;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

let hashed: Promise<string> | undefined;

/** Hashing costs more than everything else of most tests. */
async function passwordHash(): Promise<string> {
  hashed ??= import('../../api/auth/passwords.ts').then(({ createPasswords }) => createPasswords().hash(password));
  return hashed;
}

export function createClient(base: string, token: string | undefined): Client {
  const request = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: text! }),
    });
    const answer = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    const parsed = isJson && answer !== '' ? JSON.parse(answer) : undefined;
    return { status: response.status, headers: response.headers, body: parsed, data: parsed?.data };
  };
  return {
    token,
    request,
    get: (path, headers) => request('GET', path, undefined, headers),
    post: (path, body, headers) => request('POST', path, body, headers),
    put: (path, body, headers) => request('PUT', path, body, headers),
    patch: (path, body, headers) => request('PATCH', path, body, headers),
    delete: (path, headers) => request('DELETE', path, undefined, headers),
  };
}

/** Agents that answer as the test says; without a word of it they are away. */
export function scriptedAgents(): ScriptedAgents {
  const agents: ScriptedAgents = {
    controlKey: () => 'no key',
    answer: undefined,
    measured: new Map(),
    roundTrips: async () => agents.measured,
    follow: undefined,
    exec: undefined,
    tunnel: undefined,
    uploaded: undefined,
    async call(_tenant, server, params) {
      if (agents.answer === undefined) throw new CallError('away', 'Agent is not connected');
      return agents.answer(server, params);
    },
    stream(_tenant, server, params, { signal }) {
      if (agents.follow === undefined) throw new CallError('away', 'Agent is not connected');
      return agents.follow(server, params, signal);
    },
    sample: undefined,
    samples(_tenant, server, { signal }) {
      if (agents.sample === undefined) throw new CallError('away', 'Agent is not connected');
      return agents.sample(server, signal);
    },
    window: undefined,
    traffic(_tenant, server, workload, { signal }) {
      if (agents.window === undefined) throw new CallError('away', 'Agent is not connected');
      return agents.window(server, workload, signal);
    },
    duplex(_tenant, server, params, outgoing, { signal }) {
      if (params.kind === 'import') {
        if (agents.uploaded === undefined) throw new CallError('away', 'Agent is not connected');
        return agents.uploaded(params, outgoing, signal);
      }
      if (params.kind === 'tunnel') {
        if (agents.tunnel === undefined) throw new CallError('away', 'Agent is not connected');
        return agents.tunnel(params, outgoing, signal);
      }
      if (agents.exec === undefined) throw new CallError('away', 'Agent is not connected');
      return agents.exec(server, params, outgoing, signal);
    },
  };
  return agents;
}
