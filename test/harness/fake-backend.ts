import type { RegistryAccess } from '../../agent-protocol/registry-access.ts';
import { understand } from '../../agent-protocol/assignment.ts';
import type { WireConfiguration, WireItem, WireReport } from '../../agent-protocol/assignment.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogsToKeep } from '../../agent-protocol/logs.ts';
import type {
  CallParams,
  EngineState,
  Load,
  Position,
  StreamParams,
  UpdateFailure,
} from '../../agent-protocol/messages.ts';
import type { PortPolicy } from '../../agent-protocol/port-policy.ts';
import type { AgentUpdate, ServerSettings } from '../../agent-protocol/server-settings.ts';
import type { AgentHost } from '../../agent-protocol/agent-host.ts';

/** An agent without containers: it keeps the desired set in memory and reports what the test tells it to. */
export class FakeBackend implements AgentHost {
  items = new Map<string, WireItem>();
  /** Those that items refer to. */
  configurations = new Map<string, WireConfiguration['env']>();
  /** Every set that was stored: snapshots and deltas in order. */
  stored: ({ snapshot: Position; ids: string[] } | { delta: number; put: string[]; drop: string[] })[] = [];
  at: Position | undefined;
  retentionDays: number | undefined;
  ports: PortPolicy | undefined;
  /** Images that are to stay, by workload. */
  kept = new Map<string, readonly string[]>();
  acknowledgements: { ids: string[]; rejected: string[] }[] = [];
  /** Reports of an assignment when it was put, if set. */
  onPut: ((item: WireItem) => WireReport) | undefined;
  engineState: EngineState = { version: '1' };
  /** The update that the settings last asked for. */
  update: AgentUpdate | undefined;
  failedUpdate: UpdateFailure | undefined;
  /** Whether the control plane of the last session proved itself. */
  isProven: boolean | undefined;
  failStoring: Error | undefined;
  onCall: (params: CallParams, signal: AbortSignal) => Promise<unknown> = () => Promise.resolve({});
  onStream: (
    params: StreamParams,
    signal: AbortSignal,
    incoming: AsyncIterable<Uint8Array>,
  ) => AsyncIterable<Uint8Array> = () => {
    throw new CallError('unsupported', 'No streams here');
  };
  #reports = new Map<string, WireReport>();
  #listeners = new Set<(id: string) => void>();

  trusts(isProven: boolean): void {
    this.isProven = isProven;
  }

  position(): Position | undefined {
    return this.at;
  }

  async snapshot(
    position: Position,
    sent: readonly WireItem[],
    keep: readonly string[] = [],
    configurations: readonly WireConfiguration[] = [],
  ): Promise<void> {
    if (this.failStoring !== undefined) throw this.failStoring;
    this.#configure(sent, configurations);
    this.at = position;
    const before = this.items;
    const kept = keep.flatMap((id) => before.get(id) ?? []);
    const items = [...kept, ...sent];
    this.items = new Map(items.map((item) => [item.id, item]));
    this.stored.push({ snapshot: position, ids: items.map((item) => item.id).sort() });
    for (const item of items) this.#put(item);
    for (const id of before.keys()) if (!this.items.has(id)) this.#drop(id);
    this.#forget();
  }

  async delta(
    to: number,
    put: readonly WireItem[],
    drop: readonly string[],
    configurations: readonly WireConfiguration[] = [],
  ): Promise<void> {
    if (this.failStoring !== undefined) throw this.failStoring;
    this.#configure(put, configurations);
    if (this.at === undefined) throw new Error('A delta must follow a snapshot');
    this.at = { ...this.at, revision: to };
    this.stored.push({ delta: to, put: put.map((item) => item.id).sort(), drop: [...drop].sort() });
    for (const item of put) {
      this.items.set(item.id, item);
      this.#put(item);
    }
    for (const id of drop) this.#drop(id);
    this.#forget();
  }

  /** The variables that the process of an item is given; `undefined` for what must not be started. */
  envOf(id: string): Record<string, string> | undefined {
    const item = this.items.get(id);
    const { run, spec } = (item && understand(item)) ?? {};
    if (spec?.type !== 'service' || run === 'stopped') return undefined;
    return spec.configuration?.env ?? (spec.config === undefined ? {} : this.configurations.get(spec.config));
  }

