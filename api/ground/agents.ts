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

/** The agents of all servers, whichever replica they are connected to. */
export interface Agents {
  /** Public key (Ed25519, raw, base64url) by which agents recognise this control plane. */
  controlKey(): string;
  /**
   * Returns the agent's answer. @throws CallError: `away` if the agent is not connected or disconnects, else its
   * refusal.
   */
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown>;
  /**
   * Round trips of these agents as they measured them, in milliseconds, by server. One is left out if it is not known
   * here and the replica that holds the agent did not tell it in time.
   */
  roundTrips(
    tenant: string,
    servers: readonly string[],
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<ReadonlyMap<string, number>>;
  /**
   * Yields chunks until the stream ends or the signal aborts. The agent sends no more than the reader takes. @throws
   * CallError
   */
  stream(
    tenant: string,
    server: string,
    params: LogStreamParams,
    options: { signal: AbortSignal },
  ): AsyncIterable<LogChunk>;
  /** Yields the newest measurement of the server, at once and every 5 s, until the signal aborts. @throws CallError */
  samples(tenant: string, server: string, options: { signal: AbortSignal }): AsyncIterable<ServerSample>;
  /** Yields the newest window of the traffic of a workload, at once and every 5 s, until the signal aborts. @throws CallError */
  traffic(
    tenant: string,
    server: string,
    workload: string,
    options: { signal: AbortSignal },
  ): AsyncIterable<TrafficSample>;
  /**
   * Opens a stream in both directions and yields its output until it ends or the signal aborts. The agent takes
   * `outgoing` as its process reads it. Leaving the loop stops both. @throws CallError, also if the agent's release does
   * not know such streams
   */
  duplex(
    tenant: string,
    server: string,
    params: TerminalParams | TunnelParams | ImportStreamParams,
    outgoing: AsyncIterable<Uint8Array>,
    options: { signal: AbortSignal },
  ): AsyncIterable<Uint8Array>;
}
