import { CallError } from '../agent-protocol/call-error.ts';
import type { CommandResult, VolumeUsage } from '../agent-protocol/messages.ts';
import type { Observer } from './engine/observer.ts';
import type { ContainerRuntime } from './runtime/runtime.ts';

/** Commands that run at once: each one has a process on the server. */
const mostAtOnce = 16;

/** Short looks into what runs: a command in the container of an instance, and the size of a volume. They change nothing. */
export class InstanceQueries {
  readonly #observer: Pick<Observer, 'of'>;
  readonly #runtime: Pick<ContainerRuntime, 'run' | 'volumeUsage'>;
  #running = 0;

  constructor(deps: { observer: Pick<Observer, 'of'>; runtime: Pick<ContainerRuntime, 'run' | 'volumeUsage'> }) {
    this.#observer = deps.observer;
    this.#runtime = deps.runtime;
  }

  /** @throws CallError `not_running`, `too_many`; RuntimeFailure */
  async run(
    {
      assignment,
      command,
      timeout_ms: timeoutMs,
    }: { assignment: string; command: readonly string[]; timeout_ms: number },
    signal: AbortSignal,
  ): Promise<CommandResult> {
    const running = this.#observer.of(assignment).find(({ container }) => container.state === 'running');
    if (running === undefined)
      throw new CallError('not_running', 'The instance does not run at the moment: wait until it is ready');
    if (this.#running >= mostAtOnce)
      throw new CallError('too_many', `At most ${mostAtOnce} commands at once on one server: try again`);
    this.#running++;
    try {
      const { exitCode, output } = await this.#runtime.run(running.container.id, command, { timeoutMs }, signal);
      return { ...(exitCode !== undefined && { exit_code: exitCode }), output };
    } finally {
      this.#running--;
    }
  }

  /** @throws RuntimeFailure */
  async usage(volume: string, signal: AbortSignal): Promise<VolumeUsage> {
    const bytes = await this.#runtime.volumeUsage(volume, signal);
    return bytes === undefined ? {} : { bytes };
  }
}
