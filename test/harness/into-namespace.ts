import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Passes each connection of a port of loopback on to a socket of the file system, which all namespaces share. */
const relay = `
  const { connect, createServer } = require('node:net');
  const [port, path] = process.argv.slice(1);
  createServer((near) => {
    const far = connect(path);
    near.pipe(far).pipe(near);
    for (const [one, other] of [[near, far], [far, near]]) one.on('error', () => {}).on('close', () => other.destroy());
  }).listen(Number(port), '127.0.0.1', () => console.log('listens'));
`;

/** Lets the network namespace of that process reach the port of this machine's loopback as its own. Needs root. */
export async function intoNamespace(pid: number, port: number): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-namespace-'));
  stack.defer(() => rm(folder, { recursive: true }));
  const path = join(folder, 'socket');
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.pipe(far).pipe(near);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one
        .on('error', () => undefined)
        .on('close', () => {
          open.delete(one);
          other.destroy();
        });
    }
  }).listen(path);
  await once(server, 'listening');
  stack.defer(async () => {
    for (const one of open) one.destroy();
    server.close();
    await once(server, 'close');
  });
  const enter = ['--net', `--target=${pid}`, 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];
  const child = spawn('nsenter', [...enter, process.execPath, '-e', relay, String(port), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill();
    await exited;
  });
  const ended = exited.then(() => Promise.reject(new Error('Nothing listens in the namespace')));
  ended.catch(() => undefined); // when it is disposed
  await Promise.race([once(child.stdout, 'data'), ended]);
  return stack.move();
}
