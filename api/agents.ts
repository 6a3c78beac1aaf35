import type { LogChunk } from '../agent-protocol/logs.ts';
import type { CallParams, StreamParams } from '../agent-protocol/messages.ts';

/** The agents of all servers, wherever their connections end. */
export interface Agents {
  /** Public key (Ed25519, raw, base64url) by which agents are to know this control plane. */
  controlKey(): string;
  /** The agent's answer. @throws CallError: `away` if it is not connected or goes meanwhile, else its refusal. */
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown>;
  /** Chunks until the stream ends or the signal aborts; what the reader does not take, the agent does not send. @throws CallError */
  stream(
    tenant: string,
    server: string,
    params: StreamParams,
    options: { signal: AbortSignal },
  ): AsyncIterable<LogChunk>;
}
