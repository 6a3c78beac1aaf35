import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { every } from '../../time/every.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import { RuntimeFailure, type ContainerRuntime, type SharedBridge } from '../runtime/runtime.ts';
import { iptables, standOf, type Firewall } from './firewall.ts';
import { chainsOf, operatorsHostChain, type Chains, type Family, type Present } from './rules.ts';
import { stepChains } from './step-rules.ts';

/** Keeps the steps of builds from what they may not reach, wherever the engine runs them. */
export interface StepGuard {
  /**
   * Resolves once steps may run; they may until the result is disposed. @throws RuntimeFailure `build_failed`,
   * `runtime_unavailable`
   */
  hold(signal: AbortSignal): Promise<AsyncDisposable>;
  /** Removes what a build left whose agent was killed, or could not remove it. Changes nothing while a build runs. */
  sweep(signal: AbortSignal): Promise<void>;
}

/** For an engine whose builds run no program. */
export const noSteps: StepGuard = {
  hold: async () => ({ [Symbol.asyncDispose]: async () => undefined }),
  sweep: async () => undefined,
};

const removeMs = 30_000;
/** Interval of repetition while builds run: the rules may have been changed from outside. */
const resyncMs = 5_000;
const families: readonly Family[] = ['ipv4', 'ipv6'];
/** Chains are found by their names: their rules do not matter where they are removed. */
const noBridge: SharedBridge = { name: 'none', addresses: [], hasIpv6: false };

interface Holding {
  over: AbortController;
  ready: Promise<void>;
  following: Promise<void>;
}

/**
 * Guards the bridge that the engine runs steps of BuildKit on, while builds run. The containers of others there keep
 * what they have: the rules follow the engine's list of them.
 */
export class BridgeGuard implements StepGuard {
  readonly #runtime: Pick<ContainerRuntime, 'sharedBridge'>;
  readonly #chains: Chains;
  readonly #firewalls: Readonly<Record<Family, Firewall>>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #holders = 0;
  #holding: Holding | undefined;
  /** One change after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  /** @param owner id of the server, as of the publisher of its ports */
  constructor(owner: string, { runtime, clock, log }: { runtime: ContainerRuntime; clock: Clock; log: Logger }) {
    this.#runtime = runtime;
    this.#chains = chainsOf(owner);
    this.#firewalls = { ipv4: iptables(clock), ipv6: iptables(clock, 'ipv6') };
    this.#clock = clock;
    this.#log = log;
  }

  async hold(signal: AbortSignal): Promise<AsyncDisposable> {
    this.#holders += 1;
    try {
      this.#holding ??= this.#follow();
      await unlessAborted(this.#holding.ready, signal);
    } catch (error) {
      await this.#release();
      throw error;
    }
    return { [Symbol.asyncDispose]: () => this.#release() };
  }

  async sweep(signal: AbortSignal): Promise<void> {
    if (this.#holders === 0) await this.#inTurn(() => this.#remove(signal));
  }

  async #release(): Promise<void> {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    const holding = this.#holding;
    this.#holding = undefined;
    holding?.over.abort(new Error('No build runs any more'));
    await holding?.following;
    await this.#inTurn(async () => {
      if (this.#holders === 0) await this.#remove(AbortSignal.timeout(removeMs));
    }).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'Cannot remove the rules that guarded builds: the agent tries again');
    });
  }

  #follow(): Holding {
    const over = new AbortController();
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => undefined); // each holder gets it
    let present: SharedBridge | undefined;
    let isLooking = false;
    const stop = every(this.#clock, resyncMs, () => {
      if (isLooking) return;
      isLooking = true;
      void this.#again(() => present, over.signal).finally(() => (isLooking = false));
    });
    const following = (async () => {
      try {
        for await (const bridge of this.#runtime.sharedBridge(over.signal)) {
          present = bridge;
          if (bridge !== undefined) await this.#inTurn(() => this.#install(bridge, over.signal));
          ready.resolve();
        }
      } catch (error) {
        if (over.signal.aborted) return ready.reject(error);
        // Builds that run go on with the rules as they are, which let no step reach more.
        this.#log.warn({ err: error }, 'Cannot follow which containers the engine has beside the steps of builds');
        ready.reject(unguarded(error));
        this.#holding = undefined;
      } finally {
        stop();
      }
    })();
    return { over, ready: ready.promise, following };
  }

  /** Puts the rules back if they were changed from outside. A failure is left to the next time. */
  async #again(bridge: () => SharedBridge | undefined, signal: AbortSignal): Promise<void> {
    try {
      await this.#inTurn(async () => {
        const present = bridge();
        if (present !== undefined && !signal.aborted) await this.#install(present, signal);
      });
    } catch (error) {
      if (!signal.aborted)
        this.#log.warn({ err: error }, 'Cannot look at the rules that guard builds: the agent tries again');
    }
  }

  async #install(bridge: SharedBridge, signal: AbortSignal): Promise<void> {
    for (const family of families)
      try {
        const firewall = this.#firewalls[family];
        const present = await firewall.read(signal);
        const chains = stepChains(this.#chains, family, bridge, has(present, operatorsHostChain));
        const { rules, reached } = standOf(chains, present);
        const wanted = chains.flatMap(({ name, rules: own }) => own.map((rule) => `-A ${name} ${rule}`)).join('\n');
        if (!reached || rules !== wanted) await firewall.replace(chains, present, signal);
      } catch (error) {
        // Without an address of IPv6, nothing can be reached by it.
        if (family === 'ipv4' || bridge.hasIpv6) throw error;
        signal.throwIfAborted();
      }
  }

  async #remove(signal: AbortSignal): Promise<void> {
    for (const family of families) await removeStepRules(this.#chains, family, this.#firewalls[family], signal);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

/** Removes the rules for steps of builds, also of an agent that does not run any more. */
export async function removeStepRules(
  chains: Chains,
  family: Family,
  firewall: Firewall,
  signal: AbortSignal,
): Promise<void> {
  const present = await firewall.read(signal).catch((error: unknown) => {
    if (family === 'ipv4') throw error;
    return undefined; // without its programs there are no rules
  });
  if (present !== undefined) await firewall.remove(stepChains(chains, family, noBridge, undefined), present, signal);
}

function has(present: Present, chain: string): string | undefined {
  return present.get('filter')?.some((line) => line.startsWith(`:${chain} `)) === true ? chain : undefined;
}

function unguarded(cause: unknown): RuntimeFailure {
  if (cause instanceof RuntimeFailure) return cause;
  const message =
    'Cannot build: the agent cannot set the rules that keep the steps of a build from the server. Run it as root, with iptables';
  return new RuntimeFailure('build_failed', message, { retryable: true, cause });
}
