import type { Logger } from 'pino';
import type { WireAssignment, WireReport } from '../agent-protocol/assignment.ts';
import { CallError } from '../agent-protocol/call-error.ts';
import { encodeLogChunk } from '../agent-protocol/log-stream.ts';
import type { LogFollow } from '../agent-protocol/logs.ts';
import type { CallParams, EngineState, Load, Position, StreamParams } from '../agent-protocol/messages.ts';
import type { Backend } from './backend.ts';
import type { DesiredSet } from './desired.ts';
import type { Fleet } from './fleet.ts';
import type { LogStore } from './logs/log-store.ts';
import type { Observer } from './observer.ts';
import { RuntimeFailure } from './runtime/runtime.ts';
import type { ReadHead } from './tasks/read-head.ts';

export interface CoreDeps {
  desired: DesiredSet;
  fleet: Fleet;
  observer: Observer;
  logs: LogStore;
  load: () => Load;
  engine: () => EngineState;
  gitHead: ReadHead;
  /** Something may have become superfluous. */
  housekeep: () => void;
  log: Logger;
}

/** The agent, as its connection sees it. */
export class Core implements Backend {
  readonly #deps: CoreDeps;

  constructor(deps: CoreDeps) {
    this.#deps = deps;
  }

  position(): Position | undefined {
    return this.#deps.desired.position();
  }

  item(id: string): WireAssignment | undefined {
    return this.#deps.desired.get(id);
  }

  async snapshot(position: Position, items: readonly WireAssignment[]): Promise<void> {
    const { desired, fleet, housekeep } = this.#deps;
    const first = !desired.confirmed;
    const changed = await desired.snapshot(position, items);
    // The first one since the start also tells what nobody wants any more.
    if (first) fleet.sync();
    else fleet.sync(changed);
    housekeep();
  }

  async delta(to: number, put: readonly WireAssignment[], drop: readonly string[]): Promise<void> {
    const { desired, fleet, observer, housekeep } = this.#deps;
    fleet.sync(await desired.delta(to, put, drop));
    if (!observer.reachable) fleet.expect(drop);
    if (drop.length > 0) housekeep();
  }

  reports(): WireReport[] {
    return this.#deps.fleet.reports();
  }

  onReport(listener: (id: string) => void): () => void {
    return this.#deps.fleet.onReport(listener);
  }

  report(id: string): WireReport | undefined {
    return this.#deps.fleet.report(id);
  }

  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void {
    const { fleet, log } = this.#deps;
    fleet.acknowledged(reports.filter(({ id }) => !rejected.has(id))).catch((error: unknown) => {
      // It stays unsettled: it is told again after the next connection.
      log.error({ err: error }, 'Acknowledged reports could not be recorded');
    });
  }

  load(): Load {
    return this.#deps.load();
  }

  engine(): EngineState {
    return this.#deps.engine();
  }

  async call(params: CallParams, signal: AbortSignal): Promise<unknown> {
    const { logs, gitHead } = this.#deps;
    switch (params.method) {
      case 'ping':
        return {};
      case 'logs.read':
        return translated(() => logs.read(params.query, signal));
      case 'logs.storage':
        return logs.storage();
      case 'git.head':
        return translated(() =>
          gitHead({ url: params.repository_url, branch: params.branch, since: params.since }, signal),
        );
    }
  }

  async *stream(params: StreamParams, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { follow } = params;
    for await (const chunk of this.#deps.logs.follow(follow, () => this.#hasEnded(follow), signal))
      yield encodeLogChunk(chunk);
  }

  configure({ logRetentionDays }: { logRetentionDays: number }): void {
    const { logs, log } = this.#deps;
    logs.retain(logRetentionDays).catch((error: unknown) => {
      log.error({ err: error }, 'Old logs could not be removed');
    });
  }

  /** Only builds end: a service may always write again. */
  #hasEnded({ instance_ids: ids }: LogFollow): boolean {
    return ids !== undefined && ids.length > 0 && ids.every((id) => this.#deps.fleet.hasEnded(id));
  }
}

/** What is wrong with the question, or with what was asked about, is for the asker to read. */
async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RuntimeFailure) throw new CallError(error.code, error.message, { cause: error });
    if (error instanceof RangeError) throw new CallError('invalid', error.message, { cause: error });
    throw error;
  }
}
