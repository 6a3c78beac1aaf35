import { rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { pino } from 'pino';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { Agent } from '../../agent/agent.ts';
import { startAgent } from '../../agent/agent.ts';
import type { Shipment } from '../../agent/archive/shipment.ts';
import { segmentAt } from '../../databases/wal.ts';
import { logKey } from '../../store/archive-keys.ts';
import { openMock } from '../../agent/engine/open-mock.ts';
import { removeLeftover } from '../../agent/leftovers.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import type { BuildProgress } from '../../agent/tasks/build-progress.ts';
import { buildSteps } from '../../agent/tasks/build-steps.ts';
import { branchNotFound } from '../../agent/tasks/git-failure.ts';
import type { BuildItem } from '../../agent/tasks/build-task.ts';
import { MockPorts } from '../../agent/ports/mock-ports.ts';
import type { PortPublisher } from '../../agent/ports/port-publisher.ts';
import { MockEngine } from '../../agent/runtime/mock/mock-engine.ts';
import type { ContainerRuntime } from '../../agent/runtime/runtime.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { isUninstallOrdered } from '../../agent/uninstall/order.ts';
import { createServiceKey, hashServiceKey } from '../../api/auth/service-key.ts';
// What is imported at its first use takes real time, in which virtual time would go on: it is here before.
import '../../api/declared/apply.ts';
import '../../api/declared/read.ts';
import '../../compose/composed-application.ts';
import '../../compose/repository-files.ts';
import '../../controllers/database/x509.ts';
import { startReplica } from '../../cli/replica.ts';
import type { RunningReplica } from '../../cli/replica.ts';
import type { Trouble } from '../../network/bucket-trouble.ts';
import { keys } from '../../store/keys.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import { openKeyring } from '../../store/seal.ts';
import type { Resealer, SealComparer, Sealer, Transplanter, Unsealer } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { createTenant } from '../../store/tenants.ts';
import { commit } from '../../store/unit.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { FakeClock } from './fake-clock.ts';
import { FaultyStore } from './faulty-store.ts';
import { idle } from './idle.ts';
import { MemoryBucket } from './memory-bucket.ts';
import { MemoryNetwork } from './memory-network.ts';
import { memoryFolder } from './memory-folder.ts';
import { Mortal } from './mortal.ts';
import { openImages } from './open-images.ts';
import { seeded } from './seeded.ts';
import type { Seeded } from './seeded.ts';
import { desiredState } from './states.ts';

export const tenant = 'default';

/** A process of the control plane: one replica. */
export interface Plane {
  readonly process: Mortal;
  /** Address under which other replicas reach it. */
  readonly url: string;
  /** Absent while it starts. */
  replica: RunningReplica | undefined;
}

/** A server: its engine and its disk outlive the agent. */
export interface Machine {
  readonly server: string;
  readonly engine: MockEngine;
  readonly ports: PortPublisher;
  readonly folder: string;
  readonly joinToken: string;
  /** Whether its agent runs as an installed release; `gone`: the agent was removed. */
  installation: 'none' | 'there' | 'gone';
  process: Mortal | undefined;
  agent: Agent | undefined;
  /** The commit at the head of every branch. */
  head: string;
  /** The file that declares objects, by the commit that has it. */
  readonly manifests: Map<string, string>;
  /** Branches that the repositories do not have any more. */
  gone: Set<string>;
  /** The last segment that a database on it wrote. */
  segment: number;
}

export interface Answer {
  status: number;
  data: ReturnType<typeof JSON.parse>;
}

type Keyring = Sealer & Unsealer & SealComparer & Resealer & Transplanter;

const never = new AbortController().signal;
const logLevel = process.env['TEST_LOG'] ?? 'silent';

/**
 * The whole product in one process: a store, replicas of the control plane and agents of servers that are real but for
 * their clock, their randomness, their container engine and their network, all of which are in memory. Processes can be
 * killed and started again. The same seed gives the same run.
 */
export class World implements AsyncDisposable {
  readonly clock: FakeClock;
  readonly random: Seeded;
  /** What everybody works on; its transactions are counted. */
  readonly store: FaultyStore;
  /** Reads past the faults and past the processes. */
  readonly repo: Repository;
  readonly planes: Plane[] = [];
  readonly machines: Machine[] = [];
  /** Lines that were logged as errors. */
  readonly faults: string[] = [];
  /** Whether leases of a dead process run out, as those of a store elsewhere do, or end with it, as the embedded one's. */
  leasesOutlive = true;
  /** The one that backups go to. */
  readonly bucket = new MemoryBucket();
  /** Why buckets cannot be used, by their names: of those without a row everything can. */
  readonly troubles = new Map<string, Trouble>();
  /** Called after each change of an engine. */
  watchEngines: (() => void) | undefined;
  readonly #network = new MemoryNetwork();
  readonly #keyring: Keyring;
  readonly #folder: string;
  readonly #cleanup: AsyncDisposableStack;
  readonly #log: Logger;
  readonly #key: string;
  #starting: Promise<void>[] = [];
  readonly #dead: { process: Mortal; agent: Agent | undefined }[] = [];
  #requests = 0;

  private constructor(
    seed: number,
    parts: { clock: FakeClock; sqlite: Store; keyring: Keyring; folder: string; cleanup: AsyncDisposableStack },
  ) {
    this.clock = parts.clock;
    this.random = seeded(seed);
    this.store = new FaultyStore(parts.sqlite);
    this.repo = openRepository(parts.sqlite, tenant, this.clock);
    this.#keyring = parts.keyring;
    this.#folder = parts.folder;
    this.#cleanup = parts.cleanup;
    this.#key = createServiceKey(this.random);
    this.#log = pino(
      { level: logLevel === 'silent' ? 'error' : logLevel, timestamp: () => `,"time":${this.clock.monotonic()}` },
      {
        write: (line: string) => {
          if (logLevel !== 'silent') process.stdout.write(line);
          if (JSON.parse(line).level >= 50) this.faults.push(line);
        },
      },
    );
  }

  /** A store with one user; no process runs yet. */
  static async create(seed: number): Promise<World> {
    const cleanup = new AsyncDisposableStack();
    const folder = await memoryFolder('setpoint-sim-');
    cleanup.defer(() => rm(folder, { recursive: true, force: true }));
    const clock = new FakeClock('2030-01-01T00:00:00.000Z', idle);
    const sqlite = cleanup.use(await openSqlite({ path: ':memory:', clock }));
    const keyring = await openKeyring({ path: join(folder, 'keys.json'), store: sqlite });
    const world = new World(seed, { clock, sqlite, keyring, folder, cleanup });
    await createTenant(sqlite, tenant, clock);
    await world.#createUser();
    return world;
  }

  /** The replica that leads, or believes so. */
  get leading(): Plane | undefined {
    return this.planes.find(({ replica }) => replica?.controllers.isLeader === true);
  }

  /** Transactions of leaders whose term was over. */
  get fenced(): number {
    const key = keys.leader('controllers');
    return this.store.failedGuards.filter((guard) => guard.key === key && guard.is === 'at').length;
  }

  /** Starts a replica; it is there after the next turn of the clock. */
  startPlane(): Plane {
    const process = new Mortal(this.clock);
    const random = this.random.fork();
    const id = random.id();
    const url = `http://${id}.replica.test`;
    const plane: Plane = { process, url, replica: undefined };
    this.planes.push(plane);
    const clock = process.clock();
    const start = async (): Promise<void> => {
      const replica = await startReplica({
        store: process.store(this.store, (ttlMs) => (this.leasesOutlive ? ttlMs : 0)),
        keyring: this.#keyring,
        clock,
        random,
        uniform: random.uniform,
        log: this.#log,
        registry: new Registry(),
        replica: { id, url, version: '1.2.3' },
        dialReplica: (to) => this.#dialReplica(to, process),
        bucket: process.reach(this.bucket),
        probeBucket: async ({ bucket }) => ({ trouble: this.troubles.get(bucket), isClockOff: false }),
        publicUrl: 'http://setpoint.test',
        ownPorts: [],
        trustedProxies: [],
        buildDeadlineMs: 600_000,
        rolloutDeadlineMs: 120_000,
        auditKeepMs: 90 * 24 * 3_600_000,
        strict: true,
      });
      plane.replica = replica;
      this.#network.attach(replica.server);
      process.death.addEventListener('abort', () => this.#network.detach(replica.server));
    };
    this.#starting.push(this.#supervise(process, start, () => this.startPlane()));
    return plane;
  }

  /** The process ends at this instant, without a word to anybody. */
  killPlane(plane: Plane): void {
    plane.process.kill();
    this.planes.splice(this.planes.indexOf(plane), 1);
    if (plane.replica !== undefined) this.#network.cut(plane.replica.server);
  }

  /** Adds a server with its agent and waits until it is active. `isInstalled`: the agent can remove itself. */
  async addServer(name: string, fields: object = {}, isInstalled = false): Promise<Machine> {
    const { data } = await this.must('POST', '/servers', { name, ...fields });
    const engine = new MockEngine(this.clock);
    const machine: Machine = {
      server: data.id,
      engine,
      ports: new MockPorts().publisher(),
      folder: join(this.#folder, data.id),
      joinToken: data.join_token,
      installation: isInstalled ? 'there' : 'none',
      process: undefined,
      agent: undefined,
      head: 'c'.repeat(40),
      manifests: new Map(),
      gone: new Set(),
      segment: 1,
    };
    this.machines.push(machine);
    this.startAgent(machine);
    await this.until(`server ${name} is active`, async () => {
      const it = await this.repo.get('server', data.id);
      return it?.observed?.phase === 'active';
    });
    return machine;
  }

  /** Starts the agent of a machine, unless one runs or it was removed. */
  startAgent(machine: Machine): void {
    if (machine.process !== undefined || machine.installation === 'gone') return;
    const process = new Mortal(this.clock);
    machine.process = process;
    const start = async (): Promise<void> => {
      if (machine.installation === 'there' && (await isUninstallOrdered(machine.folder)))
        return this.#uninstall(machine);
      const engine = openMock({ type: 'mock', clock: this.clock, engine: machine.engine, ports: machine.ports });
      const runtime = process.reach(this.#watched(engine.runtime));
      const agent = await startAgent({
        controlPlane: [`http://setpoint.test/${tenant}`],
        dial: () => this.#network.dial(process.death),
        joinToken: machine.joinToken,
        dataDir: machine.folder,
        engine: {
          ...engine,
          runtime,
          ports: process.reach(engine.ports),
          prober: process.reach(engine.prober),
          copier: process.reach(engine.copier),
        },
        images: await openImages(runtime, machine.folder, undefined, process.clock()),
        build: (item, progress, signal) => build(machine, item, progress, signal),
        archive: async ({ workload_id: id }) => this.#shipment(machine, id, process.clock()),
        recovery: async (_, progress, signal) => {
          progress.at({ step: 'replaying' });
          await wait(process.clock(), 2000, signal);
          return { timeline: 2 };
        },
        backup: async ({ spec }, progress, signal) => {
          progress.at({ step: 'sending', done: 4096, unit: 'bytes' });
          await wait(process.clock(), 2000, signal);
          const segment = segmentAt({ timeline: 1, position: machine.segment });
          const log = {
            first_segment: segment,
            last_segment: segment,
            stopped_at: process.clock().now().toISOString(),
          };
          return {
            ...(spec.method === 'physical' && log),
            size_bytes: 1024,
            dump_bytes: 8192,
            checksum_sha256: 'c'.repeat(64),
            etag: 'e-1',
            parts: 1,
          };
        },
        restore: async ({ spec }, progress, signal) => {
          progress.at({ step: 'restoring', done: 4096, total: spec.dump_bytes, unit: 'bytes' });
          await wait(process.clock(), 2000, signal);
          return { dump_bytes: spec.dump_bytes };
        },
        gitHead: async ({ url, branch }) => {
          if (machine.gone.has(branch)) throw branchNotFound(url, branch);
          return { commit: machine.head };
        },
        gitTag: () => Promise.reject(new Error('No git is expected')),
        dockerfiles: () => Promise.reject(new Error('No git is expected')),
        gitVersion: async () => ({ major: 2, minor: 37, text: '2.37.0' }),
        repositories: async ({ commit = machine.head }) => {
          const text = machine.manifests.get(commit);
          if (text === undefined) throw new Error('No git is expected');
          const content = Buffer.from(text).toString('base64');
          return { commit, commit_message: 'Change', files: [{ path: 'web.yaml', content }] };
        },
        disk: () => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 }),
        logBytes: 1024 ** 3,
        version: '1.2.3',
        isInstalled: machine.installation === 'there',
        clock: process.clock(),
        random: this.random.fork().uniform,
        log: this.#log.child({ part: 'agent' }),
      });
      if (process.isDead) this.#dead.push({ process, agent });
      else machine.agent = agent;
      void agent.dismissed.then(() => (process.isDead ? undefined : this.#uninstall(machine)));
    };
    this.#starting.push(this.#supervise(process, start, () => this.startAgent(machine)));
  }

  /** Sends a segment a minute, as a database that writes nothing but what it is made to. */
  async #shipment(machine: Machine, id: string, clock: Clock): Promise<Shipment> {
    let [beatAt, until] = [-Infinity, ''];
    return {
      turn: async () => {
        if (clock.monotonic() - beatAt < 60_000) return;
        const archive = await this.repo.get('wal_archive', id);
        if (archive === undefined) return;
        [beatAt, until] = [clock.monotonic(), clock.now().toISOString()];
        machine.segment += 1;
        const key = logKey(archive, segmentAt({ timeline: 1, position: machine.segment }));
        this.bucket.objects.set(key, { bytes: 512, etag: key });
      },
      stand: async () => {
        const segment = segmentAt({ timeline: 1, position: machine.segment });
        const shown = { until, until_segment: segment, last_segment: segment, sent_at: until };
        return { waiting: 0, fill_percent: 0, system_identifier: '1', ...(until !== '' && shown) };
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  /** The process ends at this instant; containers run on. */
  killAgent(machine: Machine): void {
    const { process, agent } = machine;
    process?.kill();
    if (process !== undefined) this.#dead.push({ process, agent });
    machine.process = undefined;
    machine.agent = undefined;
  }

  /**
   * Asks the API as a user's script does: a request without an answer, or one answered that the service is not
   * available, is sent again with the same key.
   */
  async call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    const key = `request-${(this.#requests += 1)}`;
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.drive(this.#send(method, path, body, key, headers)).catch(() => undefined);
      const isGone = method === 'DELETE' && attempt > 1 && answer?.status === 404;
      if (isGone) return { status: 204, data: undefined };
      if (answer !== undefined && answer.status < 500 && answer.status !== 429) return answer;
      if (attempt === 100) throw new Error(`Got no answer: ${method} ${path} ${answer?.status}`);
      await this.pass(500);
    }
  }

  /** @throws Error if the answer is no success. */
  async must(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await this.call(method, path, body);
    if (answer.status >= 400)
      throw new Error(`${method} ${path} was answered ${answer.status}: ${JSON.stringify(answer.data)}`);
    return answer;
  }

  /** Lets time pass until the promise settles. */
  async drive<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const mark = (): void => void (settled = true);
    promise.then(mark, mark);
    const isSettled = (): boolean => settled;
    const end = this.clock.monotonic() + 600_000;
    await idle();
    while (!isSettled()) {
      if (this.clock.monotonic() > end) throw new Error('Did not end within ten minutes');
      await this.clock.step(1000);
    }
    return promise;
  }

  /** Lets so much time pass. */
  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
  }

  /** Lets time pass until the condition holds: at most `mostMs`, ten minutes by default. */
  async until(what: string, condition: () => boolean | Promise<boolean>, mostMs = 600_000): Promise<void> {
    const end = this.clock.monotonic() + mostMs;
    for (;;) {
      await idle();
      if (await condition()) return;
      if (this.clock.monotonic() > end) throw new Error(`Did not happen within ${mostMs} ms: ${what}`);
      await this.clock.step(1000);
    }
  }

  /** Lets time pass until nobody has asked for a transaction for `quietMs`. */
  async rest(quietMs = 15_000): Promise<void> {
    let seen = this.store.transactions;
    let since = this.clock.monotonic();
    await this.until('nobody writes any more', () => {
      if (this.store.transactions !== seen) {
        seen = this.store.transactions;
        since = this.clock.monotonic();
      }
      return this.clock.monotonic() - since >= quietMs;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const plane of this.planes.toReversed()) this.killPlane(plane);
    for (const machine of this.machines) this.killAgent(machine);
    await idle();
    for (const { process } of this.#dead) process.bury();
    await idle();
    await Promise.all(this.#dead.map(async ({ agent }) => agent?.[Symbol.asyncDispose]()));
    await this.#cleanup.disposeAsync();
  }

  #dialReplica(url: string, from: Mortal): Duplex {
    const to = this.planes.find((plane) => plane.url === url);
    return this.#network.dialTo(to?.replica?.server, from.death, to?.process.awake());
  }

  /** A process that cannot start is started again, as a supervisor does. */
  async #supervise(process: Mortal, start: () => Promise<void>, again: () => void): Promise<void> {
    try {
      await start();
    } catch (error) {
      if (process.isDead) return;
      this.#log.warn({ err: error }, 'A process did not start');
      process.kill();
      for (const machine of this.machines) if (machine.process === process) machine.process = undefined;
      const at = this.planes.findIndex((plane) => plane.process === process);
      if (at >= 0) this.planes.splice(at, 1);
      this.clock.timer(1000, again);
    }
  }

  /** What the program of an installed agent does that is to be removed. */
  async #uninstall(machine: Machine): Promise<void> {
    machine.installation = 'gone';
    this.killAgent(machine);
    const engine = mockRuntime(machine.engine);
    const own = (await engine.belongings(never)).filter(({ server }) => server === machine.server);
    for (const one of own)
      await removeLeftover({ engine, clock: this.clock }, { ...one, ports: [], rules: false }, never);
    await rm(machine.folder, { recursive: true, force: true });
  }

  #watched(runtime: ContainerRuntime): ContainerRuntime {
    const changes = new Set<string>(['create', 'start', 'stop', 'remove']);
    return new Proxy(runtime, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function' || !changes.has(String(name))) return value;
        return async (...args: unknown[]) => {
          try {
            return await Reflect.apply(value, target, args);
          } finally {
            this.watchEngines?.();
          }
        };
      },
    });
  }

  #send(method: string, path: string, body: unknown, key: string, more?: Record<string, string>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request(
        {
          method,
          host: 'setpoint.test',
          path: `/${tenant}/api/v1${path}`,
          createConnection: () => this.#network.dial(),
          headers: {
            'x-service-key': this.#key,
            'idempotency-key': key,
            connection: 'close',
            ...(body !== undefined && { 'content-type': 'application/json' }),
            ...more,
          },
        },
        (incoming) => {
          const parts: Buffer[] = [];
          incoming.on('data', (part: Buffer) => parts.push(part));
          incoming.on('error', reject);
          incoming.on('end', () => {
            const text = Buffer.concat(parts).toString('utf8');
            const parsed = text === '' ? undefined : JSON.parse(text);
            resolve({ status: incoming.statusCode ?? 0, data: parsed?.data ?? parsed });
          });
        },
      );
      outgoing.on('error', reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async #createUser(): Promise<void> {
    const unit = this.repo.begin();
    const user = unit.create(
      'user',
      this.random.id(),
      desiredState('user', {
        email: 'user@example.test',
        role: 'superadmin',
      }),
    );
    unit.create('service_key', this.random.id(), {
      user_id: user.meta.id,
      name: 'script',
      prefix: this.#key.slice(0, 8),
      hash: hashServiceKey(this.#key),
      scopes: ['admin'],
    });
    await commit(unit);
  }
}

/** A build that depends on nothing but the tag of its image. */
async function build(
  { engine, head }: Machine,
  { tenant: of, project_id: project, spec: { image, commit = head } }: BuildItem,
  { line, at }: BuildProgress,
  signal: AbortSignal,
): Promise<{ image: string; digest: string; commit: string; commitMessage: string }> {
  at({ step: 'cloning' });
  const stepsOf = buildSteps(at);
  const built = await engine.build(
    {
      context: (async function* () {
        yield Buffer.from(image.slice(image.lastIndexOf(':')));
      })(),
      dockerfile: 'Dockerfile',
      tag: image,
      buildArgs: {},
      labels: { [labels.tenant]: of, [labels.project]: project },
    },
    (text) => {
      line(text);
      stepsOf(text);
    },
    signal,
  );
  return { image: built.id, digest: built.digest, commit, commitMessage: 'Change' };
}
