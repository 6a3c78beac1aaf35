import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Methods of a program of `bench/programs`, for the process that started it. Parameters and results are JSON. */
export type Methods = Record<string, (...parameters: never[]) => Promise<unknown>>;

type Answer = { id: number; ok: unknown } | { id: number; error: string };

/** A program of `bench/programs` in its own process, so that its cost does not count for other programs. */
export class Child<M extends Methods> implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #calls = 0;

  private constructor(process: ChildProcess) {
    this.#process = process;
    process.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if ('ok' in answer) waiting?.resolve(answer.ok);
      else waiting?.reject(new Error(answer.error));
    });
    process.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`The program ended with ${code}`));
    });
  }

  /** Resolves when the program is ready. `name`: the file without `.ts`; `flags`: flags of Node. */
  static async start<M extends Methods>(name: string, argument: object, flags: string[] = []): Promise<Child<M>> {
    const path = new URL(`programs/${name}.ts`, import.meta.url).pathname;
    const options = { execArgv: ['--disable-warning=ExperimentalWarning', ...flags] };
    const child = fork(path, options);
    child.send(argument);
    const [first] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
    if (first !== 'ready') throw new Error(`The program ${name} did not start`);
    return new Child<M>(child);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  call<N extends keyof M & string>(name: N, ...parameters: Parameters<M[N]>): ReturnType<M[N]> {
    const waiting = Promise.withResolvers<unknown>();
    const id = (this.#calls += 1);
    this.#waiting.set(id, waiting);
    this.#process.send({ id, name, parameters });
    return waiting.promise as ReturnType<M[N]>; // the program answers with what its method returned
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.disconnect();
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), 10_000);
    await exited;
    clearTimeout(timer);
  }
}
