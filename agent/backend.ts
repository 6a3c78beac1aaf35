import type { WireAssignment, WireReport } from '../agent-protocol/assignment.ts';
import type { CallParams, Load, Position, StreamParams } from '../agent-protocol/messages.ts';

/**
 * What the connection needs of the rest of the agent. The agent reconciles without any connection; a connection only
 * brings new desired sets, takes reports away and serves calls and streams.
 */
export interface Backend {
  /** Where the desired set on disk stands; `undefined`: there is none. */
  position(): Position | undefined;
  /** Replaces the set. Resolves when it is on disk (fsync) and the workers were woken. */
  snapshot(position: Position, items: readonly WireAssignment[]): Promise<void>;
  /** Changes the set. `from` was checked by the caller to be the current revision. */
  delta(to: number, put: readonly WireAssignment[], drop: readonly string[]): Promise<void>;
  /** The latest report of every known assignment, and of the gone ones not yet acknowledged. */
  reports(): WireReport[];
  /** Called with the id of each assignment whose report changed. */
  onReport(listener: (id: string) => void): () => void;
  report(id: string): WireReport | undefined;
  /** The control plane stored these reports: gone ones need not be repeated. `rejected` ones were not stored. */
  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void;
  load(): Load;
  /** @throws CallError with a code and a message for the user. */
  call(params: CallParams, signal: AbortSignal): Promise<unknown>;
  /** Bytes of the stream; pulling is the back-pressure. Ends when the source ended or the signal aborts. */
  stream(params: StreamParams, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Settings that came with the welcome. */
  configure(settings: { logRetentionDays: number }): void;
}
