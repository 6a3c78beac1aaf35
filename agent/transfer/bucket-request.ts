import type * as Http from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { Agent, https, request as httpRequest } from '../../agent-protocol/node-http.ts';
import type { Clock } from '../../time/clock.ts';

/** A connection on which nothing moves for so long is given up. */
const silenceMs = 60_000;
/** A service that was asked whether it takes a body is sent one after this time, whatever it says. */
const continueMs = 3000;
/** So much of a part is handed to the connection at once; TLS makes a copy of it. */
const sliceBytes = 256 * 1024;
/** What is read of an answer that is no object. */
const maxAnswerBytes = 16 * 1024;

/** How a request failed: it may pass by itself, another address may help, or nothing does. */
export type FailureKind = 'passing' | 'refused' | 'final';

/** A request to a signed address failed. The message names the host of the bucket, and never the address. */
export class RequestFailed extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RequestFailed';
    this.kind = kind;
  }
}

interface ConnectionOptions {
  /** Certificates in PEM of the authority of the bucket; absent: those that this machine trusts. */
  ca?: string | undefined;
  /** Most connections at once. */
  most: number;
  clock: Clock;
}

/** The connections of one transfer. Disposing ends them. No redirect is followed. */
export class BucketConnections implements Disposable {
  readonly #plain: Http.Agent;
  readonly #tls: Http.Agent;
  readonly #clock: Clock;

  constructor({ ca, most, clock }: ConnectionOptions) {
    const options = { keepAlive: true, maxSockets: most };
    this.#plain = new Agent(options);
    this.#tls = new https.Agent({ ...options, ...(ca !== undefined && { ca }) });
    this.#clock = clock;
  }

