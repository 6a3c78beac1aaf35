import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { wait, type Clock } from '../../../time/clock.ts';
import { ExecFailure, type ExecOptions, type ExecProcess, type TerminalSize } from '../exec.ts';
import { terminalVariable } from '../sessions.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { frames } from './frames.ts';
import { endTerminal, hangUp } from './hang-up.ts';

/** Time between two inspections of a process that begins or ends. */
const lookMs = 50;
/** Time that a process has to end after SIGHUP, and after SIGKILL. */
const graceMs = 5000;
/** An engine that does not answer for so long is not asked any more about a process. */
const silentMs = 30_000;
/** Longest wait for a process to start. */
const startMs = 30_000;

/**
 * A sequence that takes the client off a terminal, as the engine demands one. Its default begins with Ctrl-P, which the
 * engine then holds back although shells use it.
 */
const detachKeys = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? 'ctrl-_' : 'ctrl-^')).join(',');

/** Ctrl-D: a terminal cannot end its input, but sends its reader this character. */
const endOfInput = 4;

/** What the engine writes as output when the process could not be started. */
const startFailure = /^OCI runtime exec failed: /;

const Created = z.object({ Id: z.string() });
const State = z.object({ Running: z.boolean(), ExitCode: z.int().nullable(), Pid: z.int() });
type Look = () => Promise<z.infer<typeof State>>;

const never = new AbortController().signal;
/** No session has this id. */
const none = -1;

/**
 * Starts a further process in a running container.
 *
 * The engine ends no process whose client left, not even with the terminal. So when `signal` aborts, or the connection
 * to the engine is lost, the process gets SIGHUP on the host, as from a terminal that was closed, and SIGKILL if it
 * stays; see {@link hangUp}. With a terminal, all that was started on it ends in the same way, also when the process ends
 * by itself.
 *
 * @throws ExecFailure, RuntimeFailure `runtime_unavailable`; the signal's reason when aborted
 */
export async function exec(
  engine: Engine,
  clock: Clock,
  container: string,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<ExecProcess> {
  const { tty } = options;
  const terminal = tty === undefined ? undefined : randomUUID();
  const env = { ...options.env, ...(terminal !== undefined && { [terminalVariable]: terminal }) };
  const id = await create(engine, container, { ...options, env }, signal);
  const stream = await engine
    .hijack({ method: 'POST', path: ['exec', id, 'start'], body: { Detach: false, Tty: tty !== undefined } }, signal)
    .catch((error: unknown) => refused(error));
  const look: Look = async () => State.parse(await engine.call({ method: 'GET', path: ['exec', id, 'json'] }, never));
  /** Ends what was started on the terminal. */
  const endAll = async (name: string): Promise<boolean> => {
    const pid = await look().then(
      ({ Pid }) => Pid,
      () => 0,
    );
    const all = { session: pid > 1 ? pid : none, entry: `${terminalVariable}=${name}` };
    return endTerminal(engine, clock, container, all).catch(() => false);
  };
  const chunks = (tty === undefined ? plain(stream, options.errors) : stream)[
    Symbol.asyncIterator
  ]() as AsyncIterator<Uint8Array>;
  const abort = (): void => void stream.destroy();
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  const ended = Promise.withResolvers<void>();
  stream.once('close', () => ended.resolve());
  stream.on('error', () => undefined); // `close` follows

  // The first output comes with the reason if the process could not be started.
  const first = chunks.next();
  first.catch(() => undefined); // the reader of the output gets the error
  const ending = ended.promise.then(() => gone(engine, clock, container, look, signal));
  const exited = terminal === undefined ? ending : wholeEnd(ending, () => endAll(terminal), ended.promise, signal);
  await started(clock, look, first, options.command[0], signal);
  if (tty !== undefined) await resize(engine, id, tty); // engines before 23 do not know `ConsoleSize`
  return {
    input: {
      write: (data) => write(stream, data),
      end: () => void (tty === undefined ? stream.end() : stream.write(Uint8Array.of(endOfInput))),
    },
    output: rest(first, chunks, signal),
    resize: (size) => (tty === undefined ? Promise.resolve() : resize(engine, id, size)),
    exited,
  };
}

/** The end of the process; where the terminal was closed, of all on it. What is left of one that ended by itself ends after it. */
async function wholeEnd(
  ending: Promise<number | undefined>,
  endRest: () => Promise<boolean>,
  closed: Promise<void>,
  signal: AbortSignal,
): Promise<number | undefined> {
  await closed;
  if (signal.aborted) {
    const [code, isOver] = await Promise.all([ending, endRest()]);
    return isOver ? code : undefined;
  }
  const code = await ending;
  void endRest();
  return code;
}

async function create(engine: Engine, container: string, options: ExecOptions, signal: AbortSignal): Promise<string> {
  const { command, tty, user, env = {} } = options;
  const body = {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Cmd: command,
    Tty: tty !== undefined,
    ...(tty !== undefined && { DetachKeys: detachKeys, ConsoleSize: [tty.rows, tty.cols] }),
    ...(user !== undefined && { User: user }),
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
  };
  const created = await engine
    .call({ method: 'POST', path: ['containers', container, 'exec'], body }, signal)
    .catch((error: unknown) => refused(error));
  return Created.parse(created).Id;
}

function refused(error: unknown): never {
  if (isStatus(error, 404, 409))
    throw new ExecFailure('not_running', 'The container does not run: start it, or choose another instance', {
      cause: error,
    });
  fail(error, { code: 'runtime_unavailable', attempted: 'Cannot start a process in the container', codes: [] });
}

/** Resolves once the process runs or has run. @throws ExecFailure if it could not be started */
async function started(
  clock: Clock,
  look: Look,
  first: Promise<IteratorResult<Uint8Array>>,
  program: string,
  signal: AbortSignal,
): Promise<void> {
  const deadline = clock.monotonic() + startMs;
  while (clock.monotonic() < deadline) {
    const { ExitCode, Pid } = await look();
    if (Pid !== 0) return; // `Running` is true before the start, too
    if (ExitCode !== null) {
      const { value } = await first.catch(() => ({ value: undefined }));
      const reason = value === undefined ? '' : Buffer.from(value as Uint8Array).toString();
      if (!startFailure.test(reason)) return;
      throw new ExecFailure('no_program', `The container cannot run ${program}`, { cause: new Error(reason.trim()) });
    }
    await wait(clock, lookMs, signal);
  }
}

async function* rest(
  first: Promise<IteratorResult<Uint8Array>>,
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    for (let chunk = await first; chunk.done !== true; chunk = await chunks.next()) yield chunk.value;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    await chunks.return?.();
  }
}

