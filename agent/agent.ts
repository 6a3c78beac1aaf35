import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { wait } from '../time/clock.ts';
import type { Clock } from '../time/clock.ts';
import type { WireReport } from '../agent-protocol/assignment.ts';
import { agentSource } from '../agent-protocol/logs.ts';
import type { AgentHost } from '../agent-protocol/agent-host.ts';
import type { RunBuild } from './tasks/build-task.ts';
import { forbiddable, installedCapabilities, updateCapability } from '../agent-protocol/messages.ts';
import type { EngineState } from '../agent-protocol/messages.ts';
import { connect } from './connect.ts';
import { ControlPlane } from './tasks/control-plane.ts';
import { checks } from './diagnose/checks.ts';
import { Examiner } from './diagnose/examiner.ts';
import { SessionHost } from './session-host.ts';
import { straysOf } from './strays.ts';
import { realOutside, surroundingsOf } from './surroundings.ts';
import type { Outside } from './surroundings.ts';
import { DesiredSet } from './desired/desired.ts';
import type { DiskSpace } from './disk/disk-guard.ts';
import { diskGuard } from './disk/disk-guard.ts';
import type { Engine } from './engine/engine.ts';
import { EngineMonitor } from './engine/engine-monitor.ts';
import { BuildCache } from './engine/build-cache.ts';
import { ImageCollector } from './engine/image-collector.ts';
import { Fleet } from './fleet.ts';
import { Housekeeping } from './housekeeping.ts';
import { InstanceFiles } from './service/instance-files.ts';
import { openIdentity } from './identity.ts';
import type { Identity } from './identity.ts';
import type { ImageStore } from './engine/image-store.ts';
import { deriveKey } from './disk/journal.ts';
import { Ledger } from './engine/ledger.ts';
import { LoadMeter } from './machine/load.ts';
import { MetricStore } from './metrics/metric-store.ts';
import { newestSamples } from './metrics/newest.ts';
import { Sampler } from './metrics/sampler.ts';
import type { ServerShells } from './machine/server-shells.ts';
import { Capture } from './logs/capture.ts';
import { LogStore } from './logs/log-store.ts';
import type { OwnLines } from './logs/own-lines.ts';
import { identitiesHere } from './machine/machine-identities.ts';
import type { Identities } from './machine/machine-identities.ts';
import { readMachine } from './machine/machine.ts';
import { Observer } from './engine/observer.ts';
import { tasksOf } from './tasks/tasks.ts';
import { BuildRoom } from './tasks/build-room.ts';
import { patientBuild } from './tasks/patient-build.ts';
import { pinnedBuild } from './tasks/pinned-build.ts';
import { Publication } from './ports/publication.ts';
import { RemovalGuard } from './desired/removal-guard.ts';
import { Results } from './tasks/results.ts';
import { MadeVolumes } from './volumes/made-volumes.ts';
import { VolumeCopies } from './volumes/volume-copies.ts';
import { VolumeWriters } from './volumes/writers.ts';
import { StorageWatch } from './engine/storage-watch.ts';
import { Surveyor } from './survey/surveyor.ts';
import { InstanceQueries } from './instance-queries.ts';
import { mockProxy } from './ingress/mock-proxy.ts';
import type { Proxy, ProxySockets } from './ingress/proxy.ts';
import { ServerIngress } from './ingress/server-ingress.ts';
import { Terminals } from './terminals.ts';
import { Tunnels } from './tunnels.ts';
import { ImportFolder } from './imports/import-folder.ts';
import { Uploads } from './imports/uploads.ts';
import type { Updater } from './update/updater.ts';
import { UninstallOrder } from './uninstall/order.ts';
import { SentNotes } from './archive/sent-note.ts';
import { shipping } from './archive/shipment.ts';
import type { OpenShipment } from './archive/shipment.ts';
import type { CloneCache } from './tasks/git-clones.ts';
import { runBackup } from './tasks/backup.ts';
import type { RunBackup } from './tasks/backup.ts';
import { runRecovery } from './tasks/recovery.ts';
import type { RunRecovery } from './tasks/recovery.ts';
import { runRestore } from './tasks/restore.ts';
import type { RunRestore } from './tasks/restore.ts';
import { gitVersion, type ReadGitVersion } from './tasks/git-version.ts';
import type { ReadHead } from './tasks/read-head.ts';
import type { ReadRepository } from './tasks/read-repository.ts';
import type { PreviewDockerfile } from './tasks/generated-dockerfile.ts';

