import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { CallError } from '../agent-protocol/call-error.ts';
import type { TunnelParams } from '../agent-protocol/messages.ts';
import { signalAfter } from '../agent-protocol/signal-after.ts';
import { hostNetwork, mainPort } from '../agent-protocol/workload.ts';
import type { Clock } from '../time/clock.ts';
import type { DesiredSet } from './desired/desired.ts';
import type { Observer } from './engine/observer.ts';

/** Most tunnels at once. They leave room for terminals and logs among the streams of the connection. */
export const mostTunnels = 16;

const connectMs = 10_000;

export interface TunnelsDeps {
  observer: Pick<Observer, 'of'>;
  desired: Pick<DesiredSet, 'get'>;
  clock: Clock;
}

/**
 * Connections to the main port of an instance, by its address on the server: no port of the server is opened for them.
 * The assignment says which address and port: a user names neither.
 */
export class Tunnels {
  readonly #deps: TunnelsDeps;
  #open = 0;

  constructor(deps: TunnelsDeps) {
    this.#deps = deps;
  }

  /**
   * Yields what the instance sends, and sends it what comes in. The end of what comes in ends that direction alone; the
   * end of what the instance sends, or the signal, ends both.
   *
   * @throws CallError `too_many`, `not_running`, `not_reachable`, `cut`
   */
  async *open(
    { assignment }: TunnelParams,
    incoming: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    if (this.#open >= mostTunnels)
      throw new CallError('too_many', `At most ${mostTunnels} connections by tunnels on one server at once: close one`);
    this.#open++;
    const input = incoming[Symbol.asyncIterator]();
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    let socket: Socket | undefined;
    const end = (): void => void socket?.destroy();
    try {
      socket = await this.#connect(assignment, signal);
      either.addEventListener('abort', end, { once: true });
      feed(socket, { [Symbol.asyncIterator]: () => input }, either).catch((error: unknown) => stop.abort(error));
      yield* socket;
      signal.throwIfAborted();
      stop.signal.throwIfAborted();
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof CallError ? error : new CallError('cut', cut, { cause: error });
    } finally {
      void input.return?.();
      stop.abort(new CallError('stopped', 'The tunnel is over'));
      end();
      this.#open--;
    }
  }

  async #connect(assignment: string, signal: AbortSignal): Promise<Socket> {
    const { address, port } = this.#placeOf(assignment);
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
    const limit = signalAfter(this.#deps.clock, connectMs, signal);
    try {
      await once(socket, 'connect', { signal: limit.signal });
      return socket;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      throw new CallError('not_reachable', 'The instance takes no connections at the moment: wait until it is ready', {
        cause: error,
      });
    } finally {
      limit.cancel();
    }
  }

  #placeOf(assignment: string): { address: string; port: number } {
    const item = this.#deps.desired.get(assignment);
    const spec = item?.spec.type === 'service' ? item.spec : undefined;
    const port = spec?.ports.find(({ name }) => name === mainPort)?.port;
    const running = this.#deps.observer.of(assignment).find(({ container }) => container.state === 'running');
    const network = spec?.networks[0].name;
    const address =
      network === hostNetwork ? '127.0.0.1' : network === undefined ? undefined : running?.detail?.addresses[network];
    if (running === undefined || port === undefined || address === undefined || address === '')
      throw new CallError('not_running', 'The instance does not run at the moment: wait until it is ready');
    return { address, port };
  }
}

const cut = 'The instance cut the connection: its log may say why';

async function feed(socket: Socket, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  for await (const data of incoming) if (!socket.write(data)) await once(socket, 'drain', { signal });
  socket.end();
}
