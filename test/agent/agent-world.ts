import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { WireAssignment, WireItem, WireReport } from '../../agent-protocol/assignment.ts';
import type { Agent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/options.ts';
import { startAgent } from '../../agent/agent.ts';
import { engineOf } from '../../agent/engine/engine.ts';
import { containerName } from '../../agent/engine/ledger.ts';
import type { PortBackend, PortProblem, PortPublisher } from '../../agent/ports/port-publisher.ts';
import { MockPorts } from '../../agent/ports/mock-ports.ts';
import type { MockContainer } from '../../agent/runtime/mock/mock-container.ts';
import { MockEngine } from '../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import type { ContainerRuntime } from '../../agent/runtime/runtime.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { wireService } from '../harness/wire-items.ts';
import type { ImageStore, WantedImage } from '../../agent/engine/image-store.ts';
import { openImages } from '../harness/open-images.ts';
import { idle } from '../harness/idle.ts';
import { joinToken } from '../harness/join-token.ts';

export const network = 'sp-0123456789ab';

/** A service item; `changes` go to the item, `spec` to its spec. */
export function service(
  changes: Partial<Omit<WireAssignment, 'spec'>> = {},
  spec: Parameters<typeof wireService>[0] = {},
): WireAssignment {
  return {
    id: randomUUID(),
    generation: 1,
    spec_hash: 'hash-1',
    tenant: 'default',
    project_id: randomUUID(),
    environment_id: randomUUID(),
    workload_kind: 'application',
    workload_id: randomUUID(),
    workload_name: spec.alias ?? 'web-abc123',
    service: 'main',
    run: 'running',
    ...changes,
    spec: wireService({ image: 'web:1', env: { GREETING: 'hello' }, network, alias: 'web-abc123', ...spec }),
  };
}

export function nameOf(item: WireAssignment): string {
  return containerName(item);
}

/** Remembers where ports led, in memory of a machine that keeps them when the agent is away. */
export class RecordedPorts implements PortPublisher {
  readonly machine = new MockPorts();
  readonly notices = this.machine.notices;
  readonly #publisher = this.machine.publisher();
  /** What every application asked for. */
  readonly history: string[] = [];

  admit(): void {
    // the machine in memory has no packet filter
  }

  async guard(): Promise<void> {
    // nor what it could block
  }

  async forgetEnded(): Promise<void> {
    // nor connections
  }

  async apply(
    ports: ReadonlyMap<number, readonly PortBackend[]>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<number, PortProblem>> {
    const problems = await this.#publisher.apply(ports, signal);
    this.history.push(JSON.stringify([...ports]));
    return problems;
  }
}

/** A machine with an engine, on which agents come and go. */
export class AgentWorld implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly engine = new MockEngine(this.clock);
  readonly ports = new RecordedPorts();
  readonly server = randomUUID();
  readonly dir: string;
  /** The images that the agent looked for. */
  readonly wanted: WantedImage[] = [];
  disk = { freeBytes: 50e9, totalBytes: 100e9 };
  #revision = 0;
  #agent: Agent | undefined;
  #abandoned: { agent: Agent; bury: () => void }[] = [];

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async create(): Promise<AgentWorld> {
    const world = new AgentWorld(await mkdtemp(join(tmpdir(), 'setpoint-agent-')));
    world.engine.addImage('web:1', { local: true });
    return world;
  }

  #noting(images: ImageStore): ImageStore {
    const resolve: ImageStore['resolve'] = images.resolve.bind(images);
    images.resolve = (wanted, signal) => {
      this.wanted.push(wanted);
      return resolve(wanted, signal);
    };
    return images;
  }

  get agent(): Agent {
    if (this.#agent === undefined) throw new Error('No agent runs');
    return this.#agent;
  }

  async start(
    changes: Partial<AgentOptions> = {},
    runtime: ContainerRuntime = mockRuntime(this.engine),
  ): Promise<Agent> {
    const { clock, engine, ports } = this;
    this.#agent = await startAgent({
      joinToken: joinToken(this.server),
      dataDir: this.dir,
      engine: { ...(await engineOf({ type: 'mock', clock, engine, ports })), runtime },
      images: this.#noting(await openImages(runtime, this.dir, () => Promise.resolve(this.disk), clock)),
      build: () => Promise.reject(new Error('No build is expected')),
      gitHead: () => Promise.reject(new Error('No git is expected')),
      gitTag: () => Promise.reject(new Error('No git is expected')),
      dockerfiles: () => Promise.reject(new Error('No git is expected')),
      gitVersion: async () => ({ major: 2, minor: 37, text: '2.37.0' }),
      repositories: () => Promise.reject(new Error('No git is expected')),
      disk: () => Promise.resolve(this.disk),
      logBytes: 1024 ** 3,
      version: '0.0.0',
      clock,
      random: () => 0.5,
      log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
      ...changes,
    });
    this.#agent.backend.trusts(true);
    return this.#agent;
  }

  /** The agent ends in order. */
  async stop(): Promise<void> {
    const agent = this.#agent;
    this.#agent = undefined;
    await agent?.[Symbol.asyncDispose]();
  }

  /** The agent is gone without a word: its runtime answers no more, until it is buried at the end. */
  abandon(bury: () => void): void {
    if (this.#agent !== undefined) this.#abandoned.push({ agent: this.#agent, bury });
    this.#agent = undefined;
  }

  /** The control plane sends everything that it wants. */
  async snapshot(...items: WireItem[]): Promise<void> {
    this.#revision += 1;
    await this.agent.backend.snapshot({ incarnation: 'one', revision: this.#revision }, items, [], []);
  }

  async delta(put: WireItem[], drop: string[] = []): Promise<void> {
    this.#revision += 1;
    await this.agent.backend.delta(this.#revision, put, drop, []);
  }

  report(item: { id: string }): WireReport | undefined {
    return this.agent.backend.report(item.id);
  }

  container(item: WireAssignment): MockContainer | undefined {
    return this.engine.containers.find((it) => it.name === nameOf(item));
  }

  /** Lets time pass until the condition holds: at most `forMs` of the world's time. */
  async until(what: string, condition: () => boolean, forMs = 60_000, stepMs = 50): Promise<void> {
    for (let passed = 0; !condition(); passed += stepMs) {
      if (passed > forMs)
        throw new Error(
          `Did not happen within ${forMs} ms: ${what}\n${JSON.stringify({
            reports: this.#agent?.backend.reports(),
            containers: this.engine.containers.map((it) => ({ name: it.name, state: it.state })),
            journal: this.engine.journal.slice(-20),
          })}`,
        );
      await this.pass(stepMs);
    }
  }

  /** Lets so much time pass, with what the disk does in between. */
  async pass(ms: number, stepMs = 50): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      await idle();
      await this.clock.advance(Math.min(left, stepMs));
      await idle();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    for (const { agent, bury } of this.#abandoned.splice(0)) {
      bury();
      await agent[Symbol.asyncDispose]();
    }
    await rm(this.dir, { recursive: true, force: true });
  }
}
