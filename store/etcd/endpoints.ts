import { Etcd3 } from 'etcd3';
import type { IOptions } from 'etcd3';
import { unavailable } from '../errors.ts';
import { isUnsent } from './failure.ts';

/** PEM. With `cert` and `key` the client proves itself to etcd. */
export interface EtcdTls {
  ca: Buffer;
  cert?: Buffer;
  key?: Buffer;
}

/** A user of etcd; its password crosses the connection. */
export interface EtcdLogin {
  user: string;
  password: string;
}

/** Access to etcd beyond its address. Without `tls` the connection is plain text; without `login` it has no user. */
export interface EtcdAccess {
  tls?: EtcdTls;
  login?: EtcdLogin;
}

type CallOptions = Extract<NonNullable<IOptions['defaultCallOptions']>, { interceptors?: unknown }>;
type Interceptor = NonNullable<CallOptions['interceptors']>[number];
type Policy = NonNullable<NonNullable<IOptions['faultHandling']>['global']>;

/** What one attempt may use: a client of one endpoint, and the options that bound the call. */
export interface Attempt {
  client: Etcd3;
  options: CallOptions;
}

/** Longest that a call may take over all its attempts. */
const callMs = 4000;

/**
 * The members of one cluster. Calls go to one of them until it fails, then to the next: a dead member costs one failed
 * attempt and not every n-th call. Nothing that could take effect twice is sent twice.
 */
export class Endpoints {
  readonly #clients: Etcd3[];
  #current = 0;

  constructor(hosts: readonly string[], access: EtcdAccess = {}) {
    this.#clients = hosts.map((host) => new Etcd3(clientOptions(host, access)));
  }

  /** Makes a call that may happen twice: tries every endpoint once, within one deadline. */
  async repeatable<T>(call: (attempt: Attempt) => Promise<T>): Promise<T> {
    const until = performance.now() + callMs;
    for (let left = this.#clients.length; ; left--) {
      const endpoint = this.#current;
      try {
        return await call(this.#attempt(endpoint, (until - performance.now()) / left));
      } catch (error) {
        if (!isMembersFault(error)) throw error;
        this.#leave(endpoint);
        if (left === 1 || performance.now() >= until) throw error;
      }
    }
  }

  /** Makes a call that must not happen twice: tries another endpoint only if the request was certainly not sent. */
  async once<T>(call: (attempt: Attempt) => Promise<T>): Promise<T> {
    for (let left = this.#clients.length; ; left--) {
      const endpoint = this.#current;
      try {
        return await call(this.#attempt(endpoint, callMs));
      } catch (error) {
        if (isMembersFault(error)) this.#leave(endpoint);
        if (left === 1 || !isUnsent(error)) throw error;
      }
    }
  }

  /** Asks every member, each with a deadline of its own. @returns the answers of those that gave one. */
  async each<T>(call: (attempt: Attempt) => Promise<T>): Promise<T[]> {
    const answers = await Promise.allSettled(this.#clients.map((_, n) => call(this.#attempt(n, callMs))));
    return answers.filter((it) => it.status === 'fulfilled').map(({ value }) => value);
  }

  /** Opens a stream on the current endpoint. Call `failed` when it broke, so that the next one goes elsewhere. */
  async stream<T>(open: (client: Etcd3) => Promise<T>): Promise<{ stream: T; failed: () => void }> {
    const endpoint = this.#current;
    const failed = (): void => this.#leave(endpoint);
    try {
      return { stream: await open(this.#client(endpoint)), failed };
    } catch (error) {
      failed();
      throw error;
    }
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  /** A deadline of gRPC is a wall-clock time; gRPC compares it with the wall clock at once. */
  #attempt(endpoint: number, timeoutMs: number): Attempt {
    return { client: this.#client(endpoint), options: { deadline: Date.now() + timeoutMs } };
  }

  #client(endpoint: number): Etcd3 {
    const client = this.#clients[endpoint];
    if (client === undefined) throw unavailable('no endpoint is configured');
    return client;
  }

  #leave(endpoint: number): void {
    if (this.#current === endpoint) this.#current = (endpoint + 1) % this.#clients.length;
  }
}

function clientOptions(host: string, { tls, login }: EtcdAccess): IOptions {
  return {
    hosts: [host],
    ...(tls === undefined ? {} : { credentials: credentialsOf(tls) }),
    ...(login === undefined ? {} : { auth: authOf(login) }),
    grpcOptions: {
      'grpc.max_receive_message_length': -1,
      // Statistics of each call, which no program reads, take a twentieth of the time of a call.
      'grpc.enable_channelz': 0,
      // A peer that hangs without closing is noticed by pings; etcd forbids more than one in 5 s.
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 3000,
      'grpc.keepalive_permit_without_calls': 1,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1000,
    },
    defaultCallOptions: { interceptors: [requireLeader] },
    faultHandling: { global: passThrough, host: () => passThrough },
  };
}

function credentialsOf(tls: EtcdTls): NonNullable<IOptions['credentials']> {
  return {
    rootCertificate: tls.ca,
    ...(tls.key === undefined ? {} : { privateKey: tls.key }),
    ...(tls.cert === undefined ? {} : { certChain: tls.cert }),
  };
}

/** The client logs in again when etcd does not know its token any more. */
function authOf({ user, password }: EtcdLogin): NonNullable<IOptions['auth']> {
  return { username: user, password, callOptions: () => ({ deadline: Date.now() + callMs }) };
}

/** Makes a member without a leader answer with an error, instead of old data or no answer while it is cut off. */
const requireLeader = ((options, nextCall) => {
  const call = nextCall(options);
  const start = call.start.bind(call);
  call.start = (metadata, listener) => {
    metadata.set('hasleader', 'true');
    start(metadata, listener);
  };
  return call;
}) as Interceptor; // the typings ask for a class, the library for its methods

/**
 * Neither retries nor breaks circuits: the code above decides on endpoints and retries. It returns a promise because
 * etcd3 reports a broken stream by a call that throws inside an event handler: an error there would end the process.
 */
const passThrough = {
  execute: async <T>(call: (context: { signal: AbortSignal }) => T | Promise<T>): Promise<T> =>
    call({ signal: new AbortController().signal }),
} as unknown as Policy; // etcd3 calls nothing but `execute`

/** Whether another member may succeed: an error of etcd about the request itself is the same at every member. */
function isMembersFault(error: unknown): boolean {
  return (
    !(error instanceof Error) || !/etcdserver: (?!.*(leader|timed out|stopped|too many requests))/.test(error.message)
  );
}
