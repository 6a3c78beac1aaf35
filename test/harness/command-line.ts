import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { freePort, Program } from './program.ts';
import { until } from './until.ts';

const command = new URL('../../cli/setpoint', import.meta.url).pathname;
export const account = { email: 'owner@example.test', password: 'correct horse battery' };

/** What a command printed, and how it ended. */
export interface Printed {
  code: number | null;
  out: string;
  err: string;
}

/** A command that goes on until it is ended. */
export interface Running {
  /** Everything that it has written to standard output so far. */
  out(): string;
  /** The same of standard error. */
  err(): string;
  /** Resolves when its output has that; a string or a pattern. */
  prints(what: string | RegExp): Promise<void>;
  /** As from a keyboard. */
  type(text: string): void;
  /** What it printed, once it has ended. */
  ended(): Promise<Printed>;
  /** Interrupts it, as Ctrl-C does, and answers with what it printed. */
  interrupt(): Promise<Printed>;
}

/** A command at a terminal whose window changes: the kernel sends SIGWINCH to it. */
export interface Resizable {
  resize(cols: number, rows: number): Promise<void>;
}

/** The `setpoint` command as a user has it: in a home of its own, with nothing of this process's environment. */
export class CommandLine implements AsyncDisposable {
  readonly home: string;
  readonly #running = new Set<() => void>();

  private constructor(home: string) {
    this.home = home;
  }

  static async open(): Promise<CommandLine> {
    return new CommandLine(await mkdtemp(join(tmpdir(), 'setpoint-cli-')));
  }

  /** Runs a command to its end; `stdin` is all that it can read. */
  async run(argv: readonly string[], stdin = '', env: Readonly<Record<string, string>> = {}): Promise<Printed> {
    const child = this.#launch(command, argv, env);
    child.stdin.on('error', () => undefined); // it may end before it has read
    child.stdin.end(stdin);
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { code, out, err };
  }

  /** Runs another program of the machine in this home, to its end. */
  runProgram(program: string, argv: readonly string[]): Promise<Printed> {
    const running = this.#follow(this.#launch(program, argv));
    return running.ended();
  }

  start(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
    const child = this.#launch(command, argv, env);
    child.stdin.end();
    return this.#follow(child);
  }

  /**
   * Runs it at a terminal of its own, whose screen is its standard output. `then`: a line of the shell that follows it at
   * that terminal.
   */
  atTerminal(argv: readonly string[], env: Readonly<Record<string, string>> = {}, then?: string): Running & Resizable {
    const device = join(this.home, `terminal-${randomUUID()}`);
    const words = [command, ...argv].map((word) => `'${word}'`).join(' ');
    const line = `tty > '${device}'; ${then === undefined ? `exec ${words}` : `${words}; ${then}`}`;
    const script = this.#launch('script', ['--quiet', '--return', '--flush', '--command', line, '/dev/null'], env);
    return {
      ...this.#follow(script),
      resize: async (cols, rows) => {
        const path = (await readFile(device, 'utf8')).trim();
        const { code, err } = await this.runProgram('stty', ['-F', path, 'cols', `${cols}`, 'rows', `${rows}`]);
        if (code !== 0) throw new Error(`Cannot resize terminal ${path}: ${err}`);
      },
    };
  }

  #follow(child: ChildProcessWithoutNullStreams): Running {
    let [out, err] = ['', ''];
    let isOver = false;
    child.stdout.on('data', (chunk: Buffer) => void (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => void (err += chunk.toString()));
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
    void ended.then(() => (isOver = true));
    return {
      out: () => out,
      err: () => err,
      prints: async (what) => {
        const isPrinted = async () => (typeof what === 'string' ? out.includes(what) : what.test(out)) || isOver;
        await until(`it prints ${String(what)}`, isPrinted, {
          timeoutMs: 90_000,
          explain: async () => `${out}\n${err}`,
        });
        if (isOver && !(typeof what === 'string' ? out.includes(what) : what.test(out)))
          throw new Error(`It ended without saying ${String(what)}:\n${out}\n${err}`);
      },
      type: (typed) => void child.stdin.write(typed),
      ended: async () => ({ code: await ended, out, err }),
      interrupt: async () => {
        child.kill('SIGINT');
        const code = await ended;
        return { code, out, err };
      },
    };
  }

  /** A file in the home. */
  async file(name: string, content: string): Promise<string> {
    const path = join(this.home, name);
    await writeFile(path, content);
    return path;
  }

  #launch(
    program: string,
    argv: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): ChildProcessWithoutNullStreams {
    const child = spawn(program, argv, { env: { PATH: process.env['PATH'], HOME: this.home, ...env } });
    const kill = (): void => void child.kill('SIGKILL');
    this.#running.add(kill);
    child.on('close', () => this.#running.delete(kill));
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const kill of this.#running) kill();
    await rm(this.home, { recursive: true, force: true });
  }
}

/** A control plane with an agent on the mock engine, each a process of its own, and a user with a command line. */
export class Town implements AsyncDisposable {
  readonly cli: CommandLine;
  readonly url: string;
  readonly server: Program;
  agent!: Program;
  client!: Client;
  project!: ApiObject;

  private constructor(cli: CommandLine, url: string, server: Program) {
    this.cli = cli;
    this.url = url;
    this.server = server;
  }

  static async start(): Promise<Town> {
    const cli = await CommandLine.open();
    const port = await freePort();
    const data = join(cli.home, 'server');
    const server = new Program(
      ['server', '--listen', `127.0.0.1:${port}`, '--data', data],
      join(cli.home, 'server.log'),
    );
    const town = new Town(cli, `http://127.0.0.1:${port}`, server);
    try {
      await town.#bringUp();
    } catch (error) {
      const log = await server.log();
      await town[Symbol.asyncDispose]();
      throw new Error(`The town did not start:\n${log}`, { cause: error });
    }
    return town;
  }

  get data(): string {
    return join(this.cli.home, 'server');
  }

  async #bringUp(): Promise<void> {
    this.server.start();
    await this.server.ready(this.url);
    const visitor = createClient({ server: this.url, tenant: 'default' });
    await visitor.request('POST', '/api/v1/auth/register', { ...account, first_name: 'Olive', last_name: 'Owner' });
    const login = z.object({ token: z.string() });
    const { token } = login.parse(await visitor.request('POST', '/api/v1/auth/login', account));
    this.client = createClient({ server: this.url, tenant: 'default', token });
    this.project = await this.client.object('POST', '/api/v1/projects', { name: 'shop' });
    const created = await this.client.object('POST', '/api/v1/servers', { name: 'one' });
    const joining = ['--server', `${this.url}/default`, '--token', String(created['join_token'])];
    const folders = ['--data', join(this.cli.home, 'agent'), '--git-protocols', 'file', '--git-file-roots', tmpdir()];
    this.agent = new Program(['agent', ...joining, ...folders, '--runtime', 'mock'], join(this.cli.home, 'agent.log'));
    this.agent.start();
    await until('the server is active', async () => {
      const it = await this.client.object('GET', `/api/v1/servers/${created.id}`);
      return it.status === 'active';
    });
  }

  /** Logs the command line in. */
  login(password = account.password): Promise<Printed> {
    return this.cli.run(['login', '--server', this.url, '--email', account.email], `${password}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent?.kill();
    await this.server.kill();
    await this.cli[Symbol.asyncDispose]();
  }
}
