import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';

const program = `
const { stopped, stopSignal } = await import(${JSON.stringify(new URL('../../cli/stop-signal.ts', import.meta.url).href)});
const signal = stopSignal();
console.log('waits');
await stopped(signal);
console.log('stopped');
`;

test('a program that waits to be stopped goes on while it has nothing else to wait for', async () => {
  const child = execFile(process.execPath, ['--input-type=module', '--eval', program]);
  let out = '';
  const waits = Promise.withResolvers<void>();
  child.stdout?.on('data', (text: string) => {
    out += text;
    if (out.includes('waits')) waits.resolve();
  });
  const closed = once(child, 'close');
  await Promise.race([waits.promise, closed]);
  child.kill('SIGTERM');
  expect(await closed).toEqual([0, null]);
  expect(out).toBe('waits\nstopped\n');
});
