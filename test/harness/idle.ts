import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** What the event loop has still to do by itself: its next turn, and requests to the file system or the thread pool. */
const work = /Immediate|Req/;

/** Reads of whole files, which Node does not list with the rest. */
let reading = 0;
const { readFile } = files;
files.readFile = async function (...args: Parameters<typeof readFile>) {
  reading += 1;
  try {
    return await readFile(...args);
  } finally {
    reading -= 1;
  }
} as typeof readFile; // its overloads answer with what the arguments ask for
syncBuiltinESMExports();

/**
 * Lets everything run that waits neither for time nor for input from outside: it resolves when the event loop has
 * nothing left to do. With sockets in memory and a clock that stands still, that is the end of all consequences.
 */
export async function idle(): Promise<void> {
  for (let quiet = 0; quiet < 2; quiet += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    if (reading > 0 || process.getActiveResourcesInfo().some((name) => work.test(name))) quiet = -1;
  }
}