  /**
   * Sends a part. Resolves with its ETag as the bucket says it, without quotes, and whether that is the MD5 of the part.
   *
   * @param part `asksFirst`: sends the body only after the service said that it takes it, so that a refusal arrives
   * @throws RequestFailed, or the signal's reason
   */
  async put(
    address: string,
    part: { body: Buffer; md5: Buffer; asksFirst: boolean },
    signal: AbortSignal,
  ): Promise<{ etag: string; isMd5: boolean }> {
    const url = parsed(address);
    const headers = {
      'content-length': part.body.length,
      'content-md5': part.md5.toString('base64'),
      ...(part.asksFirst && { expect: '100-continue' }),
    };
    using exchange = new Exchange(this.#open(url, { method: 'PUT', headers }), url.host, this.#clock, signal);
    const response = await exchange.send(part);
    const text = await exchange.text(response);
    requireStatus(response, text, url.host, [200]);
    const etag = /^"?([\x21\x23-\x7e]{1,128})"?$/.exec(response.headers.etag ?? '')?.[1]?.replace(/"$/, '');
    if (etag === undefined) throw new RequestFailed('final', `${url.host} does not speak S3: its answer has no ETag`);
    // with keys of a key service, ETags are not made of what was sent
    const encryption = response.headers['x-amz-server-side-encryption'];
    return { etag, isMd5: typeof encryption !== 'string' || !encryption.startsWith('aws:kms') };
  }

  /**
   * Asks for an object from a byte on. Resolves when the answer has begun.
   *
   * @param range `etag`: the object must still have this one
   * @throws RequestFailed, or the signal's reason
   */
  async get(address: string, range: { from: number; etag: string | undefined }, signal: AbortSignal): Promise<Opened> {
    const url = parsed(address);
    const headers = {
      // packed bytes would be others
      'accept-encoding': 'identity',
      ...(range.from > 0 && { range: `bytes=${range.from}-` }),
      ...(range.etag !== undefined && { 'if-match': range.etag }),
    };
    const exchange = new Exchange(this.#open(url, { method: 'GET', headers }), url.host, this.#clock, signal);
    try {
      const response = await exchange.send(undefined);
      const wanted = range.from > 0 ? 206 : 200;
      if (response.statusCode !== wanted) requireStatus(response, await exchange.text(response), url.host, [wanted]);
      return new Opened(exchange, response, url.host);
    } catch (error) {
      exchange[Symbol.dispose]();
      throw error;
    }
  }

  #open(url: URL, options: RequestOptions): Http.ClientRequest {
    const isPlain = url.protocol === 'http:';
    const open = isPlain ? httpRequest : https.request;
    return open(url, { ...options, agent: isPlain ? this.#plain : this.#tls });
  }

  [Symbol.dispose](): void {
    this.#plain.destroy();
    this.#tls.destroy();
  }
}

/** An answer whose bytes are read one chunk after the other. Disposing ends it. */
export class Opened implements Disposable {
  readonly host: string;
  /** Size of the whole object, as the answer says it; NaN: it does not. */
  readonly totalBytes: number;
  /** With quotes; to be sent back as it is. */
  readonly etag: string | undefined;
  readonly #exchange: Exchange;
  readonly #response: IncomingMessage;

  constructor(exchange: Exchange, response: IncomingMessage, host: string) {
    const { etag, 'content-range': range, 'content-length': length } = response.headers;
    this.host = host;
    this.etag = etag;
    this.totalBytes = Number(response.statusCode === 206 ? /\/(\d+)$/.exec(range ?? '')?.[1] : (length ?? NaN));
    this.#exchange = exchange;
    this.#response = response;
  }

  /** The next bytes; `undefined`: the answer has ended. @throws RequestFailed `passing`, or the signal's reason */
  next(): Promise<Buffer | undefined> {
    return this.#exchange.read(this.#response);
  }

  [Symbol.dispose](): void {
    this.#exchange[Symbol.dispose]();
  }
}

/** One request and its answer. While it waits for the other side, silence is bounded. Disposing ends what goes on. */
class Exchange implements Disposable {
  readonly #request: Http.ClientRequest;
  readonly #host: string;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #abort: () => void;
  /** Rejects what waits. */
  #fail: ((error: Error) => void) | undefined;
  #failure: Error | undefined;
  #cancelSilence: () => void = () => undefined;
  #isWhole = false;

  constructor(request: Http.ClientRequest, host: string, clock: Clock, signal: AbortSignal) {
    this.#request = request;
    this.#host = host;
    this.#clock = clock;
    this.#signal = signal;
    this.#abort = () => this.#failed(signal.reason as Error); // an error, unless a caller passed another value
    request.on('error', (error: NodeJS.ErrnoException) => this.#failed(ofConnection(error, host)));
    if (signal.aborted) this.#abort();
    else signal.addEventListener('abort', this.#abort, { once: true });
  }

  /** Sends the request. Resolves with the head of the answer. */
  send(part: { body: Buffer; asksFirst: boolean } | undefined): Promise<IncomingMessage> {
    return this.#waiting((done, fail) => {
      const request = this.#request;
      let sent = 0;
      let isUnasked = false;
      const more = (): void => {
        while (part !== undefined && sent < part.body.length) {
          if (request.destroyed) return;
          this.#heard();
          const slice = part.body.subarray(sent, sent + sliceBytes);
          sent += slice.length;
          if (!request.write(slice)) {
            request.once('drain', more);
            return;
          }
        }
        request.end();
      };
      request.once('response', (response) => {
        this.#heard();
        response.on('error', () => undefined); // a reader sees that it was destroyed
        const { statusCode = 0 } = response;
        // a service that refuses a body which it has not asked for reads that as the next request of the connection
        if (isUnasked && statusCode >= 300) request.shouldKeepAlive = false;
        if (part !== undefined && sent < part.body.length && statusCode < 300)
          fail(new RequestFailed('passing', `${this.#host} answered before it had the whole part`));
        else done(response);
      });
      this.#heard();
      if (part?.asksFirst !== true) {
        more();
        return;
      }
      let hasBegun = false;
      const begin = (): void => {
        if (hasBegun) return;
        hasBegun = true;
        cancel();
        more();
      };
      const cancel = this.#clock.timer(continueMs, () => {
        isUnasked = true;
        begin();
      });
      request.once('continue', () => {
        isUnasked = false;
        begin();
      });
      request.once('response', cancel);
      request.once('close', cancel);
    });
  }

  /** The bytes that have come, as soon as there are any. */
  read(response: IncomingMessage): Promise<Buffer | undefined> {
    const chunk = response.read() as Buffer | null; // no encoding is set
    if (chunk !== null) return Promise.resolve(chunk);
    return this.#waiting((done, fail) => {
      const settle = (): void => {
        const next = response.read() as Buffer | null; // as above
        if (next !== null) done(next);
        else if (response.readableEnded) {
          this.#isWhole = true;
          done(undefined);
        } else if (response.destroyed) fail(new RequestFailed('passing', `${this.#host} ended the connection`));
        else return;
        for (const event of events) response.off(event, settle);
      };
      const events = ['readable', 'end', 'close', 'error'] as const;
      for (const event of events) response.on(event, settle);
      this.#heard();
      settle();
    });
  }

