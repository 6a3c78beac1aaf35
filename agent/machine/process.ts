import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';

/** The whole environment of every program, except for its own variables. */
const environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
  LC_ALL: 'C.UTF-8',
} as const;

export interface ProcessOptions {
  /** Each entry is one argument; no shell is involved. */
  args: readonly string[];
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  /** Written to the standard input, which is otherwise empty. */
  input?: string;
  /** Called with the id of the program once it runs. */
  started?: (pid: number) => void;
  /** Most bytes of stdout, and of stderr; more ends the program with {@link OutputLimitError}. */
  maxOutputBytes: number;
}

export interface ProcessResult {
  /** Exit code; `undefined` if a signal ended the program. */
  code: number | undefined;
  stdout: string;
  stderr: string;
}

const startedErrorChars = 4096;

/** The program wrote more than `maxOutputBytes`. */
export class OutputLimitError extends Error {
  /** The beginning of what it wrote to stderr. */
  readonly stderr: string;

  constructor(program: string, maxOutputBytes: number, stderr: string) {
    super(`${program} wrote more than ${maxOutputBytes} bytes`);
    this.name = 'OutputLimitError';
    this.stderr = stderr;
  }
}

/**
 * Runs a program to its end in a process group of its own. No process of the group outlives the call, whether the
 * program ends by itself, by the signal or by its output. A failing exit is a result.
 * @throws the signal's reason, OutputLimitError, or an error with the code `ENOENT` if the program does not exist
 */
export async function run(program: string, options: ProcessOptions, signal: AbortSignal): Promise<ProcessResult> {
  signal.throwIfAborted();
  const child = spawn(program, options.args, {
    cwd: options.cwd ?? '/',
    env: { ...environment, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    shell: false,
    detached: true,
  });
  if (child.pid !== undefined) options.started?.(child.pid);
  const kill = (): void => killGroup(child);
  const limit = new AbortController();
  const over = (): void => limit.abort();
  signal.addEventListener('abort', kill, { once: true });
  limit.signal.addEventListener('abort', kill, { once: true });
  child.once('exit', kill);
  child.stdin.on('error', () => undefined); // the program may end before it has read its input
  child.stdin.end(options.input ?? '');
  try {
    const [stdout, stderr, code] = await Promise.all([
      collect(child.stdout, options.maxOutputBytes, over),
      collect(child.stderr, options.maxOutputBytes, over),
      ended(child),
    ]);
    signal.throwIfAborted();
    if (limit.signal.aborted) throw new OutputLimitError(program, options.maxOutputBytes, stderr);
    return { code, stdout, stderr };
  } finally {
    signal.removeEventListener('abort', kill);
  }
}

export interface StartOptions extends Pick<ProcessOptions, 'args' | 'cwd' | 'env'> {
  /** Descriptors that the program gets; standard error may be collected instead. */
  stdio: readonly [stdin: number | 'ignore', stdout: number | 'ignore', stderr: number | 'pipe'];
}

/** A program that goes on, which its starter ends. */
export interface StartedProgram {
  readonly pid: number;
  /** Resolves when the program has ended: with its exit code, 128 and the number of the signal that ended it, as a shell does. */
  readonly ended: Promise<{ code: number; stderr: string }>;
}

/**
 * Starts a program that goes on, in the process group of the agent. Of its standard error the first 4 KiB are kept.
 * @throws an error with the code `ENOENT` if the program or its folder does not exist
 */
export async function start(program: string, options: StartOptions): Promise<StartedProgram> {
  const child = spawn(program, options.args, {
    cwd: options.cwd ?? '/',
    env: { ...environment, ...options.env },
    stdio: [...options.stdio],
    shell: false,
  });
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(0, startedErrorChars);
  });
  const ended = new Promise<{ code: number; stderr: string }>((resolve) => {
    child.once('close', (code, signal) => {
      resolve({ code: code ?? 128 + (signal === null ? 0 : constants.signals[signal]), stderr });
    });
  });
  await once(child, 'spawn'); // rejects with the error of a program that cannot be started
  if (child.pid === undefined) throw new Error(`Cannot start ${program}: it has no process`);
  return { pid: child.pid, ended };
}

/** A program that reads and writes streams. */
export interface PipedProgram {
  readonly input: Writable;
  readonly output: Readable;
  readonly errors: Readable;
  /** Resolves once it has ended and all that it wrote was read: with its exit code, `undefined` if a signal ended it. */
  readonly ended: Promise<number | undefined>;
}

/**
 * Starts a program in a process group of its own, with pipes. All processes of the group end when the program does, and
 * when the signal aborts. Whoever starts it must read both of its outputs.
 * @throws the signal's reason, or an error with the code `ENOENT` if the program does not exist
 */
export async function startPiped(
  program: string,
  options: Pick<ProcessOptions, 'args' | 'env' | 'started'>,
  signal: AbortSignal,
): Promise<PipedProgram> {
  signal.throwIfAborted();
  const child = spawn(program, options.args, {
    cwd: '/',
    env: { ...environment, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    shell: false,
    detached: true,
  });
  const kill = (): void => killGroup(child);
  signal.addEventListener('abort', kill, { once: true });
  child.once('exit', kill);
  child.stdin.on('error', () => undefined); // the program may end before it has read its input
  const ending = ended(child).finally(() => signal.removeEventListener('abort', kill));
  ending.catch(() => undefined); // a program that cannot be started is told below
  await once(child, 'spawn');
  if (child.pid !== undefined) options.started?.(child.pid);
  return { input: child.stdin, output: child.stdout, errors: child.stderr, ended: ending };
}

/**
 * Starts a program that outlives this process, in a session of its own, without input and output.
 * @throws an error with the code `ENOENT` if the program does not exist
 */
export async function startDetached(program: string, args: readonly string[]): Promise<void> {
  const child = spawn(program, args, {
    cwd: '/',
    env: { ...environment },
    stdio: 'ignore',
    shell: false,
    detached: true,
  });
  await once(child, 'spawn'); // rejects with the error of a program that cannot be started
  child.unref();
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // No process of the group is left.
  }
}

async function collect(stream: Readable, maxBytes: number, over: () => void): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) over();
    else chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function ended(child: ChildProcess): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? undefined));
  });
}
