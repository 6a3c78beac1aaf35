import { stat } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';
import { z } from 'zod';

/** A larger file would keep a processor busy for longer than a request waits. */
const mostBytes = 512 * 1024 * 1024;
const mostMs = 8_000;

const Found = z.object({ fault: z.string() });

/**
 * Looks whether the file of a store is sound, beside the process that writes it: in a thread and on a connection of its
 * own that only reads. Returns also the size of its log.
 */
export async function examineFile(path: string, bytes: number): Promise<{ logBytes: number; fault: string }> {
  const logBytes = await stat(`${path}-wal`).then(
    ({ size }) => size,
    () => 0, // there is none
  );
  return { logBytes, fault: bytes > mostBytes ? 'unchecked' : await faultOf(path) };
}

async function faultOf(path: string): Promise<string> {
  const worker = new Worker(new URL('quick-check.ts', import.meta.url), {
    workerData: { path },
    env: {},
    execArgv: [],
  });
  try {
    const [found] = await once(worker, 'message', { signal: AbortSignal.timeout(mostMs) });
    return Found.parse(found).fault;
  } catch (error) {
    return error instanceof Error && error.name === 'AbortError' ? 'unchecked' : String(error);
  } finally {
    await worker.terminate();
  }
}
