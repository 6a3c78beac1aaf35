import type { Logger } from 'pino';
import { CallError } from '../agent-protocol/call-error.ts';
import type { ExecParams } from '../agent-protocol/messages.ts';
import { decodeTerminalInput, encodeTerminal } from '../agent-protocol/terminal-stream.ts';
import type { Observer } from './engine/observer.ts';
import { ExecFailure } from './runtime/exec.ts';
import type { ExecProcess } from './runtime/exec.ts';
import { RuntimeFailure } from './runtime/runtime.ts';
import type { ContainerRuntime } from './runtime/runtime.ts';

/** Most terminals at once. It leaves room for logs among the streams of the connection. */
export const mostTerminals = 32;

/** Tried in this order where the user names none. */
const shells = ['/bin/bash', '/bin/sh'] as const;

/**
 * Terminals in the containers of this agent. A container is found by its assignment through the observer, so that no
 * name or id of a user ever reaches the engine.
 */
export class Terminals {
  readonly #observer: Pick<Observer, 'of'>;
  readonly #runtime: Pick<ContainerRuntime, 'exec'>;
  readonly #log: Logger;
  #open = 0;

  constructor(deps: { observer: Pick<Observer, 'of'>; runtime: Pick<ContainerRuntime, 'exec'>; log: Logger }) {
    this.#observer = deps.observer;
    this.#runtime = deps.runtime;
    this.#log = deps.log;
  }

  /**
   * Runs a program in the container of an instance. Input and output are those of `terminal-stream.ts`; the last output
   * is the exit code. The process ends with the signal.
   *
   * @throws CallError `too_many`, `not_running`, `no_program`, `runtime_unavailable`
   */
  async *open(
    params: ExecParams,
    incoming: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    if (this.#open >= mostTerminals)
      throw new CallError('too_many', `At most ${mostTerminals} terminals on one server at once: close one first`);
    this.#open++;
    const stop = new AbortController();
    const input = incoming[Symbol.asyncIterator]();
    let process: ExecProcess | undefined;
    try {
      process = await this.#start(params, AbortSignal.any([signal, stop.signal]));
      feed(process, { [Symbol.asyncIterator]: () => input }).catch((error: unknown) => stop.abort(error));
      for await (const data of process.output) yield encodeTerminal({ type: 'data', data });
      yield encodeTerminal({ type: 'exit', code: await process.exited });
    } finally {
      void input.return?.();
      stop.abort(new CallError('stopped', 'The terminal is over'));
      void this.#left(params.assignment, process);
    }
  }

  /** The place of a terminal is free when its process is gone. */
  async #left(assignment: string, process: ExecProcess | undefined): Promise<void> {
    const isGone = process === undefined || (await process.exited) !== undefined;
    this.#open--;
    if (isGone) return;
    const advice = 'If it still runs, a restart of the instance ends it';
    this.#log.warn({ assignment, advice }, 'The process of a terminal could not be ended');
  }

  async #start(params: ExecParams, signal: AbortSignal): Promise<ExecProcess> {
    const { assignment, command, shell, cols, rows } = params;
    const running = this.#observer.of(assignment).find(({ container }) => container.state === 'running');
    if (running === undefined)
      throw new CallError(
        'not_running',
        'The instance does not run at the moment: wait until it is ready, or choose another one',
      );
    const named = command ?? (shell === undefined ? undefined : ([shell] as const));
    const tried = named === undefined ? shells.map((one) => [one] as const) : [named];
    for (const one of tried) {
      try {
        const options = { command: one, tty: { cols, rows }, env: { TERM: 'xterm-256color' } };
        return await this.#runtime.exec(running.container.id, options, signal);
      } catch (error) {
        if (!(error instanceof ExecFailure) || error.code !== 'no_program') throw translated(error);
      }
    }
    throw new CallError('no_program', named === undefined ? noShell : `The container has no program ${named[0]}`);
  }
}

const noShell =
  `The container has neither ${shells.join(' nor ')}, as images without a system do: name a program that it has, or add ` +
  'a shell to the image';

async function feed(process: ExecProcess, incoming: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const it of decodeTerminalInput(incoming))
    if (it.type === 'resize') await process.resize(it);
    else await process.input.write(it.data);
  process.input.end();
}

function translated(error: unknown): unknown {
  if (!(error instanceof ExecFailure) && !(error instanceof RuntimeFailure)) return error;
  return new CallError(error.code, error.message, { cause: error });
}
