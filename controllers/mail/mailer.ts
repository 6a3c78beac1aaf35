import type { Logger } from 'pino';
import PQueue from 'p-queue';
import { Counter } from 'prom-client';
import type { Registry } from 'prom-client';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { limits } from '../runtime/limits.ts';

/** A message of plain text to one address. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** Makes one attempt to hand a mail over. Its errors hold no credentials; {@link isRefused} is true for final ones. */
export type Delivery = (mail: Mail & { messageId: string }, signal: AbortSignal) => Promise<void>;

/** Why a mail was not handed over. */
export class DeliveryError extends Error {
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.name = 'DeliveryError';
    this.isFinal = isFinal;
  }
}

/** Whether another attempt is useless: the mail server refused the address, or the mail. */
export function isRefused(error: unknown): boolean {
  return error instanceof DeliveryError && error.isFinal;
}

/** What may become of a mail. */
const outcomes = ['sent', 'failed', 'dropped'] as const;

type MailLimits = Record<keyof typeof limits.mail, number>;

export interface MailerOptions {
  delivery: Delivery;
  clock: Clock;
  /** Makes the ids of messages. */
  id: () => string;
  log: Logger;
  registry: Registry;
  /** Override values of `limits.mail`. */
  limits?: Partial<MailLimits>;
}

/**
 * Sends mails, at most `limits.atOnce` at a time, each with a deadline and a few attempts. States: open → closing
 * (takes no new mail, sends those that wait) → closed.
 *
 * Invariants: at most `limits.waiting` mails wait, and one beyond them is dropped with a warning. A repeated attempt
 * carries the id of the first, so that a receiver can recognize the same mail.
 */
export class Mailer implements AsyncDisposable {
  readonly #options: MailerOptions;
  readonly #limits: MailLimits;
  readonly #queue: PQueue;
  readonly #stop = new AbortController();
  readonly #outcomes: Counter<'outcome'>;
  #isOpen = true;

  constructor(options: MailerOptions) {
    this.#options = options;
    this.#limits = { ...limits.mail, ...options.limits };
    this.#queue = new PQueue({ concurrency: this.#limits.atOnce });
    this.#outcomes = new Counter({
      name: 'setpoint_mails_total',
      help: 'Mails by what became of them',
      labelNames: ['outcome'],
      registers: [options.registry],
    });
    // an alert by `increase` sees only what was counted before
    for (const outcome of outcomes) this.#outcomes.inc({ outcome }, 0);
  }

  /** Resolves when the mail was handed over. @throws Error if it was given up; the reason of `signal` if that aborts */
  async send(mail: Mail, signal: AbortSignal): Promise<void> {
    const { log, id } = this.#options;
    signal.throwIfAborted();
    if (!this.#isOpen || this.#queue.size >= this.#limits.waiting) {
      const why = this.#isOpen ? `${this.#limits.waiting} wait already` : 'this replica is closing';
      this.#outcomes.inc({ outcome: 'dropped' });
      log.warn({ to: mail.to, subject: mail.subject, why }, 'A mail is not sent: see why');
      throw new Error(`Cannot send mail as ${why}`);
    }
    const either = AbortSignal.any([signal, this.#stop.signal]);
    try {
      // a mail whose sender waits no more leaves the queue at once, and does not keep the others from their turn
      await this.#queue.add(() => this.#deliver({ ...mail, messageId: id() }, either), { signal: either });
      this.#outcomes.inc({ outcome: 'sent' });
    } catch (error) {
      this.#outcomes.inc({ outcome: 'failed' });
      const why = error instanceof Error ? error.message : String(error);
      log.warn({ to: mail.to, subject: mail.subject, why }, 'A mail is not sent, and not tried again: see why');
      throw error;
    }
  }

  /** Sends the mails that wait, for at most `drainMs`; the rest is given up. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOpen = false;
    const cancel = this.#options.clock.timer(this.#limits.drainMs, () => {
      this.#stop.abort(new Error('Cannot send mail as this replica is closing'));
    });
    await this.#queue.onIdle();
    cancel();
  }

  async #deliver(mail: Mail & { messageId: string }, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#attempt(mail, signal);
        return;
      } catch (error) {
        signal.throwIfAborted();
        if (isRefused(error) || attempt === this.#limits.attempts) throw error;
        const why = error instanceof Error ? error.message : String(error);
        log.info({ to: mail.to, attempt, why }, 'The mail server did not take a mail: it is tried again');
        await wait(clock, this.#limits.pauseMs * attempt, signal);
      }
    }
  }

  async #attempt(mail: Mail & { messageId: string }, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const deadline = new AbortController();
    const { deadlineMs } = this.#limits;
    const cancel = this.#options.clock.timer(deadlineMs, () => {
      deadline.abort(new Error(`Cannot send mail as the server did not take it within ${deadlineMs} ms`));
    });
    try {
      await this.#options.delivery(mail, AbortSignal.any([signal, deadline.signal]));
    } catch (error) {
      signal.throwIfAborted();
      deadline.signal.throwIfAborted();
      throw error;
    } finally {
      cancel();
    }
  }
}

/** Delivers to the log, in an installation without a mail server: the operator finds the mail there. */
export function deliverToLog(log: Logger): Delivery {
  return async ({ to, subject, text }) => {
    log.warn({ to, subject, text }, 'Mail is only logged, as no mail server is set (--smtp-url)');
  };
}
