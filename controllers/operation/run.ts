import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Provisioning } from '../../store/kinds/operation.ts';
import type { Look, Visit } from '../ssh/machines.ts';
import type { JoinTokens } from '../provision/join-tokens.ts';
import type { Turns } from '../provision/turns.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Sealer, Unsealer } from '../../store/seal.ts';
import type { Because, Context } from '../runtime/controller.ts';

export type Operation = ReadonlyResource<'operation'>;

/** What an operation needs of the machines that are reached by SSH. */
export interface ReachMachines {
  /** @throws SshFailure */
  look(server: ReadonlyResource<'server'>, view: TenantView, signal: AbortSignal): Promise<Look>;
  /** Logs in, calls `use`, and leaves. @throws SshFailure; what `use` throws */
  visit<T>(
    server: ReadonlyResource<'server'>,
    view: TenantView,
    signal: AbortSignal,
    use: (visit: Visit) => Promise<T>,
  ): Promise<T>;
}

/** What machines get from this installation. */
export interface Installation {
  /** The script that installs the agent; `fault`: there is no release of it, or one that cannot be served. */
  script(): Promise<{ script: string } | { fault: 'absent' | 'damaged' }>;
  /** The address under which the agents of a tenant reach the control plane. */
  address(tenant: string): string;
  /** Whether agents on other machines may reach it without TLS. */
  readonly allowPlainHttp: boolean;
  /** Makes a token that lets one agent join as that server. */
  joinToken(server: string): string;
}

/** What a run may use. */
export interface RunTools {
  agents: AgentCalls;
  machines: ReachMachines;
  installation: Installation;
  /** Join tokens that are on their way to machines. */
  tokens: JoinTokens;
  /** Bounds the attempts of provisioning that go on at once. */
  turns: Turns;
  ctx: Context;
  /** Opens the variables of an application, and seals what follows from them. */
  secrets: Sealer & Unsealer;
  /** What a build under way counts as. */
  buildDeadlineMs: number;
  /** Aborts at the deadline of the operation, and when the leader must end its work. */
  signal: AbortSignal;
  /** Time from the start of the run to that deadline. */
  timeoutMs: number;
}

/** What a run returns that has done a part: it is called again after that time. */
export class Unfinished {
  readonly provisioning: Provisioning | undefined;
  readonly againMs: number;
  readonly because: Because;

  constructor(provisioning: Provisioning | undefined, againMs: number, because: Because) {
    this.provisioning = provisioning;
    this.againMs = againMs;
    this.because = because;
  }
}

/**
 * Carries out operations of one type and returns the result. A crash or a new leader repeats it from the start, so that
 * it must do no harm twice. Its writes are those of `ctx`.
 *
 * @throws OperationFailure or CallError, whose code and message become those of the operation. The text of any other
 *   error stays in the log.
 */
export type Run = (it: Operation, tools: RunTools) => Promise<Record<string, unknown> | Unfinished>;

/** Why an operation failed, beside the codes of calls to agents. */
export type OperationFailureCode =
  | 'not_found'
  | 'invalid_source'
  | 'compose_refused'
  | 'superseded'
  | 'timeout'
  | 'failed';

/** An operation cannot be carried out; `message` is for the user who requested it. */
export class OperationFailure extends Error {
  readonly code: OperationFailureCode;
  /** How far a provisioning had come. */
  readonly provisioning: Provisioning | undefined;

  constructor(code: OperationFailureCode, message: string, provisioning?: Provisioning) {
    super(message);
    this.name = 'OperationFailure';
    this.code = code;
    this.provisioning = provisioning;
  }
}
