import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';

/** What a load has come to. */
export interface Outcome {
  sent: number;
  /** Why a request had no good answer, with how many there were. */
  failures: Record<string, number>;
}

export interface LoadOptions {
  url: string;
  /** Asked for in place of the host of the address. */
  host?: string;
  perSecond: number;
  /** How long a request may take, in milliseconds. */
  timeoutMs?: number;
  /** Keeps this many connections in use; absent: each request has one of its own. */
  connections?: number;
  /** Sends this body by POST. Such a request is never sent again. */
  body?: string;
  /** Gets the milliseconds from the sending of each request to the end of its good answer. */
  answered?: (ms: number) => void;
}

const tickMs = 10;

/**
 * Requests at a steady rate, whether or not earlier ones were answered, as from many users who do not know of each other.
 * A GET on a kept connection that ends before any answer is sent again until it has a connection of its own, as each
 * client does.
 */
export class SteadyLoad implements AsyncDisposable {
  readonly #options: LoadOptions;
  readonly #agent: Agent | false;
  /** Connections that had a request. Node does not say so of each that a request waited for. */
  readonly #used = new WeakSet<Socket>();
  readonly #pending = new Set<Promise<void>>();
  readonly #failures = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  readonly #from = performance.now();
  #sent = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
    const { connections } = options;
    this.#agent = connections === undefined ? false : new Agent({ keepAlive: true, maxSockets: connections });
    this.#timer = setInterval(() => this.#tick(), tickMs);
  }

  get outcome(): Outcome {
    return { sent: this.#sent, failures: Object.fromEntries(this.#failures) };
  }

  /** Sends no more, and resolves once all is answered. */
  async end(): Promise<Outcome> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
    if (this.#agent !== false) this.#agent.destroy();
    return this.outcome;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  #tick(): void {
    const due = Math.floor(((performance.now() - this.#from) * this.#options.perSecond) / 1000);
    for (; this.#sent < due; this.#sent++) {
      const from = performance.now();
      const one = this.#send().then((failure) => {
        this.#pending.delete(one);
        if (failure === undefined) this.#options.answered?.(performance.now() - from);
        else this.#failures.set(failure, (this.#failures.get(failure) ?? 0) + 1);
      });
      this.#pending.add(one);
    }
  }

  #send(): Promise<string | undefined> {
    return new Promise((resolve) => {
      const { url, host, timeoutMs = 10_000, body } = this.#options;
      const headers = host === undefined ? {} : { host };
      const method = body === undefined ? 'GET' : 'POST';
      const outgoing = request(url, { method, agent: this.#agent, timeout: timeoutMs, headers }, (answer) => {
        answer.on('error', (error) => resolve(`cut: ${error.message}`));
        answer.resume().on('end', () => resolve(answer.statusCode === 200 ? undefined : `status ${answer.statusCode}`));
      });
      let isKept = false;
      outgoing.on('socket', (socket) => {
        isKept = this.#used.has(socket);
        this.#used.add(socket);
      });
      outgoing.on('timeout', () => {
        const what = outgoing.socket?.connecting === false ? 'no answer' : 'no connection';
        outgoing.destroy(new Error(`${what} in ${timeoutMs} ms`));
      });
      outgoing.on('error', (error) => {
        if (isKept && body === undefined && isEnded(error)) resolve(this.#send());
        else resolve(error.message);
      });
      outgoing.end(body);
    });
  }
}

/** Whether the other end closed the connection. */
function isEnded(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
