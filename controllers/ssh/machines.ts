import { readFileSync } from 'node:fs';
import type { Clock } from '../../time/clock.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { reachableAddress } from './address.ts';
import { commands, connect, unreachable } from './connection.ts';
import type { RemoteResult, SshConnection, SshLogin } from './connection.ts';
import { parseFacts } from './facts.ts';
import type { Facts } from './facts.ts';
import type { HostKey } from './host-key.ts';
import { loginOf } from './login.ts';
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

const lookScript = readFileSync(new URL('look.sh', import.meta.url), 'utf8');

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
  async look(server: ReadonlyResource<'server'>, view: TenantView, signal: AbortSignal): Promise<Look> {
    const login = loginOf(server, view, this.#options.unsealer);
    await using connection = await this.#connect(server, login, signal);
    const limit = signalAfter(this.#options.clock, lookMs, signal);
    try {
      const facts = await lookAt(connection, login, limit.signal);
      return { hostKey: connection.hostKey, login: login.type, facts, at: this.#options.clock.now().getTime() };
    } catch (error) {
      if (limit.signal.aborted && !signal.aborted)
        throw new SshFailure(
          'timeout',
          'Its answers take too long',
          'Look at its load, and at what the login of the user runs',
          {
            cause: error,
            hostKey: connection.hostKey,
          },
        );
      throw error;
    } finally {
      limit.cancel();
    }
  }

  async #connect(server: ReadonlyResource<'server'>, login: SshLogin, signal: AbortSignal): Promise<SshConnection> {
    const { ip_address: host, port, username, host_key: hostKey } = server.desired;
    if (host === undefined)
      throw new SshFailure('incomplete', 'It has no address', 'Set ip_address to the address of its machine');
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

/** Looks as the user, then again as root where that is possible: some facts are for root only. */
async function lookAt(connection: SshConnection, login: SshLogin, signal: AbortSignal): Promise<Facts> {
  const { hostKey } = connection;
  const facts = factsOf(await connection.run(commands.plain, [lookScript], signal), hostKey);
  if (facts.root === 'yes') return facts;
  const asRoot =
    facts.sudo === 'free'
      ? await connection.run(commands.sudo, [lookScript], signal)
      : facts.sudo === 'asks' && login.type === 'password'
        ? await connection.run(commands.sudoByPassword, [`${login.password}\n`, lookScript], signal)
        : undefined;
  if (asRoot?.code !== 0) return asRoot === undefined ? facts : { ...facts, sudo: 'refuses' };
  const { root: _, sudo: __, ...more } = factsOf(asRoot, hostKey);
  return { ...facts, ...more };
}

function factsOf({ stdout, stderr, code }: RemoteResult, hostKey: HostKey): Facts {
  const facts = parseFacts(stdout);
  if (facts.kernel !== undefined) return facts;
  throw new SshFailure(
    'no_shell',
    `The login has no POSIX shell. It said: ${(stderr || stdout).trim().slice(0, 200) || `exit code ${code ?? 'unknown'}`}`,
    'Give the user /bin/sh or bash as its shell',
    { hostKey },
  );
}
