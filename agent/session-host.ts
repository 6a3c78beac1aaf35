import type { Logger } from 'pino';
import type { WireConfiguration, WireItem, WireReport } from '../agent-protocol/assignment.ts';
import { CallError } from '../agent-protocol/call-error.ts';
import { encodeLogChunk } from '../agent-protocol/log-stream.ts';
import type { LogFollow, LogsToKeep } from '../agent-protocol/logs.ts';
import type {
  CallParams,
  EngineState,
  ImportFile,
  Load,
  Position,
  StreamParams,
  UpdateFailure,
} from '../agent-protocol/messages.ts';
import type { MetricsPage, MetricsQuery } from '../agent-protocol/metrics.ts';
import type { RegistryAccess } from '../agent-protocol/registry-access.ts';
import type { ServerSettings } from '../agent-protocol/server-settings.ts';
import type { AgentHost } from '../agent-protocol/agent-host.ts';
import type { Examiner } from './diagnose/examiner.ts';
import type { Surveyor } from './survey/surveyor.ts';
import type { DesiredSet } from './desired/desired.ts';
import type { Fleet } from './fleet.ts';
import type { Functions } from './functions/functions.ts';
import type { InstanceQueries } from './instance-queries.ts';
import type { Housekeeping } from './housekeeping.ts';
import type { ImageStore } from './engine/image-store.ts';
import type { LogStore } from './logs/log-store.ts';
import type { Observer } from './engine/observer.ts';
import type { Terminals } from './terminals.ts';
import type { Tunnels } from './tunnels.ts';
import type { ImportFolder } from './imports/import-folder.ts';
import { ImportFault } from './imports/import-fault.ts';
import { judgeFile } from './imports/judge-head.ts';
import type { Uploads } from './imports/uploads.ts';
import type { Traffic } from './ingress/traffic.ts';
import type { Publication } from './ports/publication.ts';
import type { RemovalGuard } from './desired/removal-guard.ts';
import { RuntimeFailure } from './runtime/runtime.ts';
import type { UninstallOrder } from './uninstall/order.ts';
import type { FindTag, ReadHead } from './tasks/read-head.ts';
import type { Clock } from '../time/clock.ts';
import { buildNote } from './tasks/build-note.ts';
import type { ReadRepository } from './tasks/read-repository.ts';
import type { PreviewDockerfile } from './tasks/generated-dockerfile.ts';
import type { Updater } from './update/updater.ts';

export interface SessionHostDeps {
  desired: DesiredSet;
  fleet: Fleet;
  observer: Observer;
  logs: LogStore;
  publication: Publication;
  load: () => Load;
  metrics: {
    read(query: MetricsQuery, signal: AbortSignal): Promise<MetricsPage>;
    newest(signal: AbortSignal): AsyncIterable<Uint8Array>;
  };
  traffic: Pick<Traffic, 'read' | 'newest'>;
  engine: () => EngineState;
  gitHead: ReadHead;
  gitTag: FindTag;
  dockerfiles: PreviewDockerfile;
  repositories: ReadRepository;
  terminals: Pick<Terminals, 'open'>;
  tunnels: Pick<Tunnels, 'open'>;
  uploads: Pick<Uploads, 'receive' | 'requireSpace'>;
  importFolder: Pick<ImportFolder, 'file'>;
  examiner: Pick<Examiner, 'examine' | 'heal'>;
  surveyor: Pick<Surveyor, 'survey' | 'values'>;
  queries: Pick<InstanceQueries, 'run' | 'usage'>;
  functions: Pick<Functions, 'ask' | 'executions'>;
  /** The operator of the machine allows terminals of it, and so every read of what is there. */
  isOpen: boolean;
  removals: RemovalGuard;
  images: Pick<ImageStore, 'allow' | 'logins'>;
  housekeeping: Pick<Housekeeping, 'soon' | 'keepImages'>;
  /** Absent if the agent cannot be replaced. */
  updater: Pick<Updater, 'ask' | 'failure'> | undefined;
  uninstall: Pick<UninstallOrder, 'take'>;
  clock: Clock;
  log: Logger;
}

type CallOf<Method extends CallParams['method']> = Extract<CallParams, { method: Method }>;

/** The agent as its connection sees it. */
export class SessionHost implements AgentHost {
  readonly #deps: SessionHostDeps;
  #isProven = false;

  constructor(deps: SessionHostDeps) {
    this.#deps = deps;
  }

  trusts(isProven: boolean): void {
    this.#isProven = isProven;
  }

  position(): Position | undefined {
    return this.#deps.desired.position();
  }