async function* plain(stream: Duplex, errors: ExecOptions['errors']): AsyncGenerator<Uint8Array> {
  for await (const { stream: source, data } of frames(stream))
    if (source === 'stderr' && errors !== undefined) errors(data);
    else yield data;
}

async function write(stream: Duplex, data: Uint8Array): Promise<void> {
  if (!stream.writable || stream.write(data)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once('drain', resolve);
  stream.once('close', resolve);
  await promise;
  stream.off('drain', resolve);
  stream.off('close', resolve);
}

async function resize(engine: Engine, id: string, { cols, rows }: TerminalSize): Promise<void> {
  const call = { method: 'POST', path: ['exec', id, 'resize'], query: { h: rows, w: cols } } as const;
  await engine.call(call, never).catch((error: unknown) => {
    if (!isStatus(error, 404, 409, 500)) throw error; // it has ended
  });
}

/**
 * Resolves when the process is gone, with its exit code. It is ended if `signal` aborts, and left alone if that is not
 * possible or the engine does not answer: then the code is not known.
 */
async function gone(
  engine: Engine,
  clock: Clock,
  container: string,
  look: Look,
  signal: AbortSignal,
): Promise<number | undefined> {
  const steps = ['SIGHUP', 'SIGKILL', undefined] as const;
  let next = { step: 0, at: 0 };
  let silentSince: number | undefined;
  for (let delay = lookMs; ; delay = Math.min(delay * 2, 1000)) {
    const state = await look().catch(() => undefined);
    const now = clock.monotonic();
    silentSince = state === undefined ? (silentSince ?? now) : undefined;
    if (state?.Running === false) return state.ExitCode ?? undefined;
    if (silentSince !== undefined && now - silentSince > silentMs) return undefined;
    if (state !== undefined && signal.aborted && now >= next.at) {
      const step = steps[next.step];
      if (step === undefined) return undefined;
      // It may have ended since the look, which the next one shows.
      await hangUp(engine, container, state.Pid, step);
      next = { step: next.step + 1, at: now + graceMs };
    }
    // An abort ends the wait for the first signal at once.
    await wait(clock, delay, signal.aborted ? never : signal).catch(() => undefined);
  }
}
