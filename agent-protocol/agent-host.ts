import type { WireConfiguration, WireItem, WireReport } from './assignment.ts';
import type { LogsToKeep } from './logs.ts';
import type { CallParams, EngineState, Load, Position, StreamParams, UpdateFailure } from './messages.ts';
import type { RegistryAccess } from './registry-access.ts';
import type { ServerSettings } from './server-settings.ts';

/**
 * What the connection needs from the rest of the agent. The agent reconciles without any connection; a connection only
 * brings new desired sets, sends reports, and serves calls and streams.
 */
export interface AgentHost {
  /** A session begins. `isProven`: the control plane proved itself; otherwise the agent follows few of its removals. */
  trusts(isProven: boolean): void;
  /** Position of the desired set on disk; `undefined`: there is no set. */
  position(): Position | undefined;
  /**
   * Replaces the set; known items that `keep` lists and `items` lacks stay as they are. Resolves when the set is on
   * disk (fsync) and the workers were woken. Rejects, and changes nothing, if an item refers to a configuration that is
   * neither given nor on disk.
   */
  snapshot(
    position: Position,
    items: readonly WireItem[],
    keep: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void>;
  /**
   * Changes the set. The caller has checked that the delta continues the current revision. If {@link report} returns
   * `undefined` for an id in `drop` after this resolved, the caller reports the id as gone: while a container of it may
   * exist, there must be a report.
   */
  delta(
    to: number,
    put: readonly WireItem[],
    drop: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void>;
  /** The latest report of every known assignment, and of gone assignments until they are acknowledged. */
  reports(): WireReport[];
  /** Calls the listener with the id of each assignment whose report changed. Returns a function that removes it. */
  onReport(listener: (id: string) => void): () => void;
  report(id: string): WireReport | undefined;
  /**
   * The control plane stored these reports: gone assignments need not be reported again, and the events in the reports
   * may be dropped. Reports in `rejected` were not stored; the caller sends them again.
   */
  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void;
  load(): Load;
  engine(): EngineState;
  /** Why the update that the settings last asked for failed; `undefined`: it did not. */
  updateFailure(): UpdateFailure | undefined;
  /** @throws CallError with a code and a message for the user */
  call(params: CallParams, signal: AbortSignal): Promise<unknown>;
  /**
   * Yields the output of the stream (for logs: `encodeLogChunk` of `agent-protocol/log-stream.ts`). It produces only
   * what the reader pulls. Ends when the source ends or the signal aborts.
   *
   * `incoming` is the input of a duplex stream, and empty for other streams. The control plane sends only what is read
   * of it; its `return` takes effect at once. Input that is not being read when the output ends is not sent any more.
   */
  stream(params: StreamParams, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Applies the settings of the welcome, and later changes of them. */
  configure(settings: ServerSettings): void;
  /** What images of workloads are pulled with; `null`: nothing any more. `whole`: all others are forgotten. */
  registryAccess(workloads: Readonly<Record<string, RegistryAccess | null>>, whole: boolean): void;
  /** Digests of images to keep although no container uses them, by workload. `whole`: all others are forgotten. */
  keepImages(images: Readonly<Record<string, readonly string[]>>, whole: boolean): void;
  /** Which logs stay whatever their age, and which workloads are gone with their logs. */
  keepLogs(keep: LogsToKeep): void;
}
