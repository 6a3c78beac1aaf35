import type { IncomingMessage } from 'node:http';
import { isGoodPass, parsePass, passHeader } from '../../agent-protocol/pass.ts';
import type { Clock } from '../../store/clock.ts';
import type { Mirror } from '../../store/mirror.ts';

/** Judges the passes that agents show with their requests. One is good once: a later one of its server must be newer. */
export class Passes {
  readonly #mirror: Pick<Mirror, 'tenant'>;
  readonly #clock: Clock;
  /** Of each server, the time of the last good pass: as many as there were servers since the start, deleted ones included. */
  readonly #last = new Map<string, number>();

  constructor(mirror: Pick<Mirror, 'tenant'>, clock: Clock) {
    this.#mirror = mirror;
    this.#clock = clock;
  }

  /** The server, with its tenant, that the request shows a good pass of; `undefined`: the sender is a stranger. */
  serverOf(tenant: string, request: IncomingMessage): string | undefined {
    const shown = request.headers[passHeader];
    const pass = typeof shown === 'string' ? parsePass(shown) : undefined;
    if (pass === undefined) return undefined;
    const key = this.#mirror.tenant(tenant).get('server', pass.server)?.desired.agent_public_key;
    const name = `${tenant}/${pass.server}`;
    if (key === undefined || pass.at <= (this.#last.get(name) ?? 0)) return undefined;
    if (!isGoodPass(pass, key, this.#clock.now())) return undefined;
    this.#last.set(name, pass.at);
    return name;
  }
}
