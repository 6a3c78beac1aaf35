import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { within } from './within.ts';

/**
 * Waits until no other process of this machine holds the lock of that name, and holds it until it is disposed. The
 * kernel frees it when the process ends, however it ends. @throws Error when it is not free within `timeoutMs`.
 */
export async function machineLock(name: string, timeoutMs: number): Promise<AsyncDisposable> {
  // `cat` has the lock as long as its input is open. Its echo shows that it runs.
  const child = spawn('flock', [join(tmpdir(), `setpoint-${name}.lock`), 'cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const failed = ended.then(([code]) => Promise.reject(new Error(`flock of ${name} ended with ${String(code)}`)));
  failed.catch(() => undefined);
  const release = async (): Promise<void> => {
    child.kill();
    child.stdin.destroy();
    child.stdout.destroy();
    await ended;
  };
  try {
    child.stdin.write('\n');
    await within(`the lock ${name} is free`, Promise.race([once(child.stdout, 'data'), failed]), timeoutMs);
  } catch (error) {
    await release();
    throw error;
  }
  return { [Symbol.asyncDispose]: release };
}
