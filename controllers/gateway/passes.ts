import type { IncomingMessage } from 'node:http';
import { isGoodPass, parsePass, passHeader } from '../../agent-protocol/pass.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';

/** Checks the passes that agents show with their requests. A pass is good once: the server's next one must be newer. */
export class Passes {
  readonly #mirror: Pick<Mirror, 'tenant'>;
  readonly #clock: Clock;
  /** Time of the last good pass by server: at most one entry per existing server. */
  readonly #last = new Map<string, number>();

  constructor(mirror: Pick<Mirror, 'tenant'>, clock: Clock) {
    this.#mirror = mirror;
    this.#clock = clock;
  }

  /** `<tenant>/<server>` of the good pass that the request shows; `undefined`: the sender is a stranger. */
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

  /** Forgets a deleted server: no pass of it is good any more. */
  forget(tenant: string, server: string): void {
    this.#last.delete(`${tenant}/${server}`);
  }
}