export interface AgentOptions {
  /**
   * Base URLs of the control plane's replicas, with the tenant. Without any, the agent only reconciles its set on disk.
   */
  controlPlane?: readonly [string, ...string[]];
  /** Opens the connection to the control plane in place of TCP or TLS. */
  dial?: () => Duplex;
  /** Needed once: afterwards the agent uses the identity in the data directory. */
  joinToken?: string;
  dataDir: string;
  engine: Engine;
  images: ImageStore;
  build: RunBuild;
  /** What carries out backups and restores; by default programs of the databases, and the network. */
  backup?: RunBackup;
  restore?: RunRestore;
  recovery?: RunRecovery;
  /** Dumps that may be imported: the folder of files, by default one of the data directory, and networks beside public addresses. */
  imports?: { folder?: string | undefined; networks?: readonly string[] };
  /** What sends the logs of databases; by default from their volumes. */
  archive?: OpenShipment;
  gitHead: ReadHead;
  /** Clones that builds begin with; absent: none are kept. */
  clones?: Pick<CloneCache, 'retain' | 'clear'>;
  /** By default that of the machine. */
  gitVersion?: ReadGitVersion;
  dockerfiles: PreviewDockerfile;
  repositories: ReadRepository;
  /** Reaches the proxy of the server by the socket of its administration; by default it is one in memory. */
  openProxy?: (sockets: ProxySockets) => Proxy;
  /** Shells of the machine; absent if its operator does not allow terminals of the server. */
  serverShells?: ServerShells;
  /** Space on the disk that holds images and logs. */
  disk: () => Promise<DiskSpace>;
  /** The network around the machine, as its checks see it; by default as it is. */
  outside?: Outside;
  /** The agents that run on this machine; by default those that it shows. */
  identities?: () => Promise<Identities>;
  /** Most bytes of all logs together. */
  logBytes: number;
  version: string;
  /** The agent runs as an installed release, which can be removed: it takes orders to leave its machine. */
  isInstalled?: boolean;
  /** Called whenever a control plane has welcomed the agent. */
  welcomed?: () => void;
  /** What replaces the agent by a later release; absent if it cannot be replaced. Its owner disposes of it. */
  updater?: Pick<Updater, 'ask' | 'failure'>;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  log: Logger;
  /** Where the lines of `log` also go, so that they can be read by the control plane. */
  ownLines?: OwnLines;
  /** The log of the log store, whose lines must not go to `ownLines`; `log` by default. */
  storeLog?: Logger;
}

/** A running agent. Disposal sends a goodbye and stops the agent: containers and their ports stay as they are. */
export interface Agent extends AsyncDisposable {
  readonly serverId: string;
  readonly backend: AgentHost;
  /** Resolves when every desired assignment was inspected since the start and the ports follow, or after 10 s. */
  settled(): Promise<void>;
  /** Resolves when the agent is to be removed from its machine, as its server was deleted. */
  readonly dismissed: Promise<void>;
}

/** What the agent keeps on disk. */
interface Files {
  desired: DesiredSet;
  ledger: Ledger;
  results: Results;
  made: MadeVolumes;
  logs: LogStore;
  metrics: MetricStore;
}

/** What works from its start until the agent stops. */
interface LiveParts {
  monitor: EngineMonitor;
  observer: Observer;
  ledger: Ledger;
  fleet: Fleet;
  publication: Publication;
  ingress: ServerIngress;
  identity: Identity;
  backend: AgentHost;
  uninstall: UninstallOrder;
  control: ControlPlane;
}

/** More starts or builds at once would make each of them slower. */
const parallelStarts = 4;
/** Each takes up to 32 MiB of memory. */
const parallelSegments = 3;
const examineMs = 30_000;
const segmentBytes = 8 * 1024 * 1024;
/** Used until the control plane has sent the retention of the server once: the longest that it can be. */
const retentionDays = 365;
/** The agent connects after this time, also if the engine or an instance does not answer. */
const settleMs = 10_000;
/** Time until the next attempt to record the containers that were found. */
const recordAgainMs = 5_000;

