import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { DatabaseEngine } from './database-images.ts';
import { docker } from './engine.ts';

export const Credentials = z.object({
  internal_host: z.string(),
  username: z.string(),
  password: z.string(),
  database: z.string(),
});
export type Credentials = z.infer<typeof Credentials>;

/** How rows with numbers are written to a database of a type by its client, which reads a line and answers with one. */
export interface Numbered {
  /** The client, which connects from another container, and its environment. */
  client: (to: Credentials) => { command: readonly string[]; env: Readonly<Record<string, string>> };
  /** What makes the table, as arguments of the client in the database's own container; absent: nothing is to be made. */
  make?: readonly string[];
  /** The line that writes a number. */
  line: (n: number) => string;
  /** Whether the line is the answer of an engine that has the number. */
  acknowledges: (line: string, n: number) => boolean;
  /** Arguments of the client in the database's own container that tell all numbers, one a line. */
  all: readonly string[];
}

const ofMysql = (program: string): Numbered => ({
  client: ({ internal_host: host, username, password, database }) => ({
    command: [program, '-h', host, '-u', username, '--connect-timeout=5', '-BN', '--unbuffered', database],
    env: { MYSQL_PWD: password },
  }),
  make: ['app', '-e', 'CREATE TABLE numbers (n int PRIMARY KEY)'],
  line: (n) => `INSERT INTO numbers VALUES (${n}); SELECT ${n};`,
  acknowledges: (line, n) => line === String(n),
  all: ['app', '-BNe', 'SELECT n FROM numbers'],
});

export const numbered: Readonly<Record<DatabaseEngine, Numbered>> = {
  postgres: {
    client: ({ internal_host: host, username, password, database }) => ({
      command: ['psql', '-h', host, '-U', username, '-d', database, '-XqtA', '-v', 'ON_ERROR_STOP=1'],
      env: { PGPASSWORD: password, PGCONNECT_TIMEOUT: '5' },
    }),
    make: ['-c', 'CREATE TABLE numbers (n int PRIMARY KEY)'],
    line: (n) => `INSERT INTO numbers VALUES (${n}) RETURNING n;`,
    acknowledges: (line, n) => line === String(n),
    all: ['-XqtA', '-c', 'SELECT n FROM numbers'],
  },
  mysql: ofMysql('mysql'),
  mariadb: ofMysql('mariadb'),
  redis: {
    client: ({ internal_host: host, password }) => ({
      command: ['redis-cli', '-h', host],
      env: { REDISCLI_AUTH: password },
    }),
    line: (n) => `SADD numbers ${n}`,
    // a client that lost its connection asks again
    acknowledges: (line) => line === '1' || line === '0',
    all: ['SMEMBERS', 'numbers'],
  },
};

/** A container with the programs of an image on a network, which does nothing by itself. */
export async function idleContainer(image: string, network: string): Promise<AsyncDisposable & { id: string }> {
  const id = await docker('run', '--detach', '--network', network, '--entrypoint', 'sleep', image, 'infinity');
  return { id, [Symbol.asyncDispose]: async () => void (await docker('rm', '--force', '--volumes', id)) };
}

/** Starts a program in a container, with its input and output. */
export function inContainer(
  container: string,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcessWithoutNullStreams {
  const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const child = spawn('docker', ['exec', '--interactive', ...variables, container, ...command]);
  child.stdin.on('error', () => undefined); // it ended: its output says so
  child.stderr.resume();
  return child;
}

/** A client that gets no answer for so long has lost its connection without knowing it. */
const answerMs = 10_000;

/** Writes numbers by one client after the other, each as quickly as the last one was acknowledged. */
export class NumberWriter {
  /** When each number was acknowledged, by `performance.now()`. */
  readonly acknowledged = new Map<number, number>();
  #sent = 0;
  readonly #stop = new AbortController();
  readonly #writing: Promise<unknown>;

  /** `open` starts a client; `clients` of them write at once. */
  constructor(how: Numbered, clients: number, open: () => ChildProcessWithoutNullStreams) {
    this.#writing = Promise.all(Array.from({ length: clients }, () => this.#write(how, open)));
  }

  /** How many numbers were sent, from 0: each of them may be there. */
  get sent(): number {
    return this.#sent;
  }

  /** Ends the writing, once all clients have ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#writing;
  }

  async #write(how: Numbered, open: () => ChildProcessWithoutNullStreams): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const child = open();
      const ended = once(child, 'close');
      await this.#writeBy(child, how);
      child.kill('SIGKILL');
      await ended;
    }
  }

  /** Resolves when the client has ended, or gives no answer. */
  async #writeBy(child: ChildProcessWithoutNullStreams, { line, acknowledges }: Numbered): Promise<void> {
    const lines = createInterface(child.stdout);
    let n = this.#send(child, line);
    let late = setTimeout(() => lines.close(), answerMs);
    for await (const answer of lines) {
      clearTimeout(late);
      if (!acknowledges(answer, n)) break;
      this.acknowledged.set(n, performance.now());
      if (this.#stop.signal.aborted) break;
      n = this.#send(child, line);
      late = setTimeout(() => lines.close(), answerMs);
    }
    clearTimeout(late);
  }

  #send(child: ChildProcessWithoutNullStreams, line: Numbered['line']): number {
    const n = this.#sent++;
    child.stdin.write(`${line(n)}\n`);
    return n;
  }
}