  async snapshot(
    position: Position,
    items: readonly WireItem[],
    keep: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void> {
    const { desired, fleet, housekeeping, publication } = this.#deps;
    const first = !desired.confirmed;
    // Only a control plane that proved itself can remove items by leaving them out of a snapshot.
    const kept = this.#isProven ? keep : [...desired.all()].map(({ id }) => id);
    const changed = await desired.snapshot(position, items, kept, configurations);
    // Only after the first set since the start is it known which containers are no longer desired: sync all.
    if (first) fleet.sync();
    else fleet.sync(changed);
    publication.desiredSetArrived();
    housekeeping.soon();
  }

  async delta(
    to: number,
    put: readonly WireItem[],
    drop: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void> {
    const { desired, fleet, observer, housekeeping } = this.#deps;
    const dropped = this.#followed(drop);
    fleet.sync(await desired.delta(to, put, dropped, configurations));
    if (!observer.reachable) fleet.expect(dropped);
    if (dropped.length > 0) housekeeping.soon();
  }

  /** Returns the ids of `drop` that the agent follows. */
  #followed(drop: readonly string[]): readonly string[] {
    const { desired, removals, log } = this.#deps;
    const known = drop.filter((id) => desired.has(id));
    if (this.#isProven || known.length === 0) return drop;
    if (removals.admits(known.length, [...desired.all()].length)) return drop;
    log.error(
      {
        held: known.length,
        advice: 'Upgrade the control plane: then it proves its identity, and the agent removes them',
      },
      'A control plane that did not prove its identity orders to remove most instances of this server: they stay',
    );
    return drop.filter((id) => !desired.has(id));
  }

  reports(): WireReport[] {
    return this.#deps.fleet.reports();
  }

  onReport(listener: (id: string) => void): () => void {
    return this.#deps.fleet.onReport(listener);
  }

  report(id: string): WireReport | undefined {
    return this.#deps.fleet.report(id);
  }

  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void {
    const { fleet, housekeeping, log } = this.#deps;
    // only now nothing is in its network any more: its connections and its process may have taken their time to end
    if (reports.some(({ gone }) => gone === true)) housekeeping.soon();
    fleet.acknowledged(reports.filter(({ id }) => !rejected.has(id))).catch((error: unknown) => {
      // The removals stay unsettled: they are reported again after the next connection.
      log.error(
        { err: error },
        'Cannot store which removals were acknowledged: the agent reports them again at its next connection',
      );
    });
  }

  registryAccess(workloads: Readonly<Record<string, RegistryAccess | null>>, whole: boolean): void {
    this.#deps.images.logins.learn(workloads, whole);
  }

  keepImages(images: Readonly<Record<string, readonly string[]>>, whole: boolean): void {
    this.#deps.housekeeping.keepImages(images, whole);
  }

  keepLogs(keep: LogsToKeep): void {
    // One that did not prove itself could be anyone, and what it leaves out would be removed.
    if (!this.#isProven) return;
    const { logs, housekeeping, log } = this.#deps;
    if (Object.values(keep.workloads).includes(null)) housekeeping.soon();
    logs.keep(keep).catch((error: unknown) => {
      log.error(
        { err: error },
        'Cannot store which logs of builds are to stay: the agent tries again at its next connection',
      );
    });
  }

  load(): Load {
    return this.#deps.load();
  }

  engine(): EngineState {
    return this.#deps.engine();
  }

  updateFailure(): UpdateFailure | undefined {
    return this.#deps.updater?.failure;
  }

  async call(params: CallParams, signal: AbortSignal): Promise<unknown> {
    const { logs, examiner, surveyor } = this.#deps;
    switch (params.method) {
      case 'ping':
        return {};
      case 'logs.read':
        return translated(() => logs.read(params.query, signal));
      case 'logs.server':
        return translated(() => logs.readServer(params.query, signal));
      case 'logs.storage':
        return logs.storage();
      case 'metrics.read':
        return this.#deps.metrics.read(params.query, signal);
      case 'traffic.read':
        return this.#deps.traffic.read(params.query);
      case 'diagnose':
        return examiner.examine(signal);
      case 'heal':
        return examiner.heal(params.checks, signal);
      case 'survey':
        return translated(() => surveyor.survey(signal));
      case 'survey.values':
        return translated(() => this.#surveyedValues(params.containers, signal));
      case 'instance.command':
        return translated(() => this.#deps.queries.run(params, signal));
      case 'volume.usage':
        return translated(() => this.#deps.queries.usage(params.volume, signal));
      case 'import.look':
        return translated(() => this.#lookAt(params));
      case 'uninstall':
        await this.#deps.uninstall.take(this.#isProven);
        return {};
      case 'git.head':
      case 'git.tag':
        return translated(() => this.#asksGit(params, signal));
      case 'dockerfile.generate':
        return translated(() => this.#deps.dockerfiles(params, signal));
      case 'repository.read':
        return translated(() => this.#readRepository(params, signal));
      case 'build.note':
        return this.#noteBuild(params, signal);
      default:
        return this.#ofFunctions(params, signal);
    }
  }

  #noteBuild(params: Extract<CallParams, { method: 'build.note' }>, signal: AbortSignal): object {
    for (const text of params.lines) buildNote(this.#deps, params, signal)(text);
    return {};
  }

  #asksGit(params: Extract<CallParams, { method: 'git.head' | 'git.tag' }>, signal: AbortSignal): Promise<unknown> {
    const { gitHead, gitTag } = this.#deps;
    const { repository_url: url, credential } = params;
    if (params.method === 'git.tag') return gitTag({ url, pattern: params.tag_pattern, credential }, signal);
    const { branch, since, after } = params;
    return gitHead({ url, branch, since, after, credential }, signal);
  }

  #readRepository(params: CallOf<'repository.read'>, signal: AbortSignal): Promise<unknown> {
    const { workload, instance } = params;
    const isNoted = workload !== undefined && instance !== undefined;
    const line = isNoted ? buildNote(this.#deps, { workload, instance }, signal) : () => undefined;
    return this.#deps.repositories(params, line, signal);
  }

  #ofFunctions(params: CallOf<'function.call' | 'function.executions'>, signal: AbortSignal): Promise<unknown> {
    const { functions } = this.#deps;
    return params.method === 'function.executions'
      ? functions.executions(params)
      : translated(() => functions.ask(params, signal));
  }

  async #lookAt({ path, engine }: CallOf<'import.look'>): Promise<ImportFile> {
    await using file = await this.#deps.importFolder.file(path);
    await judgeFile(file, engine);
    const { size } = await file.stat();
    await this.#deps.uploads.requireSpace(size);
    return { size_bytes: size };
  }

  async #surveyedValues(containers: readonly string[], signal: AbortSignal): Promise<unknown> {
    if (!this.#deps.isOpen)
      throw new CallError(
        'forbidden',
        'The operator of the machine allows no terminals of the server, and so no values of what is there: start its agent without --no-server-terminals, or move by hand',
      );
    if (!this.#isProven)
      throw new CallError(
        'forbidden',
        'The control plane did not prove its identity to the agent, which gives no values of variables: upgrade the control plane',
      );
    return this.#deps.surveyor.values(containers, signal);
  }

  stream(params: StreamParams, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncIterable<Uint8Array> {
    switch (params.kind) {
      case 'logs':
        return this.#logs(params.follow, signal);
      case 'exec':
      case 'shell':
        return this.#deps.terminals.open(params, incoming, signal);
      case 'tunnel':
        return this.#deps.tunnels.open(params, incoming, signal);
      case 'import':
        return this.#deps.uploads.receive(params, incoming, signal);
      case 'metrics':
        return this.#deps.metrics.newest(signal);
      case 'traffic':
        return this.#deps.traffic.newest(params.workload, signal);
    }
  }

  async *#logs(follow: LogFollow, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#deps.logs.follow(follow, () => this.#hasEnded(follow), signal))
      yield encodeLogChunk(chunk);
  }

  configure({ logRetentionDays, ports, registries, update }: ServerSettings): void {
    const { logs, log, images, publication, updater, fleet } = this.#deps;
    // One that did not prove itself could be anyone.
    if (update !== undefined && this.#isProven) updater?.ask(update);
    // ports that the agent itself listens at may have to be closed
    if (ports !== undefined && publication.allow(ports)) fleet.wakeAll();
    if (registries !== undefined)
      images.allow(registries).catch((error: unknown) => {
        log.error(
          { err: error },
          'Cannot store the allowed registries: after a restart the former ones hold until the control plane is reached',
        );
      });
    logs.retain(logRetentionDays).catch((error: unknown) => {
      log.error(
        { err: error },
        'Cannot keep logs as long as the server says: the agent tries again at its next connection',
      );
    });
  }

  /** Whether all of them have ended. Only tasks end: a service may always write again. */
  #hasEnded({ instance_ids: ids }: LogFollow): boolean {
    return ids !== undefined && ids.length > 0 && ids.every((id) => this.#deps.fleet.hasEnded(id));
  }
}

/** Turns errors of the request or of its subject into a CallError, whose message is for the user. */
async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ImportFault) throw new CallError(error.code, error.message, { cause: error });
    if (error instanceof RuntimeFailure) throw new CallError(error.code, error.message, { cause: error });
    if (error instanceof RangeError) throw new CallError('invalid', error.message, { cause: error });
    throw error;
  }
}
