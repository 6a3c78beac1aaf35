import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

/** A wire to a port on loopback that can be cut, and whose answers can be held back. */
export class TcpProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: number;
  readonly #pairs = new Set<{ client: Socket; upstream: Socket }>();
  #answerBudget = Infinity;
  #requestBudget = Infinity;
  #changesAfter = Infinity;
  #holdsAnswers = false;
  #holdsRequests = false;
  #cuts = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
    server.on('connection', (client) => this.#connect(client));
  }

  static async start(target: number): Promise<TcpProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(server, target);
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How often connections were cut. */
  get cuts(): number {
    return this.#cuts;
  }

  /** Cuts what is connected; new connections are taken. */
  cut(): void {
    this.#cuts += 1;
    for (const { client, upstream } of this.#pairs) {
      client.resetAndDestroy();
      upstream.destroy();
    }
    this.#pairs.clear();
  }

  /** Lets so many more bytes of answers through, then cuts once. */
  cutAfter(answerBytes: number): void {
    this.#answerBudget = answerBytes;
  }

  /** Lets so many more bytes of requests through, then cuts once. */
  cutAfterRequests(requestBytes: number): void {
    this.#requestBudget = requestBytes;
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Lets so many more bytes of requests through, then changes one, once. */
  changeAfter(requestBytes: number): void {
    this.#changesAfter = requestBytes;
  }

  /** Whether a byte is still to be changed. */
  get willChange(): boolean {
    return this.#changesAfter !== Infinity;
  }

  /** Answers do not pass until they are released. */
  holdAnswers(): void {
    this.#holdsAnswers = true;
    for (const { upstream } of this.#pairs) upstream.pause();
  }

  releaseAnswers(): void {
    this.#holdsAnswers = false;
    for (const { upstream } of this.#pairs) upstream.resume();
  }

  /** Requests do not pass any more. */
  holdRequests(): void {
    this.#holdsRequests = true;
    for (const { client } of this.#pairs) client.pause();
  }

  /** What was held arrives, late. */
  releaseRequests(): void {
    this.#holdsRequests = false;
    for (const { client } of this.#pairs) client.resume();
  }

  /**
   * The network is cut in two: nothing passes in either direction, not even the end of a connection. A connection that is
   * opened meanwhile leads nowhere.
   */
  partition(): void {
    this.holdRequests();
    this.holdAnswers();
  }

  /** The network is whole again. What was sent meanwhile arrives late, or finds its connection closed. */
  heal(): void {
    this.releaseRequests();
    this.releaseAnswers();
  }

  #connect(client: Socket): void {
    const upstream = connect(this.#target, '127.0.0.1');
    const pair = { client, upstream };
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', end);
    }
    client.on('data', (data) => {
      this.#change(data as Buffer); // no encoding is set
      this.#requestBudget -= data.length;
      if (this.#requestBudget < 0) {
        this.#requestBudget = Infinity;
        this.cut();
        return;
      }
      if (!upstream.write(data)) {
        client.pause();
        upstream.once('drain', () => {
          if (!this.#holdsRequests) client.resume();
        });
      }
    });
    upstream.on('data', (data) => this.#answer(client, upstream, data as Buffer)); // no encoding is set
    if (this.#holdsAnswers) upstream.pause();
    if (this.#holdsRequests) client.pause();
  }

  #change(data: Buffer): void {
    if (data.length <= this.#changesAfter) {
      this.#changesAfter -= data.length;
      return;
    }
    data.writeUInt8(data.readUInt8(this.#changesAfter) ^ 1, this.#changesAfter);
    this.#changesAfter = Infinity;
  }

  #answer(client: Socket, upstream: Socket, data: Buffer): void {
    if (data.length <= this.#answerBudget) {
      this.#answerBudget -= data.length;
      if (!client.write(data)) {
        upstream.pause();
        client.once('drain', () => {
          if (!this.#holdsAnswers) upstream.resume();
        });
      }
      return;
    }
    const part = data.subarray(0, this.#answerBudget);
    this.#answerBudget = Infinity;
    // A half of the answer arrives, then the connection ends.
    client.write(part, () => this.cut());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
