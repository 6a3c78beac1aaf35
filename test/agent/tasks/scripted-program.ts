import type { ExecOptions, ExecProcess } from '../../../agent/runtime/exec.ts';
import { until } from '../../harness/until.ts';

/** What a program in a container does, in place of one. */
export interface Script {
  /** What it writes to its standard output, and when; its input is read with `takes`. */
  output?: (program: ScriptedProgram) => AsyncIterable<Uint8Array>;
  /** What it writes to its standard error at its start. */
  errors?: string;
  /** How it ends after its output; `undefined`: with the container. Default: 0. */
  code?: number | undefined;
}

/** A program that runs until its output ends or its signal aborts. */
export class ScriptedProgram {
  readonly options: ExecOptions;
  readonly process: ExecProcess;
  /** It is not there any more. */
  isGone = false;
  /** What came to its standard input, and whether that has ended. */
  input = '';
  hasInputEnded = false;

  constructor(options: ExecOptions, { output, errors, ...end }: Script, signal: AbortSignal) {
    this.options = options;
    const exited = Promise.withResolvers<number | undefined>();
    const ends = (code: number | undefined): void => {
      this.isGone = true;
      exited.resolve(code);
    };
    const killed = Promise.withResolvers<never>();
    killed.promise.catch(() => undefined); // nobody may read
    const kill = (): void => {
      ends(undefined);
      killed.reject(signal.reason as Error); // of the test
    };
    if (signal.aborted) kill();
    else signal.addEventListener('abort', kill, { once: true });
    if (errors !== undefined) options.errors?.(Buffer.from(errors));
    const written = output?.(this) ?? this.#untilInputEnds();
    this.process = {
      input: {
        write: async (data) => {
          if (!this.isGone) this.input += Buffer.from(data).toString('latin1');
        },
        end: () => void (this.hasInputEnded = true),
      },
      output: (async function* read(): AsyncGenerator<Uint8Array> {
        const chunks = written[Symbol.asyncIterator]();
        for (;;) {
          const { done, value } = await Promise.race([chunks.next(), killed.promise]);
          if (done === true) break;
          yield value as Uint8Array;
        }
        ends('code' in end ? end.code : 0);
      })(),
      resize: async () => undefined,
      exited: exited.promise,
    };
  }

  /** Resolves once so much came to its input. */
  async takes(bytes: number): Promise<void> {
    await until('the program has got its input', async () => this.input.length >= bytes || this.isGone);
  }

  async *#untilInputEnds(): AsyncGenerator<Uint8Array> {
    await until('the input of the program ends', async () => this.hasInputEnded || this.isGone);
    yield Buffer.alloc(0);
  }
}
