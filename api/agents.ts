import type { LogChunk } from '../agent-protocol/logs.ts';
import type { CallParams, StreamParams } from '../agent-protocol/messages.ts';

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
   * Yields chunks until the stream ends or the signal aborts. The agent sends no more than the reader takes. @throws
   * CallError
   */
  stream(
    tenant: string,
    server: string,
    params: StreamParams,
    options: { signal: AbortSignal },
  ): AsyncIterable<LogChunk>;
}
