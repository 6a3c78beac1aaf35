import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { reachableAddress } from './address.ts';
import { lookAt, runAsRoot } from './as-root.ts';
import { connect, unreachable } from './connection.ts';
import type { RemoteResult, SshConnection, SshLogin } from './connection.ts';
import type { Facts } from './facts.ts';
import type { HostKey } from './host-key.ts';
import { hiding, loginOf } from './login.ts';
import type { LoginUnsealer } from './login.ts';
import { SshFailure } from './ssh-failure.ts';

export interface MachinesOptions {
  clock: Clock;
  unsealer: LoginUnsealer;
  /** Whether an address of the control plane's own machine may be logged in to. */
  isAllowed: (address: string) => boolean;
}

/** What was found on a machine, without a change of it. */
export interface Look {
  hostKey: HostKey;
  login: SshLogin['type'];
  facts: Facts;
  /** By the control plane's clock, in milliseconds since 1970, when the facts came. */
  at: number;
}

/** Time to resolve the name, to connect and to log in. */
export const connectMs = 10_000;
const lookMs = 15_000;

/** A machine that was logged in to. Each call has a deadline of its own. */
export interface Visit {
  readonly hostKey: HostKey;
  readonly login: SshLogin['type'];
  /** Takes the password of the login out of what the machine says. */
  hide(text: string): string;
  /** @throws SshFailure */
  look(): Promise<Look>;
  /** Runs a script of this program as root, in the way that the facts show. @throws SshFailure */
  runAsRoot(facts: Facts, script: string, ms: number): Promise<RemoteResult>;
}

/** The machines of servers, reached by SSH. */
export class Machines {
  readonly #options: MachinesOptions;

  constructor(options: MachinesOptions) {
    this.#options = options;
  }

  /**
   * Logs in with the server's key and looks at the machine.
   *
   * @throws SshFailure; the signal's reason
   */
  look(server: ReadonlyResource<'server'>, view: TenantView, signal: AbortSignal): Promise<Look> {
    return this.visit(server, view, signal, (visit) => visit.look());
  }

  /**
   * Logs in with the server's key, calls `use`, and leaves.
   *
   * @throws SshFailure; the signal's reason; what `use` throws
   */
  async visit<T>(
    server: ReadonlyResource<'server'>,
    view: TenantView,
    signal: AbortSignal,
    use: (visit: Visit) => Promise<T>,
  ): Promise<T> {
    const { clock, unsealer } = this.#options;
    const login = loginOf(server, view, unsealer);
    await using connection = await this.#connect(server, login, signal);
    const { hostKey } = connection;
    const within = <R>(ms: number, work: (signal: AbortSignal) => Promise<R>): Promise<R> =>
      this.#within(ms, hostKey, signal, work);
    return await use({
      hostKey,
      login: login.type,
      hide: hiding(login),
      look: () =>
        within(lookMs, async (limit) => {
          const facts = await lookAt(connection, login, limit);
          return { hostKey, login: login.type, facts, at: clock.now().getTime() };
        }),
      runAsRoot: (facts, script, ms) => within(ms, (limit) => runAsRoot(connection, { facts, login, script }, limit)),
    });
  }

  /** @throws SshFailure `timeout` when that time is over */
  async #within<R>(
    ms: number,
    hostKey: HostKey,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<R>,
  ): Promise<R> {
    const limit = signalAfter(this.#options.clock, ms, signal);
    try {
      return await work(limit.signal);
    } catch (error) {
      if (limit.signal.aborted && !signal.aborted)
        throw new SshFailure(
          'timeout',
          'Its answers take too long',
          'Look at its load, and at what the login of the user runs',
          { cause: error, hostKey },
        );
      throw error;
    } finally {
      limit.cancel();
    }
  }

  /**
   * How long an attempt takes that meets no SSH server would tell a closed port from a silent one, and both from
   * another service: it always takes {@link connectMs}.
   */
  async #connect(server: ReadonlyResource<'server'>, login: SshLogin, signal: AbortSignal): Promise<SshConnection> {
    const { clock } = this.#options;
    const began = clock.monotonic();
    try {
      return await this.#reach(server, login, signal);
    } catch (error) {
      if (error instanceof SshFailure && error.code === 'unreachable')
        await wait(clock, Math.max(0, connectMs - (clock.monotonic() - began)), signal);
      throw error;
    }
  }

  async #reach(server: ReadonlyResource<'server'>, login: SshLogin, signal: AbortSignal): Promise<SshConnection> {
    const { ip_address: host, port, username, host_key: hostKey } = server.desired;
    if (host === undefined)
      throw new SshFailure(
        'incomplete',
        'It has no address',
        'Give it that of its machine (ip_address): setpoint set server SERVER --address ADDRESS',
      );
    const limit = signalAfter(this.#options.clock, connectMs, signal);
    try {
      const address = await reachableAddress(host, this.#options.isAllowed, limit.signal);
      return await connect({ address, port, username, login, hostKey }, limit.signal);
    } catch (error) {
      if (!limit.signal.aborted || signal.aborted) throw error;
      throw unreachable(error);
    } finally {
      limit.cancel();
    }
  }
}
