import type { RestoreEnd } from '../../databases/engine.ts';
import type { ExecProcess } from '../runtime/exec.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { firstWords, lastWords } from './last-words.ts';

const mostOutputBytes = 4 * 1024;
const mostErrorBytes = 64 * 1024;

/** Runs a program to its end, with an input or without. @throws what the input throws, after the program is gone */
export async function endOf(
  runtime: Pick<ContainerRuntime, 'exec'>,
  container: string,
  [program = '', ...rest]: readonly string[],
  signal: AbortSignal,
  input: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = [],
): Promise<RestoreEnd> {
  const [output, errors] = [lastWords(mostOutputBytes), firstWords(mostErrorBytes)];
  const stop = new AbortController();
  const process = await runtime.exec(
    container,
    { command: [program, ...rest], errors: (data) => errors.add(data) },
    AbortSignal.any([signal, stop.signal]),
  );
  const over = new AbortController();
  const reading = read(process, output).finally(() => over.abort());
  reading.catch(() => undefined); // it is awaited below
  try {
    for await (const chunk of input) {
      if (over.signal.aborted) break; // it takes no more
      await process.input.write(chunk);
    }
    process.input.end();
    await reading;
  } catch (error) {
    // without the end of the input it might take what it has for all
    stop.abort(new Error('The input of the program failed'));
    await process.exited;
    throw error;
  }
  const exitCode = (await process.exited) ?? -1;
  return { exitCode, output: output.text, errors: errors.text, hasMoreErrors: errors.hasMore };
}

async function read(process: ExecProcess, output: { add(data: Uint8Array): void }): Promise<void> {
  for await (const chunk of process.output) output.add(chunk);
}