/**
 * Starts an agent from its data directory. Neither the control plane nor the engine needs to answer for that.
 * @throws Error if there is no identity, or a file of the data directory cannot be read or written
 */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { dataDir, engine, clock, log } = options;
  const { runtime, archiver } = engine;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const identity = await openIdentity(dataDir, options.joinToken);
  const server = identity.serverId;

  const stack = new AsyncDisposableStack();
  try {
    const { desired, ledger, results, made, logs, metrics } = await openFiles(options, identity, stack);
    const meter = stack.use(new LoadMeter({ clock, disk: options.disk }));
    const networks = new Set<string>();
    const control = new ControlPlane();
    const files = new InstanceFiles(join(dataDir, 'files'));
    const importFolder = await ImportFolder.open(options.imports?.folder ?? join(dataDir, 'imports'));
    const uploads = await Uploads.open({ folder: join(dataDir, 'uploads'), disk: options.disk, clock });
    const imports = { folder: importFolder, uploads, networks: options.imports?.networks ?? [] };
    const monitor = stack.use(new EngineMonitor({ engine, clock, log }));
    const observer: Observer = stack.use(
      new Observer({
        runtime,
        server,
        ledger,
        clock,
        log,
        changed: (ids) => fleet.changed(ids),
        told: (id, event) => fleet.told(id, event),
        listed: () => fleet.follow(),
        returned: () => {
          monitor.returned();
          fleet.wakeAll();
        },
        silent: (error) => monitor.silent(error),
      }),
    );
    stack.use(new Sampler({ meter, runtime, observer, store: metrics, clock, log }));
    const capture = stack.use(new Capture({ runtime, store: logs, clock, log }));
    const { disk, images } = options;
    const collector = new ImageCollector({ runtime, server, pulled: images.pulled, disk, clock, log });
    const cache = new BuildCache({ runtime, server, disk, log });
    const reports = (): WireReport[] => fleet.reports();
    const housekeeping = stack.use(
      new Housekeeping({
        runtime,
        server,
        desired,
        observer,
        logs,
        steps: engine.steps,
        networks,
        files,
        collector,
        cache,
        clones: options.clones,
        uploads,
        reports,
        clock,
        log,
      }),
    );
    const publication = stack.use(
      await Publication.open({
        publisher: engine.ports,
        path: join(dataDir, 'ports.json'),
        isSetKnown: desired.position() !== undefined,
        clock,
        log,
        changed: (ids) => fleet.portsChanged(ids),
      }),
    );
    const writers: VolumeWriters = new VolumeWriters(observer, (ids) => fleet.wake(ids));
    const ingress: ServerIngress = stack.use(
      new ServerIngress({
        folder: join(dataDir, 'ingress'),
        trafficFolder: join(dataDir, 'traffic'),
        openProxy: options.openProxy ?? mockProxy,
        opened: (ports) => publication.admit(ports),
        examine: async (assignment, command, signal) => {
          const running = observer.of(assignment).find(({ container }) => container.state === 'running');
          if (running === undefined) throw new Error('The proxy does not run');
          const { exitCode, output } = await runtime.run(
            running.container.id,
            command,
            { timeoutMs: examineMs },
            signal,
          );
          if (exitCode !== 0 && exitCode !== 1) throw new Error(`The examination ended with code ${exitCode}`);
          return exitCode === 0 ? undefined : output.slice(-500);
        },
        clock,
        log,
        changed: (ids) => fleet.wake(ids),
      }),
    );
    const notes = new SentNotes(join(dataDir, 'archives'));
    const fleet: Fleet = stack.use(
      new Fleet({
        services: {
          writers,
          runtime,
          server,
          observer,
          ledger,
          images: options.images,
          publication,
          capture,
          prober: engine.prober,
          starts: new PQueue({ concurrency: parallelStarts }),
          networks,
          files,
          ingress,
          disk: options.disk,
          eventSource: randomUUID(),
        },
        tasks: tasksOf({
          build: pinnedBuild(
            patientBuild(options.build, {
              disk: diskGuard(options.disk),
              room: new BuildRoom({ disk: options.disk, writes: (project) => runtime.stepWrites(project), clock }),
              engine: monitor,
              clock,
              relist: () => observer.relist(),
            }),
            { results, log },
          ),
          built: () => housekeeping.soon(),
          run: {
            runtime,
            server,
            observer,
            ledger,
            images: options.images,
            capture,
            writers,
            networks,
            disk: options.disk,
            ended: () => housekeeping.soon(),
            clock,
            log,
          },
          backup: options.backup ?? runBackup({ runtime, observer, archiver, control, clock, random: options.random }),
          restore:
            options.restore ??
            runRestore({
              runtime,
              observer,
              archiver,
              control,
              imports,
              disk: options.disk,
              clock,
              random: options.random,
            }),
          recovery: options.recovery ?? runRecovery({ runtime, observer, clock }),
        }),
        archives: {
          open:
            options.archive ??
            shipping({
              runtime,
              observer,
              control,
              disk: options.disk,
              notes,
              sending: new PQueue({ concurrency: parallelSegments }),
              clock,
            }),
          notes,
          random: options.random,
        },
        volumes: { runtime, server, made, copies: new VolumeCopies({ runtime, copier: engine.copier, clock }) },
        taskDeps: { results, logs },
        desired,
        observer,
        capture,
        clock,
        log,
      }),
    );
    stack.use(
      new StorageWatch({
        runtime,
        observer,
        disk: options.disk,
        exceeded: (id, overflow) => fleet.overflowed(id, overflow),
        clock,
        log,
      }),
    );
    const uninstall: UninstallOrder = stack.use(
      new UninstallOrder({ desired, fleet, observer, dataDir, isInstalled: options.isInstalled === true, clock, log }),
    );
    const backend = new SessionHost({
      desired,
      fleet,
      observer,
      logs,
      publication,
      load: () => ({
        ...meter.load,
        workloads: metrics.workloads,
        images_removed: collector.freed.images,
        images_freed_bytes: collector.freed.bytes,
      }),
      metrics: {
        read: (query, signal) => metrics.read(query, signal),
        newest: (signal) => newestSamples(meter, signal),
      },
      traffic: ingress.traffic,
      engine: () => stateOf(monitor, publication),
      gitHead: options.gitHead,
      dockerfiles: options.dockerfiles,
      repositories: options.repositories,
      terminals: new Terminals({ observer, runtime, shells: options.serverShells, log }),
      tunnels: new Tunnels({ observer, desired, clock }),
      uploads,
      importFolder,
      examiner: examinerOf(options, {
        server,
        desired,
        observer,
        monitor,
        publication,
        logs,
        housekeeping,
        fleet,
        made,
      }),
      queries: new InstanceQueries({ observer, runtime }),
      surveyor: new Surveyor({ runtime, images: options.images, clock }),
      isOpen: options.serverShells !== undefined,
      removals: new RemovalGuard(clock),
      images: options.images,
      housekeeping,
      updater: options.updater,
      uninstall,
      clock,
      log,
    });

    await meter.start();
    fleet.sync();
    const parts = { monitor, observer, ledger, fleet, publication, ingress };
    const settled = live(options, { ...parts, identity, backend, uninstall, control }, stack);
    const owned = stack.move();
    return {
      serverId: server,
      backend,
      settled: () => settled,
      dismissed: uninstall.dismissed,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** Opens what the agent keeps on disk; `stack` closes it. @throws Error if a file cannot be read or written */
async function openFiles(
  { dataDir, logBytes, clock, log, storeLog = log, ownLines }: AgentOptions,
  identity: Identity,
  stack: AsyncDisposableStack,
): Promise<Files> {
  // The key of the files comes from a signature that is never sent: without the identity the files cannot be read.
  const secret = Buffer.from(identity.sign(Buffer.from('setpoint agent at rest')), 'base64url');
  const file = (name: string): [string, Buffer] => [join(dataDir, name), deriveKey(secret, name)];
  const folder = join(dataDir, 'logs');
  const logs = stack.use(
    await LogStore.open({ folder, maxBytes: logBytes, segmentBytes, retentionDays, clock, log: storeLog }),
  );
  if (ownLines !== undefined) stack.defer(keepOwnLines(ownLines, logs, storeLog));
  return {
    desired: stack.use(await DesiredSet.open(...file('desired'))),
    ledger: stack.use(await Ledger.open(...file('ledger'))),
    results: stack.use(await Results.open(...file('results'))),
    made: stack.use(await MadeVolumes.open(...file('volumes'))),
    metrics: stack.use(await MetricStore.open({ folder: join(dataDir, 'metrics'), clock, log })),
    logs,
  };
}

/** Keeps the agent's own lines in the log store until the returned function is called. */
function keepOwnLines(ownLines: OwnLines, logs: LogStore, storeLog: Logger): () => void {
  const { signal } = new AbortController();
  return ownLines.passTo((entries) => {
    logs.append(agentSource, entries, signal).catch((error: unknown) => {
      storeLog.error({ err: error }, 'Cannot keep lines of the agent in the log store: they are in its own log only');
    });
  });
}

/** What examines and heals the machine. */
function examinerOf(
  {
    engine,
    images,
    controlPlane,
    disk,
    outside = realOutside,
    identities = identitiesHere,
    gitVersion: git = gitVersion,
    clock,
    log,
  }: AgentOptions,
  parts: Pick<LiveParts, 'observer' | 'monitor' | 'publication' | 'fleet'> &
    Pick<Files, 'desired' | 'logs' | 'made'> & { server: string; housekeeping: Housekeeping },
): Examiner {
  const { runtime, hasRules } = engine;
  const strays = straysOf({ ...parts, runtime, hasRules, identities, clock });
  const registries = () => images.registries;
  const world = surroundingsOf({
    ...parts,
    controlPlane: controlPlane ?? [],
    registries,
    disk,
    git,
    strays,
    hasRules,
    outside,
    clock,
    log,
  });
  return new Examiner({ checks, world, facts: (signal) => runtime.facts(signal), clock });
}

/** What the control plane is told of the engine: also what is wrong around it. */
function stateOf({ state }: EngineMonitor, { engineRules }: Publication): EngineState {
  const message = engineRules?.fault;
  return message === undefined ? state : { ...state, warnings: [{ reason: 'RulesMissing', message }] };
}

/**
 * Lets the agent observe its engine and connect to the control plane; `stack` ends both. It connects also while its
 * engine does not answer, so that users see why the server does nothing.
 *
 * @returns what resolves when the agent is settled, see {@link Agent.settled}
 */
function live(options: AgentOptions, parts: LiveParts, stack: AsyncDisposableStack): Promise<void> {
  const { clock, log } = options;
  const { monitor, observer } = parts;
  const stop = new AbortController();
  const watching = watch({ ...parts, clock, log }, stop.signal);
  const late = wait(clock, settleMs, stop.signal).catch(() => undefined); // rejects only when the agent stops
  const settled = Promise.race([watching, late]);
  const connected = Promise.race([settled, monitor.failed]).then(() => keepConnected(options, parts, stop.signal));
  stack.defer(async () => {
    stop.abort(new Error('The agent is stopping'));
    // The end of the observer ends `watching`; the connection sends a goodbye.
    await Promise.allSettled([observer[Symbol.asyncDispose](), watching, connected]);
  });
  connected.catch((error: unknown) =>
    log.error(
      { err: error },
      'The agent does not connect to the control plane any more, which is a bug: restart the agent',
    ),
  );
  return settled;
}

/** Connects to the control plane, if the agent has one, and again whenever the connection is lost. */
async function keepConnected(
  {
    controlPlane,
    dial,
    engine,
    version,
    isInstalled,
    welcomed,
    updater,
    serverShells,
    clock,
    random,
    log,
  }: AgentOptions,
  { monitor, identity, backend, uninstall, control }: LiveParts,
  signal: AbortSignal,
): Promise<void> {
  if (controlPlane === undefined || signal.aborted) return;
  await monitor.asked();
  await connect(
    {
      urls: controlPlane,
      ...(dial !== undefined && { dial }),
      identity,
      machine: await readMachine(identity.serverId),
      agentVersion: version,
      welcomed: (session) => {
        control.entered(session);
        welcomed?.();
      },
      ended: (end) => {
        control.left();
        uninstall.sessionEnded(end);
      },
      alsoCapable: [
        ...(isInstalled === true ? installedCapabilities : []),
        ...(updater === undefined ? [] : [updateCapability]),
      ],
      ...(serverShells === undefined && { forbids: [forbiddable.serverTerminals] }),
      runtime: () => ({ name: engine.runtime.name, version: monitor.state.version ?? 'unknown' }),
      backend,
      clock,
      random,
      log,
    },
    signal,
  );
}

/**
 * Observes the engine as soon as it answers and records the agent's containers in the ledger. Then lets the ports
 * follow the ready instances.
 */
async function watch(
  it: Pick<LiveParts, 'observer' | 'ledger' | 'fleet' | 'publication' | 'ingress'> & { clock: Clock; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { observer, fleet, publication, log } = it;
  try {
    await observer.start();
    await record(it, signal);
    fleet.sync();
    await fleet.settled(signal);
    if (!signal.aborted) await publication.release();
    if (!signal.aborted) it.ingress.release();
    // what is to end was kept until nothing leads to it
    fleet.wakeAll();
  } catch (error) {
    if (!signal.aborted)
      log.error({ err: error }, 'Ports do not follow the instances of this server, which is a bug: restart the agent');
  }
}

/** Records the containers that the agent made. Resolves when that is on disk. @throws Error once the signal aborts */
async function record(
  { observer, ledger, clock, log }: { observer: Observer; ledger: Ledger; clock: Clock; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      for (const id of observer.assignments())
        for (const { container, origin } of observer.of(id))
          if (origin === 'intended') await ledger.made(container.id, container.name);
      await ledger.complete(observer.ids());
      return;
    } catch (error) {
      log.error(
        { err: error },
        'Cannot record the containers of this server: ports do not follow its instances until the agent can, which tries again. Check the disk of the data directory',
      );
    }
    await wait(clock, recordAgainMs, signal);
  }
}