  /** The state of an assignment changed. */
  setReport(report: WireReport): void {
    this.#reports.set(report.id, report);
    for (const listener of this.#listeners) listener(report.id);
  }

  reports(): WireReport[] {
    return [...this.#reports.values()];
  }

  onReport(listener: (id: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  report(id: string): WireReport | undefined {
    return this.#reports.get(id);
  }

  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void {
    this.acknowledgements.push({ ids: reports.map((report) => report.id), rejected: [...rejected] });
    for (const report of reports)
      if (report.gone === true && !rejected.has(report.id) && this.#reports.get(report.id)?.gone === true)
        this.#reports.delete(report.id);
  }

  engine(): EngineState {
    return this.engineState;
  }

  updateFailure(): UpdateFailure | undefined {
    return this.failedUpdate;
  }

  load(): Load {
    return {
      cpu_percent: 1,
      cores: 2,
      load1: 0.1,
      memory_used_bytes: 1,
      memory_total_bytes: 2,
      disk_used_bytes: 1,
      disk_total_bytes: 2,
      network_rx_bps: 0,
      network_tx_bps: 0,
    };
  }

  /** What images of workloads are pulled with, as it was sent last. */
  readonly registryAccesses = new Map<string, RegistryAccess>();

  registryAccess(workloads: Readonly<Record<string, RegistryAccess | null>>, whole: boolean): void {
    if (whole) this.registryAccesses.clear();
    for (const [workload, access] of Object.entries(workloads))
      if (access === null) this.registryAccesses.delete(workload);
      else this.registryAccesses.set(workload, access);
  }

  keepImages(images: Readonly<Record<string, readonly string[]>>, whole: boolean): void {
    if (whole) this.kept.clear();
    for (const [workload, digests] of Object.entries(images))
      if (digests.length > 0) this.kept.set(workload, digests);
      else this.kept.delete(workload);
  }

  /** The messages `logs.keep`, as they came. */
  readonly keptLogs: LogsToKeep[] = [];

  keepLogs({ whole, more, workloads }: LogsToKeep): void {
    this.keptLogs.push({ whole, more, workloads });
  }

  call(params: CallParams, signal: AbortSignal): Promise<unknown> {
    return this.onCall(params, signal);
  }

  stream(params: StreamParams, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncIterable<Uint8Array> {
    return this.onStream(params, signal, incoming);
  }

  configure({ logRetentionDays, ports, update }: ServerSettings): void {
    this.retentionDays = logRetentionDays;
    this.ports = ports;
    this.update = update;
  }

  #configure(items: readonly WireItem[], configurations: readonly WireConfiguration[]): void {
    const given = new Map(configurations.map(({ id, env }) => [id, env]));
    for (const item of items) {
      const { id, run, spec } = understand(item) ?? {};
      if (run !== 'running' || spec?.type !== 'service' || spec.config === undefined) continue;
      if (!given.has(spec.config) && !this.configurations.has(spec.config))
        throw new Error(`Configuration of ${id} did not come`);
    }
    for (const [id, env] of given) this.configurations.set(id, env);
  }

  #forget(): void {
    const referred = new Set([...this.items.values()].map(({ spec }) => spec['config']));
    for (const id of this.configurations.keys()) if (!referred.has(id)) this.configurations.delete(id);
  }

  #put(item: WireItem): void {
    if (this.onPut !== undefined) this.setReport(this.onPut(item));
  }

  #drop(id: string): void {
    this.items.delete(id);
    const known = this.#reports.get(id);
    if (known !== undefined) this.setReport({ ...known, phase: 'stopped', ready: false, stable: false, gone: true });
  }
}

/** What an agent says of a service that runs and is ready. */
export function running(item: Pick<WireItem, 'id' | 'generation'>): WireReport {
  return {
    id: item.id,
    generation: item.generation,
    phase: 'running',
    ready: true,
    stable: true,
    container_id: `c-${item.id.slice(0, 8)}`,
    restarts: 0,
    crash_loop: false,
  };
}
