import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { AgentEnd } from '../../agent-protocol/agent-session.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { Clock } from '../../time/clock.ts';
import type { DesiredSet } from '../desired/desired.ts';
import { writeAtomically } from '../disk/atomic-file.ts';
import type { Observer } from '../engine/observer.ts';

interface Deps {
  desired: Pick<DesiredSet, 'all' | 'confirmed'>;
  /** Workers of what the agent has or had. */
  fleet: { reports(): readonly { id: string; gone?: boolean | undefined }[] };
  observer: Pick<Observer, 'reachable' | 'assignments'>;
  dataDir: string;
  /** The agent runs as an installed release. */
  isInstalled: boolean;
  clock: Clock;
  log: Logger;
}

/** Longest time for which an agent that took the order stays connected, so that its answer can be asked for again. */
const stayMs = 60_000;

/**
 * The order to remove the agent from its machine, which the control plane gives once its server is deleted.
 *
 * States: none → taken → dismissed. An agent that took the order answers every repetition of it, and is dismissed when
 * the control plane ends its session or refuses it, or after a minute. The order is on disk from the beginning: an agent
 * that ends meanwhile goes on with it at its next start.
 */
export class UninstallOrder implements Disposable {
  readonly #deps: Deps;
  readonly #dismissed = Promise.withResolvers<void>();
  #cancel: (() => void) | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Resolves when the agent is to stop and to be removed. */
  get dismissed(): Promise<void> {
    return this.#dismissed.promise;
  }

  /**
   * @throws CallError `unsupported`, `forbidden`; or `busy` and `runtime_unavailable`, after which the order may be
   *   repeated. Nothing has changed then.
   */
  async take(isProven: boolean): Promise<void> {
    const { isInstalled, dataDir, clock, log } = this.#deps;
    if (!isInstalled)
      throw new CallError('unsupported', 'Its agent does not run as an installed release, which it could remove');
    if (!isProven)
      throw new CallError('forbidden', 'The control plane did not prove its identity to the agent, which stays');
    this.#requireNothingLeft();
    if (this.#cancel !== undefined) return;
    this.#cancel = clock.timer(stayMs, () => this.#dismissed.resolve());
    log.warn('The server of this agent was deleted: the agent removes itself from this machine');
    await writeAtomically(pathOf(dataDir), '').catch((error: unknown) =>
      log.error(
        { err: error, advice: 'If the agent is still here after a restart, run `setpoint-agent uninstall`' },
        'Cannot store that the agent is to remove itself: it does so now, and not after a restart',
      ),
    );
  }

  /** A session ended: with a goodbye or a refusal the control plane has let the agent go. */
  sessionEnded(end: AgentEnd): void {
    const isLetGo =
      end.kind === 'goodbye' || (end.kind === 'refused' && (end.code === 'unknown' || end.code === 'retired'));
    if (this.#cancel !== undefined && isLetGo) this.#dismissed.resolve();
  }

  [Symbol.dispose](): void {
    this.#cancel?.();
  }

  /** @throws CallError while there is something that the agent is to remove first */
  #requireNothingLeft(): void {
    const { desired, fleet, observer } = this.#deps;
    if (!observer.reachable)
      throw new CallError('runtime_unavailable', 'Its container engine does not answer, so that its containers stay');
    if (!desired.confirmed) throw new CallError('busy', 'It has not received yet what is to run on its machine');
    const left = new Set([...desired.all()].map(({ id }) => id));
    for (const { id, gone } of fleet.reports()) if (gone !== true) left.add(id);
    for (const id of observer.assignments()) left.add(id);
    if (left.size > 0) throw new CallError('busy', `It removes ${left.size} instances`);
  }
}

/** Whether an agent with that data directory was ordered to remove itself. */
export function isUninstallOrdered(dataDir: string): Promise<boolean> {
  return access(pathOf(dataDir)).then(
    () => true,
    () => false,
  );
}

function pathOf(dataDir: string): string {
  return join(dataDir, 'uninstall');
}
