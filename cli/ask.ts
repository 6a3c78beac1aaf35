import { createInterface } from 'node:readline/promises';

/** Asks at the terminal. @throws Error unless the user answers yes, or if there is no terminal. */
export async function confirm(question: string): Promise<void> {
  if (!process.stdin.isTTY)
    throw new Error(`${question} There is no terminal to answer at: repeat the command with --yes`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const interrupted = new AbortController();
  terminal.once('SIGINT', () => interrupted.abort());
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: interrupted.signal });
    if (/^y(es)?$/i.test(answer.trim())) return;
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    process.stderr.write('\n');
  } finally {
    terminal.close();
  }
  throw new Error('Nothing was changed');
}
