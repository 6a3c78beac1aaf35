import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { hashJoinToken } from '../../agent-protocol/join-token.ts';
import { connect } from '../../agent/connect.ts';
import { openIdentity } from '../../agent/identity.ts';
import type { Identity } from '../../agent/identity.ts';
import type { AgentHost } from '../../agent-protocol/agent-host.ts';
import { clusterKey } from '../../controllers/gateway/cluster-key.ts';
import { ensureControlKeys } from '../../controllers/gateway/control-keys.ts';
import { Gateway } from '../../controllers/gateway/gateway.ts';
import { beginEra, presentHistory } from '../../controllers/gateway/history.ts';
import { keys } from '../../store/keys.ts';
import { systemClock } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { Mirror } from '../../store/mirror.ts';
import { commit } from '../../store/unit.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { Resource } from '../../store/resource.ts';
import { openKeyring } from '../../store/seal.ts';
import type { Sealer, Unsealer } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { eventually } from './eventually.ts';
import { joinToken } from './join-token.ts';
import { MemoryBucket } from './memory-bucket.ts';
import { serviceSpec } from './wire-items.ts';
import { desiredState } from './states.ts';

export const tenant = 'acme';

/** A replica of the gateway behind a real HTTP server on loopback. */
export interface TestReplica extends AsyncDisposable {
  id: string;
  url: string;
  gateway: Gateway;
  mirror: Mirror;
  drift: string[];
  /** What the replica shows at `/metrics`. */
  registry: Registry;
  /** Open connections of agents and of other replicas. */
  connections(): Promise<number>;
}

/** A store, and replicas and agents on it, all over real sockets. */
export class GatewayWorld implements AsyncDisposable {
  readonly store: Store;
  readonly repo: Repository;
  readonly keyring: Sealer & Unsealer;
  readonly folder: string;
  #cleanup: AsyncDisposableStack;
  #clock: Clock;

  private constructor(
    store: Store,
    folder: string,
    keyring: Sealer & Unsealer,
    clock: Clock,
    cleanup: AsyncDisposableStack,
  ) {
    this.store = store;
    this.folder = folder;
    this.keyring = keyring;
    this.repo = openRepository(store, tenant, clock);
    this.#clock = clock;
    this.#cleanup = cleanup;
  }

