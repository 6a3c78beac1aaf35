import type { PortBackend, PortPublisher } from './port-publisher.ts';
import { takenPort } from './port-problems.ts';

const journalled = 1000;

/** The ports of a machine in memory: where they lead, and which ports other programs have. */
export class MockPorts {
  /** Where each port led after each of the last 1000 changes. */
  readonly journal: ReadonlyMap<number, readonly PortBackend[]>[] = [];
  /** Ports that do not answer all sources, each with what is missing. */
  readonly notices = new Map<number, string>();
  readonly #taken = new Set<number>();
  readonly #published = new Map<PortPublisher, ReadonlyMap<number, readonly PortBackend[]>>();

  /** Another program takes the port. */
  take(port: number): void {
    this.#taken.add(port);
  }

  /** The other program ends. */
  free(port: number): void {
    this.#taken.delete(port);
  }

  /** Where connections to the port go; `undefined`: no agent holds it. */
  backends(port: number): readonly PortBackend[] | undefined {
    for (const ports of this.#published.values()) {
      const backends = ports.get(port);
      if (backends) return backends;
    }
    return undefined;
  }

  /** Makes the publisher of one agent. */
  publisher(): PortPublisher {
    const publisher: PortPublisher = {
      notices: this.notices,
      admit: () => undefined,
      guard: () => Promise.resolve(),
      forgetEnded: () => Promise.resolve(),
      apply: async (ports, signal) => {
        await Promise.resolve();
        signal.throwIfAborted();
        const held = new Map([...ports].filter(([port]) => !this.#isTaken(port, publisher)));
        this.#published.set(publisher, held);
        this.journal.push(held);
        if (this.journal.length > journalled) this.journal.shift();
        const problems = [...ports.keys()].filter((port) => !held.has(port));
        return new Map(problems.map((port) => [port, takenPort(port)]));
      },
    };
    return publisher;
  }

  #isTaken(port: number, by: PortPublisher): boolean {
    return this.#taken.has(port) || [...this.#published].some(([other, ports]) => other !== by && ports.has(port));
  }
}
