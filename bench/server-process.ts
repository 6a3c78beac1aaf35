import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const setpoint = new URL('../cli/setpoint', import.meta.url).pathname;
const timeoutMs = 60_000;

/** A server in its own process, ready to answer. */
export interface ServerProcess extends AsyncDisposable {
  pid: number;
  url: string;
  /** Milliseconds from the start of the process to its first answer with status 200. */
  ms: number;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts `setpoint server` as an installation does. */
export function startServer(port: number, data: string): Promise<ServerProcess> {
  const flags = ['--listen', `127.0.0.1:${port}`, '--data', data, '--log-level', 'error'];
  return startProcess([setpoint, 'server', ...flags], port);
}

/** Starts a program. Resolves when `/readyz` at the port answers with status 200. */
export async function startProcess([program = '', ...rest]: readonly string[], port: number): Promise<ServerProcess> {
  const begun = performance.now();
  const child = spawn(program, rest, { stdio: 'inherit' });
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  while (!(await answers(port))) {
    if (child.exitCode !== null || performance.now() - begun > timeoutMs) {
      await stop('SIGKILL');
      throw new Error(`${program} did not start`);
    }
    await delay(1);
  }
  const ms = performance.now() - begun;
  return { pid: child.pid ?? 0, url: `http://127.0.0.1:${port}`, ms, stop, [Symbol.asyncDispose]: () => stop() };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, path: '/readyz', agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    asked.on('error', () => resolve(false));
    asked.end();
  });
}
