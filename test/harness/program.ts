import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './until.ts';

/** A start takes seconds; on a machine whose cores other tests take, many more. */
const readyMs = 60_000;
/** The `setpoint` of this checkout. */
export const present = new URL('../../cli/setpoint', import.meta.url).pathname;

/** A `setpoint` process of a test: it can be killed at any instant and started again with the same arguments. */
export class Program {
  /** The `setpoint` that the next start runs: of this checkout, or of an earlier release. */
  command = present;
  readonly #argv: readonly string[];
  readonly #logPath: string;
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;

  /** `env` comes to the little that every program gets. */
  constructor(argv: readonly string[], logPath: string, env: Readonly<Record<string, string>> = {}) {
    this.#argv = argv;
    this.#logPath = logPath;
    this.#env = env;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** `env` comes to that of the constructor, for this start. */
  start(env: Readonly<Record<string, string>> = {}): void {
    if (this.isRunning) throw new Error(`Already running: ${this.#argv.join(' ')}`);
    const log = createWriteStream(this.#logPath, { flags: 'a' });
    const child = spawn(this.command, this.#argv, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...this.#env, ...env },
    });
    child.stdout.pipe(log);
    child.stderr.pipe(log, { end: false });
    this.#child = child;
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async restart(): Promise<void> {
    await this.kill();
    this.start();
  }

  log(): Promise<string> {
    return readFile(this.#logPath, 'utf8').catch(() => '');
  }

  /** The end of its log, for the message of a failure. */
  async lastOutput(): Promise<string> {
    return (await this.log()).split('\n').slice(-40).join('\n');
  }

  /**
   * Resolves when this control plane says at `url` that it is ready. @throws Error with its last output if it ends before
   * that, or is not ready within a minute.
   */
  async ready(url: string): Promise<void> {
    const state = await until(
      `the control plane at ${url} is ready`,
      async () => {
        if (!this.isRunning) return 'ended';
        return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5000) })).ok && 'ready';
      },
      { timeoutMs: readyMs, explain: () => this.lastOutput() },
    );
    if (state === 'ended')
      throw new Error(`The control plane at ${url} ended before it was ready:\n${await this.lastOutput()}`);
  }
}

/** Below the range from which the kernel takes ports for outgoing connections. */
const ports = { first: 20_000, last: 32_000 };
/** A file for each port that was given to a test, with the id of its process: tests run beside each other. */
const handedOut = join(tmpdir(), 'setpoint-test-ports');

/** A port that nothing listens on at this moment and that no other test, also of another process, was given. */
export async function freePort(): Promise<number> {
  await mkdir(handedOut, { recursive: true });
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(ports.first, ports.last);
    if ((await isClaimed(port)) && (await isFree(port))) return port;
  }
  throw new Error(`No free port was found between ${ports.first} and ${ports.last}`);
}

/** Claims a port for this process. What a process claimed that ended is given back, and is free at the next try. */
async function isClaimed(port: number): Promise<boolean> {
  const claim = join(handedOut, String(port));
  try {
    await writeFile(claim, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    const owner = Number(await readFile(claim, 'utf8').catch(() => ''));
    // Empty: it is being written.
    if (owner > 0 && !isRunning(owner)) await rm(claim, { force: true });
    return false;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '0.0.0.0');
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
