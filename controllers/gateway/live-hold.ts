import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { EngineState, UpdateFailure } from '../../agent-protocol/messages.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { parseConnections, putConnections, withLoss } from '../../store/connections.ts';
import { isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, LiveAgent } from '../../store/mirror.ts';
import type { Guard, Store } from '../../store/store.ts';
import { limits } from './limits.ts';
import { parseLive, takeLiveKey } from './live-key.ts';
import type { LiveKey, LiveValue } from './live-key.ts';

const tooOften = `Live key must not be taken again more than ${limits.session.retakes} times within a minute`;

type About = Omit<LiveValue, 'conflict' | 'takeovers'>;

export interface LiveHoldOptions {
  store: Store;
  clock: Clock;
  log: Logger;
  tenant: string;
  server: string;
  about: About;
  /** Called once, when the server has another session or is gone. */
  lost: () => void;
}

/**
 * A session's hold on the live key of its server, for as long as the session lasts.
 *
 * States: none → held(epoch) ⇄ retaking → over. While the lease is lost (the store was away, history was rewound) there
 * is no fence, so nothing can be written; the key is taken again under a new epoch unless another session has it. A key
 * that has to be taken again more than `limits.session.retakes` times within a minute is given up.
 */
export class LiveHold {
  #options: LiveHoldOptions;
  #live: LiveKey | undefined;
  /** What the key holds, or is about to hold. */
  #about: About;
  #stop = new AbortController();
  #isRetaking = false;
  /** Times within the last minute at which the key was taken again, by the monotonic clock. */
  #retakes: number[] = [];

  constructor(options: LiveHoldOptions) {
    this.#options = options;
    this.#about = options.about;
  }

