/**
 * Updates the agent of an installation in a process of its own, and kills that before its nth change of a file or folder:
 * `node updating.ts HOME URL KEY N`. It prints `chosen` if it comes to the end.
 */
import type * as Files from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { pino } from 'pino';
import { systemClock } from '../../../time/clock.ts';

const [home = '', url = '', key = '', nth = ''] = process.argv.slice(2);
let left = Number(nth);
function step(): void {
  if (left-- === 0) process.kill(process.pid, 'SIGKILL');
}

type Method = (...args: unknown[]) => Promise<unknown>;

/** Every method of that name counts as a change before it is called. */
function count(object: object, names: readonly string[]): void {
  for (const name of names) {
    const original = Reflect.get(object, name) as Method;
    Reflect.set(object, name, function counted(this: unknown, ...args: unknown[]) {
      step();
      return Reflect.apply(original, this, args);
    });
  }
}

const files = createRequire(import.meta.url)('node:fs/promises') as typeof Files;
const someFile = await files.open('/dev/null');
count(Object.getPrototypeOf(someFile) as object, ['writeFile', 'sync', 'chmod']);
await someFile.close();
count(files, ['mkdir', 'rename', 'rm', 'open', 'chmod']);
syncBuiltinESMExports();

const { Updater } = await import('../../../agent/update/updater.ts'); // with the counted functions
const updater = new Updater({
  home,
  version: '1.0.0',
  platform: 'linux-x64',
  keys: [key],
  urls: [url],
  disk: async () => ({ freeBytes: 1e9, totalBytes: 1e9 }),
  askVersion: async () => '1.1.0',
  chosen: () => {
    console.log('chosen');
    process.exit();
  },
  clock: systemClock,
  random: () => 0,
  log: pino({ level: 'error' }, process.stderr),
});
updater.ask({ version: '1.1.0', requestedAt: '2030-01-01T00:00:00.000Z' });
