import type { Logger } from 'pino';
import { CallError } from '../agent-protocol/call-error.ts';
import type { ExecParams, ShellParams, TerminalParams } from '../agent-protocol/messages.ts';
import { decodeTerminalInput, encodeTerminal } from '../agent-protocol/terminal-stream.ts';
import type { Observer } from './engine/observer.ts';
import type { ServerShells } from './machine/server-shells.ts';
import { ExecFailure } from './runtime/exec.ts';
import type { ExecOptions, ExecProcess } from './runtime/exec.ts';
import { RuntimeFailure } from './runtime/runtime.ts';
import type { ContainerRuntime } from './runtime/runtime.ts';

/** Most terminals at once. It leaves room for logs among the streams of the connection. */
export const mostTerminals = 32;

/** Tried in this order where the user names none. */
const shells = [
  ['/bin/bash'],
  ['/bin/ash'],
  ['/bin/sh'],
  ['/bin/busybox', 'sh'],
  ['/busybox/sh'],
] as const satisfies ExecOptions['command'][];

export interface TerminalsDeps {
  observer: Pick<Observer, 'of'>;
  runtime: Pick<ContainerRuntime, 'exec'>;
  /** `undefined` if the operator of the machine does not allow terminals of the server. */
  shells: ServerShells | undefined;
  log: Logger;
}

/**
 * Terminals in the containers of this agent, and of the server itself. A container is found by its assignment through
 * the observer, so that no name or id of a user ever reaches the engine.
 */
export class Terminals {
  readonly #deps: TerminalsDeps;
  #open = 0;

  constructor(deps: TerminalsDeps) {
    this.#deps = deps;
  }

  /**
   * Runs a program in the container of an instance, or a shell of the server. Input and output are those of
   * `terminal-stream.ts`; the last output is the exit code. The process ends with the signal.
   *
   * @throws CallError `too_many`, `not_running`, `no_program`, `runtime_unavailable`, `forbidden`
   */
  async *open(
    params: TerminalParams,
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
      void this.#left(params, process);
    }
  }

  /** The place of a terminal is free when its process is gone. */
  async #left(params: TerminalParams, process: ExecProcess | undefined): Promise<void> {
    const isGone = process === undefined || (await process.exited) !== undefined;
    this.#open--;
    if (isGone || params.kind !== 'exec') return; // the shells of the server log it themselves
    const advice = 'If it still runs, a restart of the instance ends it';
    this.#deps.log.warn({ assignment: params.assignment, advice }, 'The process of a terminal could not be ended');
  }

  #start(params: TerminalParams, signal: AbortSignal): Promise<ExecProcess> {
    return params.kind === 'exec' ? this.#inInstance(params, signal) : this.#onServer(params, signal);
  }

  async #onServer({ shell, cols, rows }: ShellParams, signal: AbortSignal): Promise<ExecProcess> {
    const { shells } = this.#deps;
    if (shells === undefined)
      throw new CallError(
        'forbidden',
        'The agent of the server allows no terminals of the server: start it without --no-server-terminals',
      );
    return shells.open({ size: { cols, rows }, ...(shell !== undefined && { shell }) }, signal);
  }

  async #inInstance(params: ExecParams, signal: AbortSignal): Promise<ExecProcess> {
    const { assignment, command, shell, cols, rows } = params;
    const running = this.#deps.observer.of(assignment).find(({ container }) => container.state === 'running');
    if (running === undefined)
      throw new CallError(
        'not_running',
        'The instance does not run at the moment: wait until it is ready, or choose another one',
      );
    const named = command ?? (shell === undefined ? undefined : ([shell] as const));
    const tried = named === undefined ? shells : [named];
    for (const one of tried) {
      try {
        const options = { command: one, tty: { cols, rows }, env: { TERM: 'xterm-256color' } };
        return await this.#deps.runtime.exec(running.container.id, options, signal);
      } catch (error) {
        if (!(error instanceof ExecFailure) || error.code !== 'no_program') throw translated(error);
      }
    }
    throw new CallError('no_program', named === undefined ? noShell : `The container has no program ${named[0]}`);
  }
}

const noShell =
  `The container has none of ${shells.map(([path]) => path).join(', ')}, as images without a system do: name a program that it has, or add ` +
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
