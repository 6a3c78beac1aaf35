import type { WireAssignment, WireConfiguration, WireReport } from '../agent-protocol/assignment.ts';
import type { ServerSettings } from '../agent-protocol/server-settings.ts';
import type { CallParams, EngineState, Load, Position, StreamParams } from '../agent-protocol/messages.ts';

/**
 * What the connection needs of the rest of the agent. The agent reconciles without any connection; a connection only
 * brings new desired sets, takes reports away and serves calls and streams.
 */
export interface Backend {
  /** A session begins. Whether its control plane proved itself: of one that did not, few removals are followed. */
  trusts(isProven: boolean): void;
  /** Where the desired set on disk stands; `undefined`: there is none. */
  position(): Position | undefined;
  /**
   * Replaces the set; items of `keep` that it does not hold stay as they are. Resolves when it is on disk (fsync) and the
   * workers were woken; rejects, and changes nothing, if an item refers to a configuration that is neither given nor on
   * disk.
   */
  snapshot(
    position: Position,
    items: readonly WireAssignment[],
    keep: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void>;
  /**
   * Changes the set. `from` was checked by the caller to be the current revision. An id in `drop` for which
   * {@link report} answers `undefined` after this resolved is told to the control plane as gone: while a container of
   * it may exist, there must be a report.
   */
  delta(
    to: number,
    put: readonly WireAssignment[],
    drop: readonly string[],
    configurations: readonly WireConfiguration[],
  ): Promise<void>;
  /** The latest report of every known assignment, and of the gone ones not yet acknowledged. */
  reports(): WireReport[];
  /** Called with the id of each assignment whose report changed. */
  onReport(listener: (id: string) => void): () => void;
  report(id: string): WireReport | undefined;
  /**
   * The control plane stored these reports: gone ones need not be repeated, events that they carried may be dropped.
   * `rejected` ones were not stored and are sent again by the caller.
   */
  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void;
  load(): Load;
  engine(): EngineState;
  /** @throws CallError with a code and a message for the user. */
  call(params: CallParams, signal: AbortSignal): Promise<unknown>;
  /**
   * Bytes of the stream (for logs: `encodeLogChunk` of `agent-protocol/log-stream.ts`); pulling is the back-pressure.
   * Ends when the source ended or the signal aborts.
   */
  stream(params: StreamParams, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Settings that came with the welcome. */
  configure(settings: ServerSettings): void;
  /** Images that are to stay although nothing runs on them, by workload; `whole`: others are forgotten. */
  keepImages(images: Readonly<Record<string, readonly string[]>>, whole: boolean): void;
}
