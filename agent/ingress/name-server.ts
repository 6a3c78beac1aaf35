import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';
import type { Answer } from './dns-message.ts';
import { answerTo, questionOf, recordType } from './dns-message.ts';
import { zone } from './proxy-routes.ts';

const loopback = '127.0.0.1';
const instance = new RegExp(`^i-(\\d+)-(\\d+)-(\\d+)-(\\d+)\\.${zone}$`);
const mostBackends = 32;

/** The instances of a name; `undefined` if it is not the name of a route. */
export type Backends = (name: string) => readonly { address: string; port: number }[] | undefined;

/** The name of an address, which says it: it is right also when it is old. */
export function instanceName(address: string): string {
  return `i-${address.replaceAll('.', '-')}.${zone}`;
}

/** Answers the proxy by datagrams on loopback. */
export class NameServer implements AsyncDisposable {
  readonly #socket;
  readonly port: number;

  private constructor(socket: ReturnType<typeof createSocket>) {
    this.#socket = socket;
    this.port = socket.address().port;
  }

  /** @throws Error if the port is taken; 0 takes any */
  static async open(port: number, backends: Backends): Promise<NameServer> {
    const socket = createSocket('udp4');
    socket.on('message', (query, from) => {
      const response = responseTo(query, backends);
      if (response !== undefined) socket.send(response, from.port, from.address, () => undefined);
    });
    socket.bind(port, loopback);
    await once(socket, 'listening');
    socket.on('error', () => undefined); // an answer that could not be sent: the proxy asks again
    return new NameServer(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#socket, 'close');
    this.#socket.close();
    await closed;
  }
}

/** The answer to a query; `undefined` for what is none. */
export function responseTo(query: Buffer, backends: Backends): Buffer | undefined {
  const question = questionOf(query);
  return question && answerTo(query, question, answersOf(question, backends));
}

function answersOf({ name, type }: { name: string; type: number }, backends: Backends): Answer[] | undefined {
  const address = instance.exec(name)?.slice(1).join('.');
  if (address !== undefined) return isIPv4(address) ? (type === recordType.a ? [{ address }] : []) : undefined;
  const found = backends(name);
  if (found === undefined) return undefined;
  if (type !== recordType.srv) return [];
  return some(found).map((one) => ({ host: instanceName(one.address), port: one.port }));
}

/** As many as have room in a datagram, others each time. */
function some<T>(all: readonly T[]): readonly T[] {
  if (all.length <= mostBackends) return all;
  const start = Math.trunc(performance.now()) % all.length;
  return [...all, ...all].slice(start, start + mostBackends);
}
