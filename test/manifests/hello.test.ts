import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from 'vitest';

const program = new URL('../../manifests/examples/hello/server.js', import.meta.url).pathname;

let child: ChildProcess | undefined;
afterEach(() => {
  child?.kill('SIGKILL');
});

interface Line {
  message: string;
  port: number;
}

/** Starts the example on a free port; `logged` resolves with the next line it logs. */
async function start(env: Record<string, string> = {}) {
  const started = spawn(process.execPath, [program], {
    env: { PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child = started;
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]();
  const logged = async () => JSON.parse((await lines.next()).value ?? 'null') as Line;
  const { port } = await logged();
  return { url: `http://127.0.0.1:${port}`, logged, process: started };
}

test('it greets, and logs each request as a line of JSON', async () => {
  const { url, logged } = await start({ GREETING: 'Good morning' });
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ message: 'Good morning from Setpoint', revision: 1 });
  expect(await logged()).toMatchObject({ message: 'Request answered', method: 'GET', path: '/', status: 200 });
});

test('it is healthy, and says no to what it does not know', async () => {
  const { url } = await start();
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/other`)).status).toBe(404);
  expect((await fetch(url, { method: 'POST' })).status).toBe(405);
});

test('it leaves with code 0 when it is asked to stop', async () => {
  const { process: hello, logged } = await start();
  const exited = once(hello, 'exit');
  hello.kill('SIGTERM');
  expect(await logged()).toMatchObject({ message: 'Stopping' });
  expect(await exited).toEqual([0, null]);
});
