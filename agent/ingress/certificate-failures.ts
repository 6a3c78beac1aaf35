import type { Logger } from 'pino';
import { z } from 'zod';
import { LogTail } from './log-tail.ts';

const Line = z.object({ ts: z.number(), logger: z.string(), identifier: z.string(), error: z.string() });

const mostHosts = 1_000;
const mostChars = 400;

/** A first certificate, and a later one. */
const loggers: ReadonlySet<string> = new Set(['tls.obtain', 'tls.renew']);

/** Why the proxy got no certificates, by its own log. */
export class CertificateFailures {
  readonly #tail: LogTail;
  readonly #log: Logger;
  /** The last failure of each host, the oldest first. */
  readonly #last = new Map<string, { at: number; why: string }>();
  #turn: Promise<void> = Promise.resolve();

  constructor(deps: { logFolder: string; log: Logger }) {
    this.#tail = new LogTail(deps.logFolder, 'tls');
    this.#log = deps.log;
  }

  /**
   * The last failure since that time, in the words of the proxy or of the authority; `undefined`: it has logged none. Never
   * rejects.
   */
  async of(host: string, since: Date, signal: AbortSignal): Promise<string | undefined> {
    this.#turn = this.#turn
      .then(() => this.#tail.read({ take: (line) => this.#take(line), lost: () => undefined }, signal))
      .catch((error: unknown) => this.#log.debug({ err: error }, 'The log of certificates cannot be read'));
    await this.#turn;
    const last = this.#last.get(host);
    return last !== undefined && last.at >= since.getTime() ? last.why : undefined;
  }

  #take(line: string): void {
    const parsed = Line.safeParse(jsonOf(line));
    if (!parsed.success || !loggers.has(parsed.data.logger)) return;
    const { identifier, error, ts } = parsed.data;
    this.#last.delete(identifier);
    this.#last.set(identifier, { at: ts * 1000, why: plain(error) });
    const [oldest] = this.#last.keys();
    if (this.#last.size > mostHosts && oldest !== undefined) this.#last.delete(oldest);
  }
}

/** Without what differs at each attempt, such as the address of an order, or a time of day. */
function plain(error: string): string {
  return error
    .replaceAll(/ ?\((?:order|ca|attempt)=[^)]*\)/g, '')
    .replaceAll(/(\d{4}-\d\d-\d\d)T\d\d:[\d:.]*(?:Z|[+-]\d\d:?\d\d)?/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .slice(0, mostChars);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown; // its form is checked by the caller
  } catch {
    return undefined;
  }
}
