import type { CallParams } from '../../agent-protocol/messages.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Look } from '../ssh/machines.ts';
import type { Context } from '../runtime/controller.ts';

export type Operation = ReadonlyResource<'operation'>;

/** The calls of agents that an operation needs. */
export interface AgentCalls {
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown>;
}

/** What an operation needs of the machines that are reached by SSH. */
export interface LookAtMachine {
  /** @throws SshFailure */
  look(server: ReadonlyResource<'server'>, view: TenantView, signal: AbortSignal): Promise<Look>;
}

/** What a run may use. */
export interface RunTools {
  agents: AgentCalls;
  machines: LookAtMachine;
  ctx: Context;
  /** Aborts at the deadline of the operation, and when the leader must end its work. */
  signal: AbortSignal;
  /** Time from the start of the run to that deadline. */
  timeoutMs: number;
}

/**
 * Carries out operations of one type and returns the result. A crash or a new leader repeats it from the start, so that
 * it must do no harm twice. Its writes are those of `ctx`.
 *
 * @throws OperationFailure or CallError, whose code and message become those of the operation. The text of any other
 *   error stays in the log.
 */
export type Run = (it: Operation, tools: RunTools) => Promise<Record<string, unknown>>;

/** Why an operation failed, beside the codes of calls to agents. */
export type OperationFailureCode = 'not_found' | 'invalid_source';

/** An operation cannot be carried out; `message` is for the user who requested it. */
export class OperationFailure extends Error {
  readonly code: OperationFailureCode;

  constructor(code: OperationFailureCode, message: string) {
    super(message);
    this.name = 'OperationFailure';
    this.code = code;
  }
}
