import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const script = new URL('writer.ts', import.meta.url).pathname;

/** A `writer.ts` in a process of its own, with the lines that it wrote so far. */
export class WriterProcess implements AsyncDisposable {
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #wake: () => void = () => undefined;

  /** `limitBytes`: the largest file that it may write. */
  constructor(path: string, mode: string, run = '', limitBytes?: number) {
    const args = ['--disable-warning=ExperimentalWarning', script, path, mode, run];
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    this.#child =
      limitBytes === undefined
        ? spawn(process.execPath, args, { stdio: [...stdio] })
        : spawn('prlimit', [`--fsize=${limitBytes}`, process.execPath, ...args], { stdio: [...stdio] });
    this.#ended = once(this.#child, 'close');
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      this.lines.push(line);
      this.#wake();
    });
    void this.#ended.then(() => this.#wake());
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Resolves once so many lines were written. @throws if it ends before. */
  async wrote(count: number): Promise<void> {
    while (this.lines.length < count) {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`The writer ended after ${this.lines.length} lines: ${this.lines.slice(-3).join(' | ')}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async ended(): Promise<void> {
    await this.#ended;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
