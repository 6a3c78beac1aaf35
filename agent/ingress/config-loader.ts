import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Proxy } from './proxy.ts';
import { Refused } from './proxy.ts';
import type { ProxyFolder } from './proxy-folder.ts';

/** A load costs some requests of all applications, however many changes it brings. */
const paceMs = 10_000;
const firstRetryMs = 1_000;
const mostRetryMs = 60_000;
const callMs = 60_000;

/** A configuration and its parts, each of which is a whole one. */
export interface Wanted {
  config: unknown;
  /** Without any routes. */
  frame: unknown;
  /** With the routes of one assignment only, by its id. */
  parts: ReadonlyMap<string, () => unknown>;
}

/** What became of a configuration. Unless it is loaded, the proxy goes on with the one of before. */
export type Loading =
  | { is: 'loaded'; isNew: boolean }
  /** The last load was a moment ago. */
  | { is: 'due'; ms: number }
  /** It would be taken without these parts; why not with them, by id. */
  | { is: 'in_part'; refused: ReadonlyMap<string, string> }
  /** No part of it alone is the reason. */
  | { is: 'refused'; why: string; ms: number };

interface Deps {
  proxy: Pick<Proxy, 'config' | 'load'>;
  folder: Pick<ProxyFolder, 'setTrial'>;
  /** Why the proxy would refuse the configuration at that path of its container; `undefined`: it would take it. */
  examine: (path: string, signal: AbortSignal) => Promise<string | undefined>;
  clock: Clock;
  log: Logger;
}

/** Loads configurations into the proxy at a pace, only if they differ, and finds what it does not take. */
export class ConfigLoader {
  readonly #deps: Deps;
  /** Monotonic time of the next load. */
  #notBefore = 0;
  #failures = 0;
  /** What is refused as a whole: another frame is tried at once. */
  #refusal: { frame: unknown; why: string } | undefined;
  /** A refused configuration whose parts are all taken. */
  #examined: unknown;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** @throws Error if the proxy does not answer */
  async bring(wanted: Wanted, signal: AbortSignal): Promise<Loading> {
    const { proxy, clock } = this.#deps;
    using limit = deadline(clock, callMs, 'Loading the configuration of the proxy', signal);
    const present = await proxy.config(limit.signal);
    const config = plain(wanted.config);
    if (isDeepStrictEqual(present, config)) return this.#loaded({ isNew: false });
    const ms = this.#notBefore - clock.monotonic();
    const refusal = this.#refusal;
    if (ms > 0 && refusal === undefined) return { is: 'due', ms };
    if (ms > 0 && refusal !== undefined && isDeepStrictEqual(refusal.frame, wanted.frame))
      return { is: 'refused', why: refusal.why, ms };
    try {
      await proxy.load(config, limit.signal);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return await this.#explain({ ...wanted, config }, error, signal);
    }
    this.#notBefore = clock.monotonic() + paceMs;
    return this.#loaded({ isNew: true });
  }

  #loaded(how: { isNew: boolean }): Loading {
    this.#refusal = undefined;
    this.#failures = 0;
    this.#examined = undefined;
    return { is: 'loaded', ...how };
  }

  async #explain(wanted: Wanted, error: Refused, signal: AbortSignal): Promise<Loading> {
    const { clock, log } = this.#deps;
    let why = error.message;
    if (!isDeepStrictEqual(this.#examined, wanted.config)) {
      log.warn(
        { err: error },
        'The proxy does not take its configuration: the agent looks for the part that it refuses',
      );
      const ofFrame = await this.#examine(wanted.frame, signal);
      const refused = ofFrame === undefined ? await this.#refusedParts(wanted, signal) : new Map<string, string>();
      if (refused.size > 0) return { is: 'in_part', refused };
      if (ofFrame === undefined) this.#examined = wanted.config;
      why = ofFrame ?? why;
    }
    const isAnother = !isDeepStrictEqual(this.#refusal?.frame, wanted.frame);
    this.#failures = isAnother ? 0 : this.#failures + 1;
    const ms = Math.min(firstRetryMs * 2 ** this.#failures, mostRetryMs);
    this.#refusal = { frame: wanted.frame, why };
    this.#notBefore = clock.monotonic() + ms;
    return { is: 'refused', why, ms };
  }

  async #refusedParts({ parts }: Wanted, signal: AbortSignal): Promise<Map<string, string>> {
    const refused = new Map<string, string>();
    for (const [id, part] of parts) {
      const why = await this.#examine(part(), signal);
      if (why !== undefined) refused.set(id, why);
    }
    return refused;
  }

  async #examine(config: unknown, signal: AbortSignal): Promise<string | undefined> {
    const path = await this.#deps.folder.setTrial(config);
    using limit = deadline(this.#deps.clock, callMs, 'Examining a configuration of the proxy', signal);
    return await this.#deps.examine(path, limit.signal);
  }
}

/** The value as it is after a way through JSON. */
export function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
