import type { CallParams } from '../../agent-protocol/messages.ts';

/** Calls of the agents of servers, whichever replica they are connected to. */
export interface AgentCalls {
  /** @throws CallError */
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown>;
}
