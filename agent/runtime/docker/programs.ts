import { z } from 'zod';
import { wait, type Clock } from '../../../time/clock.ts';
import { deadline } from '../deadline.ts';
import { RuntimeFailure, type ContainerRuntime, type RunResult } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { frames } from './frames.ts';
import { inspectContainer } from './inspection.ts';
import { unavailable } from './transport.ts';

const maxOutputBytes = 4096;
/** Most programs that are remembered because they did not end in time; beyond it, the oldest is forgotten. */
const maxUnfinished = 1000;
/** The engine learns of an exit a moment after the end of the output. */
const exitMs = { first: 10, most: 250 };

const Created = z.object({ Id: z.string() });
const State = z.object({ Running: z.boolean(), ExitCode: z.int().nullable() });

/** The verb `run` of the runtime: programs in running containers. */
export function programs(engine: Engine, clock: Clock): ContainerRuntime['run'] {
  /** Ids of programs that did not end in time, by container, user and command. */
  const unfinished = new Map<string, string>();

  const run: ContainerRuntime['run'] = async (container, command, { user, timeoutMs }, signal) => {
    const key = JSON.stringify([container, user, command]);
    const earlier = unfinished.get(key);
    if (earlier !== undefined && (await stateOf(engine, earlier, signal))?.Running === true)
      return { exitCode: undefined, output: '' };
    unfinished.delete(key);
    const body = { AttachStdout: true, AttachStderr: true, Cmd: command, ...(user !== undefined && { User: user }) };
    const program = await create(engine, container, body, signal);
    using limit = deadline(clock, timeoutMs, 'Running a program in a container', signal);
    let hasEnded = false;
    try {
      const output = await outputOf(engine, program, limit.signal, signal);
      const exitCode = await exitOf(program, limit.signal, signal);
      hasEnded = exitCode !== undefined;
      return { exitCode, output };
    } finally {
      if (!hasEnded) remember(key, program);
    }
  };

  return async (container, command, options, signal) => {
    try {
      return await run(container, command, options, signal);
    } catch (error) {
      // For a container that ends meanwhile, an engine fails in many ways, or closes the connection.
      if (!(error instanceof RuntimeFailure) || error.code !== 'runtime_unavailable') throw error;
      if (await mayRun(engine, container, signal)) throw error;
      throw notRunning(error);
    }
  };

  /** Returns `undefined` if the program has not ended when `limit` aborts. */
  async function exitOf(program: string, limit: AbortSignal, signal: AbortSignal): Promise<RunResult['exitCode']> {
    for (let ms = exitMs.first; ; ms = Math.min(ms * 2, exitMs.most)) {
      const state = await stateOf(engine, program, signal);
      if (state === undefined) throw notRunning();
      if (!state.Running && state.ExitCode !== null) return state.ExitCode;
      if (limit.aborted) return undefined;
      await wait(clock, ms, limit).catch(() => signal.throwIfAborted());
    }
  }

  function remember(key: string, program: string): void {
    unfinished.set(key, program);
    const [oldest] = unfinished.keys();
    if (unfinished.size > maxUnfinished && oldest !== undefined) unfinished.delete(oldest);
  }
}

async function create(engine: Engine, container: string, body: object, signal: AbortSignal): Promise<string> {
  try {
    const call = { method: 'POST', path: ['containers', container, 'exec'], body } as const;
    return Created.parse(await engine.call(call, signal)).Id;
  } catch (error) {
    if (isStatus(error, 404, 409)) throw notRunning(error);
    return fail(error, { code: 'runtime_unavailable', attempted: 'Cannot run a program in the container', codes: [] });
  }
}

/** Starts the program and returns the end of its output, until the program closes it or `limit` aborts. */
async function outputOf(engine: Engine, program: string, limit: AbortSignal, signal: AbortSignal): Promise<string> {
  const call = { method: 'POST', path: ['exec', program, 'start'], body: { Detach: false, Tty: false } } as const;
  let tail: Buffer = Buffer.alloc(0);
  let isCut = false;
  try {
    for await (const { data } of frames(await engine.open(call, limit))) {
      isCut ||= tail.length + data.length > maxOutputBytes;
      tail = Buffer.concat([tail, data.subarray(-maxOutputBytes)]).subarray(-maxOutputBytes);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (isStatus(error, 404, 409)) throw notRunning(error);
    if (!limit.aborted) throw error;
  }
  return (isCut ? tail.subarray(startOfCharacter(tail)) : tail).toString();
}

/** Returns the index of the first byte that does not continue a character of UTF-8. */
function startOfCharacter(bytes: Buffer): number {
  const index = bytes.subarray(0, 4).findIndex((byte) => (byte & 0xc0) !== 0x80);
  return Math.max(index, 0);
}

/** Returns `undefined` if the engine has forgotten the program, or its container does not run. */
async function stateOf(
  engine: Engine,
  program: string,
  signal: AbortSignal,
): Promise<z.infer<typeof State> | undefined> {
  try {
    return State.parse(await engine.call({ method: 'GET', path: ['exec', program, 'json'] }, signal));
  } catch (error) {
    if (isStatus(error, 404, 409)) return undefined;
    if (error instanceof RuntimeFailure)
      throw unavailable('Cannot follow a program in the container', { cause: error });
    throw error;
  }
}

/** False if it is certain that the container does not run. */
async function mayRun(engine: Engine, container: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await inspectContainer(engine, container, signal))?.state === 'running';
  } catch (error) {
    if (error instanceof RuntimeFailure) return true;
    throw error;
  }
}

function notRunning(cause?: unknown): RuntimeFailure {
  const message = 'Cannot run a program in the container: it does not run';
  return new RuntimeFailure('exited', message, { retryable: true, cause });
}
