import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

/** A wire to a port on loopback that can be cut, and whose answers can be held back. */
export class TcpProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: number;
  readonly #pairs = new Set<{ client: Socket; upstream: Socket }>();
  #answerBudget = Infinity;
  #isHolding = false;
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

  /** Requests pass, answers do not. */
  holdAnswers(): void {
    this.#isHolding = true;
    for (const { upstream } of this.#pairs) upstream.pause();
  }

  releaseAnswers(): void {
    this.#isHolding = false;
    for (const { upstream } of this.#pairs) upstream.resume();
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
    client.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => this.#answer(client, data as Buffer)); // no encoding is set
    if (this.#isHolding) upstream.pause();
  }

  #answer(client: Socket, data: Buffer): void {
    if (data.length <= this.#answerBudget) {
      this.#answerBudget -= data.length;
      client.write(data);
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
