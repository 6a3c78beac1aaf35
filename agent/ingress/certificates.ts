import type { Certificate } from '../../agent-protocol/workload.ts';
import type { Clock } from '../../time/clock.ts';
import { every } from '../../time/every.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Proxy, ShownCertificate } from './proxy.ts';

/** A host with a certificate is looked at again, which also renews it where no client comes. */
const againMs = 3_600_000;
const firstRetryMs = 10_000;
const mostRetryMs = 300_000;
/** An authority checks the host from outside, and may be slow. */
const issuanceMs = 90_000;
/** The proxy goes on trying while a connection waits. Its log says sooner that it has failed. */
const failureMs = 1_000;
/** An authority may be slow for one host, and others need not wait for it. */
const mostAtOnce = 4;
/** An older failure may have had another cause. */
const recentMs = 86_400_000;

/** A certificate that ends so soon was not renewed, which is due a third of its life before its end. */
const warningMs = 21 * 86_400_000;
/** The same for one of a short life, as a part of it. */
const warningPart = 7 / 30;

interface Known {
  certificate: Certificate | undefined;
  failures: number;
  /** Monotonic time of the next look. */
  next: number;
}

/** The certificates of the hosts of the proxy: gets each by a connection to it, and looks at it every hour. */
export class Certificates implements AsyncDisposable {
  readonly #proxy: Pick<Proxy, 'certificate'>;
  readonly #clock: Clock;
  readonly #changed: (host: string) => void;
  readonly #failureOf: (host: string, since: Date) => Promise<string | undefined>;
  readonly #closing = new AbortController();
  #hosts = new Map<string, Known>();
  #port: number | undefined;
  /** By host. */
  readonly #running = new Map<string, Promise<void>>();
  #cancelTimer: () => void = () => undefined;

  /** `failureOf`: why the proxy did not get a certificate since that time, in its words. */
  constructor(deps: {
    proxy: Pick<Proxy, 'certificate'>;
    clock: Clock;
    changed: (host: string) => void;
    failureOf: (host: string, since: Date) => Promise<string | undefined>;
  }) {
    this.#failureOf = deps.failureOf;
    this.#proxy = deps.proxy;
    this.#clock = deps.clock;
    this.#changed = deps.changed;
  }

  of(host: string): Certificate | undefined {
    return this.#hosts.get(host)?.certificate;
  }

  /** The hosts that the proxy encrypts, at that port; `undefined`: it does not run. */
  set(hosts: ReadonlySet<string>, port: number | undefined): void {
    const before = this.#hosts;
    const blank: Known = { certificate: undefined, failures: 0, next: 0 };
    this.#hosts = new Map([...hosts].map((host) => [host, before.get(host) ?? { ...blank }]));
    this.#port = port;
    this.#look();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelTimer();
    await Promise.all(this.#running.values());
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Looks at those that are due, the longest due first. */
  #look(): void {
    if (this.#port === undefined || this.#isClosing()) return;
    const idle = [...this.#hosts]
      .filter(([host]) => !this.#running.has(host))
      .toSorted(([, a], [, b]) => a.next - b.next);
    const now = this.#clock.monotonic();
    const due = idle.filter(([, { next }]) => next <= now).slice(0, mostAtOnce - this.#running.size);
    for (const [host, known] of due) {
      const look = this.#lookAt(host, known, this.#port).finally(() => {
        this.#running.delete(host);
        this.#look();
      });
      this.#running.set(host, look);
    }
    this.#cancelTimer();
    const next = idle.find(([, it]) => it.next > now)?.[1].next;
    if (next !== undefined) this.#cancelTimer = this.#clock.timer(Math.max(1_000, next - now), () => this.#look());
  }

  async #lookAt(host: string, known: Known, port: number): Promise<void> {
    const explained = await this.#certificateOf(host, port);
    if (this.#isClosing()) return;
    const certificate = reported(explained, this.#clock.now());
    const isGood = certificate.error === undefined;
    const before = JSON.stringify(known.certificate);
    known.failures = isGood ? 0 : known.failures + 1;
    known.next =
      this.#clock.monotonic() + (isGood ? againMs : Math.min(firstRetryMs * 2 ** (known.failures - 1), mostRetryMs));
    known.certificate = certificate;
    if (JSON.stringify(certificate) !== before) this.#changed(host);
  }

  /** The certificate that the proxy shows, or why there is none: at once when the proxy has logged it. */
  async #certificateOf(host: string, port: number): Promise<ShownCertificate> {
    const begun = this.#clock.now();
    using limit = deadline(this.#clock, issuanceMs, 'Getting a certificate', this.#closing.signal);
    const failed = new AbortController();
    const stop = every(this.#clock, failureMs, () => {
      void this.#failureOf(host, begun).then((why) => why !== undefined && failed.abort());
    });
    try {
      const shown = await this.#proxy.certificate(host, port, AbortSignal.any([limit.signal, failed.signal]));
      const recently = begun.getTime() - recentMs;
      const since = Math.max(recently, shown.begins_at === undefined ? 0 : Date.parse(shown.begins_at));
      const why = await this.#failureOf(host, new Date(since));
      if (why === undefined) return shown;
      return shown.error === undefined ? { ...shown, renewal_error: why } : { ...shown, error: why };
    } finally {
      stop();
    }
  }
}

function reported({ begins_at, ...certificate }: ShownCertificate, now: Date): Certificate {
  if (begins_at === undefined || certificate.expires_at === undefined) return certificate;
  const end = Date.parse(certificate.expires_at);
  const warning = Math.min(warningMs, (end - Date.parse(begins_at)) * warningPart);
  return end - now.getTime() < warning ? { ...certificate, ends_soon: true } : certificate;
}