  /** `wrap`: puts something between everything and the store. */
  static async start(options: { clock?: Clock; wrap?: (store: Store) => Store } = {}): Promise<GatewayWorld> {
    const cleanup = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'gateway-'));
    cleanup.defer(() => rm(folder, { recursive: true, force: true }));
    const sqlite = cleanup.use(await openSqlite({ path: ':memory:' }));
    const store = options.wrap?.(sqlite) ?? sqlite;
    const keyring = await openKeyring({ path: join(folder, 'keys.json'), store });
    const clock = options.clock ?? systemClock;
    await ensureControlKeys({ store, sealer: keyring, clock });
    const world = new GatewayWorld(store, folder, keyring, clock, cleanup);
    await world.deployment(common.workload, {}, common.deployment);
    return world;
  }

  async replica(options: { unsealer?: Unsealer; store?: Store } = {}): Promise<TestReplica> {
    await using stack = new AsyncDisposableStack();
    const store = options.store ?? this.store;
    const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' });
    const mirror = stack.use(startMirror({ store, clock: this.#clock, log }));
    await mirror.ready;
    const http = createServer((_, response) => response.writeHead(404).end());
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    stack.defer(async () => {
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    });
    const { port } = http.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}`;
    const id = randomUUID();
    const drift: string[] = [];
    const registry = new Registry();
    await beginEra(store, id);
    const gateway = stack.use(
      new Gateway({
        ownPorts: [7070],
        store,
        mirror,
        repositoryFor: (name) => openRepository(store, name, this.#clock),
        unsealer: options.unsealer ?? this.keyring,
        signer: new MemoryBucket(),
        clock: this.#clock,
        random: () => 0.5,
        log,
        registry,
        driftCorrected: (kind) => drift.push(kind),
        replica: { id, url, version: '0' },
        clusterKey: await clusterKey(this.store, this.keyring, this.keyring),
      }),
    );
    http.on('upgrade', (request, socket, head) => {
      if (request.url === '/internal/v1/relay') gateway.handleRelay(request, socket, head, '127.0.0.1');
      else {
        const [, name = tenant] = /^\/([^/]+)\/agent\//.exec(request.url ?? '') ?? [];
        gateway.handleUpgrade(name, request, socket, head, '127.0.0.1');
      }
    });
    const owned = stack.move();
    const replica: TestReplica = {
      id,
      url,
      gateway,
      mirror,
      drift,
      registry,
      connections: () => promisify(http.getConnections.bind(http))(),
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
    this.#cleanup.use(replica);
    return replica;
  }

  /** The history that an agent of the newest replica keeps beside its set. */
  async history(): Promise<string> {
    return (await presentHistory(this.store)) ?? '';
  }

  /** A join token of this control plane. */
  async joinToken(server: string): Promise<string> {
    const ring = await this.store.get(keys.meta('control-keys'));
    const all = (JSON.parse(ring?.value ?? '{}') as { keys: { public: string }[] }).keys; // as the product wrote it
    return joinToken(server, all.at(-1)?.public);
  }

  /** A server that awaits the agent with the token. */
  async server(overrides: Partial<DesiredOf<'server'>> = {}): Promise<{ id: string; token: string }> {
    const id = randomUUID();
    const token = await this.joinToken(id);
    await this.create(
      'server',
      id,
      desiredState('server', {
        name: `server-${id}`,
        join_token_hash: hashJoinToken(token),
        join_token_expires_at: new Date(Date.now() + 3_600_000).toISOString(),
        ...overrides,
      }),
    );
    return { id, token };
  }

  async create<K extends KindName>(kind: K, id: string, desired: object): Promise<Resource<K>> {
    const unit = this.repo.begin();
    const it = unit.create(kind, id, kinds[kind].desired.parse(desired) as DesiredOf<K>);
    await commit(unit);
    return it;
  }

  assignment(
    server: string,
    overrides: Parameters<typeof assignmentState>[1] = {},
    spec: Parameters<typeof serviceSpec>[0] = {},
  ): Promise<Resource<'assignment'>> {
    return this.create('assignment', randomUUID(), assignmentState(server, overrides, spec));
  }

  /** A deployment with these variables; answers its id. Assignments belong to one without any by default. */
  async deployment(
    application: string,
    env: DesiredOf<'deployment'>['config']['env'] = {},
    id: string = randomUUID(),
  ): Promise<string> {
    await this.create(
      'deployment',
      id,
      desiredState('deployment', { application_id: application, config: { env, restart_policy: 'always' } }),
    );
    return id;
  }

  /** Seals variables of an application, as the API does. */
  seal(application: string, env: Record<string, string>): DesiredOf<'deployment'>['config']['env'] {
    const place = { tenant, kind: 'application', id: application };
    return Object.fromEntries(
      Object.entries(env).map(([name, value]) => [
        name,
        this.keyring.seal(value, { ...place, path: `config.env.${name}` }),
      ]),
    );
  }

  async delete(kind: 'server' | 'assignment', id: string): Promise<void> {
    const it = await this.repo.get(kind, id);
    if (it === undefined) throw new Error(`There is no ${kind} ${id}`);
    const unit = this.repo.begin();
    unit.requestDelete(it);
    await commit(unit);
  }

  identity(server: { id: string; token?: string }, folder = server.id): Promise<Identity> {
    return openIdentity(join(this.folder, folder), server.token);
  }

  /** Connects an agent until the answer is disposed of, which counts its attempts to connect. */
  async agent(
    replica: Pick<TestReplica, 'url'>,
    server: { id: string; token?: string },
    backend: AgentHost,
    options: { folder?: string; machineId?: string; bootId?: string } = {},
  ): Promise<AsyncDisposable & { attempts(): number }> {
    const identity = await this.identity(server, options.folder);
    const stop = new AbortController();
    let attempts = 0;
    const running = connect(
      {
        urls: [`${replica.url}/${tenant}`],
        identity,
        machine: { machineId: options.machineId ?? 'machine', bootId: options.bootId ?? 'boot' },
        agentVersion: '1.2.3',
        runtime: () => {
          attempts++; // each attempt asks for it once
          return { name: 'mock', version: '1' };
        },
        backend,
        clock: systemClock,
        random: () => 0.01, // an agent that was sent away is back soon, and at a time that is known
        log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
      },
      stop.signal,
    );
    const handle = {
      attempts: () => attempts,
      async [Symbol.asyncDispose]() {
        stop.abort();
        await running;
      },
    };
    this.#cleanup.use(handle);
    return handle;
  }

  /** Waits until the server's agent is connected. */
  connected(replica: Pick<TestReplica, 'mirror'>, server: string): Promise<unknown> {
    return eventually(replica.mirror, () => replica.mirror.tenant(tenant).agent(server));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanup.disposeAsync();
  }
}

/** What assignments belong to by default. */
const common = { workload: randomUUID(), deployment: randomUUID() };

/** Desired state of an instance of a deployment, whose configuration it has. */
export function assignmentState(
  server: string,
  overrides: Partial<DesiredOf<'assignment'>> & { deployment_id?: string } = {},
  spec: Parameters<typeof serviceSpec>[0] = {},
): DesiredOf<'assignment'> {
  const { deployment_id: deployment = common.deployment, ...others } = overrides;
  return desiredState('assignment', {
    server_id: server,
    workload_id: common.workload,
    version: deployment,
    spec_hash: 'hash-1',
    spec: serviceSpec({ network: 'sp-test', config: { kind: 'deployment', id: deployment }, ...spec }),
    ...others,
  });
}
