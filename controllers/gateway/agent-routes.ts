import { CallError } from '../../agent-protocol/call-error.ts';
import { decodeLogChunks } from '../../agent-protocol/log-stream.ts';
import type { LogChunk } from '../../agent-protocol/logs.ts';
import { decodeSamples } from '../../agent-protocol/metrics.ts';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import { decodeTraffic } from '../../agent-protocol/traffic.ts';
import type { TrafficSample } from '../../agent-protocol/traffic.ts';
import type { CallParams, LogStreamParams, StreamParams } from '../../agent-protocol/messages.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import { replicaUrl } from '../../store/replicas.ts';
import { AgentAway, CallFailed } from './agent-errors.ts';
import { limits } from './limits.ts';
import type { GatewayMetrics } from './metrics.ts';
import { relayCall, relayRoundTrips, relayStream } from './relay-client.ts';
import type { DialReplica, RelayTarget } from './relay-client.ts';
import { maxAskedServers } from './relay-messages.ts';
import { roundTripsOf } from './relay-server.ts';
import type { LocalSessions } from './relay-server.ts';

export interface AgentRoutesOptions {
  mirror: Pick<Mirror, 'key' | 'tenant'>;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  metrics: GatewayMetrics;
  /** Id of this replica. */
  replica: string;
  clusterKey: Uint8Array;
  dialReplica?: DialReplica | undefined;
  local: LocalSessions;
}

/** The way to every agent: its session here, or one hop to the replica that the directory names. */
export class AgentRoutes {
  #options: AgentRoutesOptions;

  constructor(options: AgentRoutesOptions) {
    this.#options = options;
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  async call(
    tenant: string,
    server: string,
    params: CallParams,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown> {
    try {
      const local = this.#local(tenant, server);
      if (local !== undefined)
        return await local.call(this.#options.local.opened(tenant, server, params), timeoutMs, signal);
      return await this.#relayed(tenant, server, signal, (target) => relayCall(target, params, timeoutMs, signal));
    } catch (error) {
      throw translated(error, server);
    }
  }

  /**
   * Round trips of these agents in milliseconds, by server. Each replica that holds one of them is asked once. An agent
   * is left out if it is not connected or did not report it, and if its replica did not answer in time.
   */
  async roundTrips(
    tenant: string,
    servers: readonly string[],
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<ReadonlyMap<string, number>> {
    const { mirror, clock, clusterKey, dialReplica: dial, replica, local } = this.#options;
    const asked = signalAfter(clock, timeoutMs, signal);
    const byHolder = Map.groupBy(servers, (server) => mirror.tenant(tenant).agent(server)?.replica);
    try {
      const answers = await Promise.all(
        [...byHolder].map(async ([holder, held]) => {
          if (holder === undefined || holder === replica) return roundTripsOf(local, tenant, held);
          const url = replicaUrl(mirror, holder);
          if (url === undefined) return {};
          const target = { url, dial, clusterKey, clock, tenant };
          return relayRoundTrips(target, held.slice(0, maxAskedServers), timeoutMs, asked.signal).catch(() => ({}));
        }),
      );
      return new Map(answers.flatMap((answer) => Object.entries(answer)));
    } finally {
      asked.cancel();
    }
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  async *stream(
    tenant: string,
    server: string,
    params: LogStreamParams,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<LogChunk, void, undefined> {
    try {
      yield* decodeLogChunks(await this.#bytes(tenant, server, params, undefined, signal));
    } catch (error) {
      throw translated(error, server);
    }
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  async *samples(
    tenant: string,
    server: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<ServerSample, void, undefined> {
    try {
      yield* decodeSamples(await this.#bytes(tenant, server, { kind: 'metrics' }, undefined, signal));
    } catch (error) {
      throw translated(error, server);
    }
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  async *traffic(
    tenant: string,
    server: string,
    workload: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TrafficSample, void, undefined> {
    try {
      yield* decodeTraffic(await this.#bytes(tenant, server, { kind: 'traffic', workload }, undefined, signal));
    } catch (error) {
      throw translated(error, server);
    }
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  async *duplex(
    tenant: string,
    server: string,
    params: StreamParams,
    outgoing: AsyncIterable<Uint8Array>,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* await this.#bytes(tenant, server, params, outgoing, signal);
    } catch (error) {
      throw translated(error, server);
    }
  }

  async #bytes(
    tenant: string,
    server: string,
    params: StreamParams,
    outgoing: AsyncIterable<Uint8Array> | undefined,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>> {
    const local = this.#local(tenant, server);
    if (local !== undefined)
      return outgoing === undefined ? local.stream(params, signal) : local.duplex(params, outgoing, signal);
    return this.#relayed(tenant, server, signal, (target) => started(relayStream(target, params, outgoing, signal)));
  }

  #local(tenant: string, server: string) {
    const session = this.#options.local.sessionOf(tenant, server);
    return session?.isUp === true ? session : undefined;
  }

  /** Asks the replica that the directory names, and again if the agent moved meanwhile. */
  async #relayed<T>(
    tenant: string,
    server: string,
    signal: AbortSignal,
    ask: (target: RelayTarget) => Promise<T>,
  ): Promise<T> {
    const { mirror, clock, random, clusterKey, dialReplica: dial, metrics, replica } = this.#options;
    for (let hop = 1; ; hop++) {
      const holder = mirror.tenant(tenant).agent(server)?.replica;
      const url = holder === undefined || holder === replica ? undefined : replicaUrl(mirror, holder);
      if (url === undefined)
        throw new CallError(
          'away',
          'The agent of the server is not connected: check that the machine is up and runs its agent',
        );
      try {
        const answer = await ask({ url, dial, clusterKey, clock, tenant, server });
        metrics.relayed.inc({ result: 'ok' });
        return answer;
      } catch (error) {
        const isMoved = error instanceof CallError && error.code === 'moved';
        metrics.relayed.inc({ result: isMoved ? 'moved' : 'failed' });
        if (!isMoved) throw error;
        if (hop === limits.relay.hops)
          throw new CallError('away', 'The agent moves between replicas', { cause: error });
      }
      await wait(clock, limits.relay.jitterMs * random(), signal);
    }
  }
}

/** The stream with its first bytes read, so that an error of the opening is thrown here. */
async function started(stream: AsyncGenerator<Uint8Array, void, undefined>): Promise<AsyncIterable<Uint8Array>> {
  const first = await stream.next();
  return (async function* () {
    try {
      if (first.done === true) return;
      yield first.value;
      yield* stream;
    } finally {
      await stream.return();
    }
  })();
}

function translated(error: unknown, server: string): unknown {
  if (!(error instanceof CallError)) return error;
  if (error.code === 'away') return new AgentAway(server, { cause: error });
  return new CallFailed(error.code, error.message, { cause: error });
}