  /** Takes the key, from another session if one has it. `undefined`: the server is gone. @throws Unavailable */
  async take(): Promise<LiveKey | undefined> {
    const { store, clock, tenant, server } = this.#options;
    const live = await takeLiveKey(store, clock, { tenant, server }, this.#about);
    if (live === undefined) return undefined;
    if (this.#stop.signal.aborted) {
      await live.lease.revoke();
      return undefined;
    }
    this.#hold(live);
    return live;
  }

  fence(): Guard | undefined {
    return this.#live?.fence;
  }

  /**
   * Records the state of the agent's engine and of its update in the key. If it differs, the key is written anew under
   * another epoch.
   */
  describe({ version, ...state }: EngineState, update: UpdateFailure | undefined): void {
    const { engineTrouble: _, engineWarnings: __, updateFailure: ___, ...rest } = this.#about;
    const about: About = {
      ...rest,
      ...(version !== undefined && { runtimeVersion: version }),
      ...storedState(state),
      ...(update !== undefined && { updateFailure: storedFailure(update) }),
    };
    if (isDeepStrictEqual(about, this.#about)) return;
    this.#about = about;
    if (this.#live !== undefined) void this.#retake();
  }

  /** The live key of the server changed. */
  changed({ after, revision }: KeyChange): void {
    if (this.#live === undefined || revision <= this.#live.epoch) return;
    if (after === undefined) void this.#retake();
    else if (parseLive({ value: after })?.session !== this.#options.about.session) this.#lose();
  }

  /** Called once the mirror shows this session's own write, or a later one of another session. */
  verify(agent: LiveAgent | undefined): void {
    if (agent === undefined) void this.#retake();
    else if (agent.session !== this.#options.about.session) this.#lose();
  }

  /** A write failed because the key has another epoch. */
  fenced(): void {
    void this.#retake();
  }

  /** Gives the key up. `lost`: why the connection was lost, which is recorded as long as the server has no other session. */
  async release(lost?: string): Promise<void> {
    this.#stop.abort();
    const live = this.#live;
    this.#live = undefined;
    if (live === undefined) return;
    try {
      if (lost !== undefined) await this.#recordLoss(live, lost);
    } catch (error) {
      if (!isUnavailable(error)) throw error; // the store is away: the loss is not recorded
    } finally {
      await this.#revoke(live);
    }
  }

  /** Also where nothing was recorded: a lease that is not revoked goes on being renewed. */
  async #revoke({ lease }: LiveKey): Promise<void> {
    try {
      await lease.revoke();
    } catch (error) {
      if (!isUnavailable(error)) throw error; // the store is away: the lease expires
    }
  }

  async #recordLoss({ fence }: LiveKey, why: string): Promise<void> {
    const { store, clock, tenant, server } = this.#options;
    const key = keys.connections(tenant, server);
    const entry = await store.get(key);
    const record = parseConnections(entry);
    if (entry === undefined || record === undefined) return;
    const guards: Guard[] = [fence, { key, is: 'at', revision: entry.modRevision }];
    await store.txn({ if: guards, then: [putConnections(tenant, server, withLoss(record, why, clock.now()))] });
  }

  #hold(live: LiveKey): void {
    const { clock } = this.#options;
    this.#live = live;
    const ended = AbortSignal.any([live.lease.lost, this.#stop.signal]);
    if (live.lease.lost.aborted) void this.#retake();
    else live.lease.lost.addEventListener('abort', () => this.#live === live && void this.#retake(), { once: true });
    if (!live.isConflict) return;
    // The mark of a conflict is cleared when no takeover has come for a while.
    const cancel = clock.timer(limits.conflict.withinMs, () => this.#live === live && void this.#retake());
    ended.addEventListener('abort', cancel, { once: true });
  }

  async #retake(): Promise<void> {
    if (this.#isRetaking || this.#stop.signal.aborted) return;
    this.#isRetaking = true;
    const before = this.#live;
    this.#live = undefined;
    let written = this.#about;
    const { store, clock, log, tenant, server } = this.#options;
    const isOther = (holder: LiveValue): boolean => holder.session !== this.#about.session;
    try {
      for (;;) {
        try {
          written = this.#about;
          const live = await takeLiveKey(store, clock, { tenant, server }, written, isOther);
          if (live === undefined) return this.#lose();
          void before?.lease.revoke().catch(() => undefined); // no key depends on it any more; it may be lost already
          const isTooOften = this.#countRetake();
          if (!isTooOften && !this.#isOver()) return this.#hold(live);
          await live.lease.revoke();
          if (isTooOften) throw new Error(tooOften);
          return;
        } catch (error) {
          if (!isUnavailable(error)) throw error;
        }
        await wait(clock, limits.session.reclaimMs, this.#stop.signal);
      }
    } catch (error) {
      if (this.#isOver()) return;
      log.error({ err: error }, 'Cannot take the live key of an agent again: its session ends');
      this.#lose();
    } finally {
      this.#isRetaking = false;
      if (this.fence() !== undefined && written !== this.#about) void this.#retake();
    }
  }

  /** Counts a retake. @returns whether there were too many, as the key keeps being taken away. */
  #countRetake(): boolean {
    const now = this.#options.clock.monotonic();
    this.#retakes = [...this.#retakes.filter((at) => now - at < 60_000), now];
    return this.#retakes.length > limits.session.retakes;
  }

  #isOver(): boolean {
    return this.#stop.signal.aborted;
  }

  #lose(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#options.lost();
  }
}

/** What an agent tells of its engine, in the form of the live key. */
export function storedState({
  trouble,
  warnings = [],
}: EngineState): Pick<LiveValue, 'engineTrouble' | 'engineWarnings'> {
  return {
    ...(trouble !== undefined && { engineTrouble: { ...trouble } }),
    ...(warnings.length > 0 && { engineWarnings: warnings.map((one) => ({ ...one })) }),
  };
}

/** The failure in the form of the live key. */
export function storedFailure({ requested_at: requestedAt, ...rest }: UpdateFailure): LiveValue['updateFailure'] {
  return { ...rest, requestedAt };
}
