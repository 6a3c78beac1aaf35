import type { EngineRules } from './engine-rules.ts';

/** Address and port of a ready instance. */
export interface PortBackend {
  address: string;
  port: number;
}

/** Why a port does not lead to its instances. */
export interface PortProblem {
  /** `port_taken`: the instance may not have the port. `runtime_unavailable`: a later try may succeed. */
  code: 'port_taken' | 'runtime_unavailable';
  message: string;
}

/** Makes ports of the server lead to instances. */
export interface PortPublisher {
  /**
   * Publishes exactly these ports, each with the instances that it leads to. A port without an instance is held and
   * refuses connections. Atomic per call. Resolves with the ports that do not lead to their instances, each with the
   * reason.
   * @throws Error if nothing could be changed
   */
  apply(
    ports: ReadonlyMap<number, readonly PortBackend[]>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<number, PortProblem>>;
  /**
   * Blocks what instances must not reach, where nothing does: before it is known which ports there are. `apply` does so, too.
   *
   * @throws Error if nothing could be changed
   */
  guard(signal: AbortSignal): Promise<void>;
  /** Lets instances reach these ports of the machine itself, and no others, from the next `apply` on. */
  admit(ports: readonly number[]): void;
  /** Forgets connections that were led to these addresses and have ended. Their network can then be taken down. */
  forgetEnded(addresses: readonly string[], signal: AbortSignal): Promise<void>;
  /** Ports that lead to their instances since the last `apply`, but not for all sources, each with what is missing. */
  readonly notices: ReadonlyMap<number, string>;
  /** The rules that the container engine needs for itself; absent: ports lead to instances without rules. */
  readonly engineRules?: EngineRules;
}