  /** The beginning of an answer that is no object. */
  async text(response: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    while (bytes < maxAnswerBytes) {
      const chunk = await this.read(response);
      if (chunk === undefined) break;
      chunks.push(chunk);
      bytes += chunk.length;
    }
    return Buffer.concat(chunks).toString('latin1');
  }

  #waiting<T>(work: (done: (value: T) => void, fail: (error: Error) => void) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#failure !== undefined) {
        reject(this.#failure);
        return;
      }
      this.#fail = reject;
      const over = (): void => {
        this.#fail = undefined;
        this.#cancelSilence();
      };
      work(
        (value) => {
          over();
          resolve(value);
        },
        (error) => {
          over();
          reject(error);
        },
      );
    });
  }

  /** The other side took or sent something: the silence begins anew. */
  #heard(): void {
    this.#cancelSilence();
    this.#cancelSilence = this.#clock.timer(silenceMs, () =>
      this.#failed(new RequestFailed('passing', `${this.#host} was silent for ${silenceMs / 1000} s`)),
    );
  }

  #failed(error: Error): void {
    this.#cancelSilence();
    this.#failure ??= error;
    this.#fail?.(error);
    this.#fail = undefined;
    this.#request.destroy();
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this.#abort);
    this.#cancelSilence();
    // a connection whose answer was read to its end is used again
    if (!this.#isWhole || !this.#request.writableFinished) this.#request.destroy();
  }
}

/** What is signed is no address of an http service: a defect of the control plane, which waiting does not cure. */
function parsed(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  throw new RequestFailed('final', 'The control plane sent what is not the address of a bucket: upgrade the agent');
}

const certificate = /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_|ERR_SSL_WRONG_VERSION)|^EPROTO$/;

function ofConnection(cause: NodeJS.ErrnoException, host: string): RequestFailed {
  const code = /^\w{1,64}$/.exec(cause.code ?? '')?.[0] ?? 'an error without a code';
  if (certificate.test(code))
    return new RequestFailed(
      'final',
      `This server does not trust the certificate of ${host} (${code}): set ca of the backup destination, and check the clocks of both`,
      { cause },
    );
  return new RequestFailed('passing', `The connection to ${host} failed with ${code}`, { cause });
}

/** Codes with the status 400 of requests that arrived with other bytes than were sent, or not in time. */
const passing400 = ['BadDigest', 'IncompleteBody', 'RequestTimeout', 'XAmzContentSHA256Mismatch'];

/** @throws RequestFailed unless the answer has one of the statuses */
function requireStatus(response: IncomingMessage, text: string, host: string, wanted: readonly number[]): void {
  const { statusCode: status = 0 } = response;
  if (wanted.includes(status)) return;
  // nothing else of an answer is ever shown: some repeat what was signed
  const code = /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? '';
  throw new RequestFailed(kindOf(status, code), wordsOf(status, code, host));
}

function kindOf(status: number, code: string): FailureKind {
  if (code === 'QuotaExceeded' || status === 501) return 'final';
  if (status === 403 || code === 'ExpiredToken') return 'refused';
  if (status === 408 || status === 409 || status === 429 || status >= 500) return 'passing';
  return passing400.includes(code) ? 'passing' : 'final';
}

function wordsOf(status: number, code: string, host: string): string {
  const shown = code === '' ? `status ${status}` : `${code}, ${status}`;
  if (code === 'QuotaExceeded')
    return `The bucket at ${host} is full (${shown}): raise its quota, or delete what is old`;
  if (code === 'NoSuchUpload') return `The upload is no longer at ${host} (${shown}): it was aborted, or completed`;
  if (code === 'BadDigest') return `What arrived at ${host} is not what was sent (${shown}): the network changed it`;
  if (status === 412) return `The object at ${host} was changed while it was read (${shown})`;
  if (status === 404) return `There is no such object or bucket at ${host} (${shown})`;
  if (status === 416) return `The object at ${host} is shorter than it was (${shown})`;
  if (status === 403) return `${host} refuses the signed address (${shown})`;
  return `${host} answers with an error (${shown})`;
}
