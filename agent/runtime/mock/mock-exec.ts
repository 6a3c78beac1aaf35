import { ExecFailure, type ExecOptions, type ExecProcess, type TerminalSize } from '../exec.ts';
import type { MockContainer } from './mock-container.ts';

/** Bytes that a process may have written and that were not read: then it waits, and takes no more input. */
const pipeBytes = 64 * 1024;

const ctrlC = 3;
const ctrlD = 4;

/**
 * A further process in a container. Of its programs, `cat` writes what it reads, byte by byte. Any other is a shell that
 * knows `echo TEXT`, `exit CODE`, `stty size` and `sleep`, which waits for Ctrl-C. A terminal shows a prompt and what is
 * typed.
 */
export function mockExec(container: MockContainer | undefined, options: ExecOptions, signal: AbortSignal): ExecProcess {
  const [program, ...args] = options.command;
  if (container?.state !== 'running')
    throw new ExecFailure('not_running', 'The container does not run: start it, or choose another instance');
  if (!container.installed.includes(program))
    throw new ExecFailure('no_program', `The container cannot run ${program}`);
  const process = new Process(options.tty);
  const hangUp = (): void => process.exit(129);
  signal.addEventListener('abort', hangUp, { once: true });
  void container.stopped.then(() => process.exit(137));
  void process.exited.then(() => signal.removeEventListener('abort', hangUp));
  if (program.endsWith('cat')) process.onInput = (data) => process.write(data);
  else {
    const shell = new Shell(process);
    process.onInput = (data) => shell.take(data);
    if (args[0] === '-c') for (const line of (args[1] ?? '').split(';')) shell.run(line.trim());
    if (args[0] === '-c') process.exit(0);
    else shell.prompt();
  }
  return {
    input: {
      write: (data) => process.feed(data),
      end: () => (options.tty === undefined ? process.exit(0) : process.onInput(Uint8Array.of(ctrlD))),
    },
    output: process.output(signal),
    async resize(size) {
      if (process.size !== undefined) process.size = size;
    },
    exited: process.exited,
  };
}

class Process {
  size: TerminalSize | undefined;
  onInput: (data: Uint8Array) => void = () => undefined;
  readonly #exited = Promise.withResolvers<number>();
  #written: Uint8Array[] = [];
  #bytes = 0;
  #isOver = false;
  #changed = Promise.withResolvers<void>();

  constructor(size: TerminalSize | undefined) {
    this.size = size;
  }

  get exited(): Promise<number> {
    return this.#exited.promise;
  }

  write(data: Uint8Array): void {
    if (this.#isOver) return;
    this.#written.push(data);
    this.#bytes += data.length;
    this.#change();
  }

  exit(code: number): void {
    this.#isOver = true;
    this.#exited.resolve(code);
    this.#change();
  }

  /** Resolves when the process has taken the input: while its output is not read it does not. */
  async feed(data: Uint8Array): Promise<void> {
    while (this.#bytes > pipeBytes && !this.#isOver) await this.#changed.promise;
    if (!this.#isOver) this.onInput(data);
  }

  async *output(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (;;) {
      const batch = this.#written;
      this.#written = [];
      this.#bytes = 0;
      if (batch.length > 0) {
        this.#change();
        yield* batch;
      } else if (this.#isOver) {
        signal.throwIfAborted();
        return;
      } else {
        await this.#changed.promise;
      }
    }
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

/** Reads lines, and runs them when they are complete. */
class Shell {
  readonly #process: Process;
  #line = '';
  #isAsleep = false;

  constructor(process: Process) {
    this.#process = process;
  }

  take(data: Uint8Array): void {
    const isTerminal = this.#process.size !== undefined;
    for (const byte of data) {
      if (isTerminal && byte === ctrlC) this.#interrupt();
      else if (isTerminal && byte === ctrlD && this.#line === '') this.#process.exit(0);
      else if (byte === 10 || (isTerminal && byte === 13)) this.#end();
      else {
        this.#line += String.fromCharCode(byte);
        if (isTerminal) this.#process.write(Uint8Array.of(byte));
      }
    }
  }

  run(line: string): void {
    const [word, argument] = line.split(' ');
    const { size } = this.#process;
    if (word === 'exit') this.#process.exit(Number(argument ?? 0));
    else if (word === 'sleep') this.#isAsleep = true;
    else if (line === 'stty size' && size !== undefined) this.#print(`${size.rows} ${size.cols}`);
    else if (word === 'echo') this.#print(line.slice('echo '.length));
    else if (line !== '') this.#print(`sh: ${word}: not found`);
  }

  #end(): void {
    const line = this.#line;
    this.#line = '';
    if (this.#process.size !== undefined) this.#print('');
    if (!this.#isAsleep) this.run(line);
    if (!this.#isAsleep) this.prompt();
  }

  prompt(): void {
    if (this.#process.size !== undefined) this.#process.write(Buffer.from('$ '));
  }

  #interrupt(): void {
    this.#line = '';
    this.#isAsleep = false;
    this.#print('^C');
    this.prompt();
  }

  #print(line: string): void {
    this.#process.write(Buffer.from(this.#process.size === undefined ? `${line}\n` : `${line}\r\n`));
  }
}
