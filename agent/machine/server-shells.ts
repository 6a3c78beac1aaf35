import { createHash, randomUUID } from 'node:crypto';
import { access, constants, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ExecProcess, TerminalSize } from '../runtime/exec.ts';
import { endSession, terminalVariable } from '../runtime/sessions.ts';
import { ownerVariable } from './orphans.ts';
import { run, start } from './process.ts';
import { Pty } from './pty.ts';
import { isOurSystemd } from './systemd.ts';

/** Tried in this order where the user of the agent has no shell. */
const usualShells = ['/bin/bash', '/bin/sh'] as const;
const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'] as const;
/** When the shell has ended and nothing was written for so long, the terminal ends, even if a program has it open. */
const quietMs = 1000;
/** systemd kills what is left of a terminal after 5 s. */
const graceSeconds = 5;
const stopMs = 20_000;
const maxOutputBytes = 64 * 1024;

const endOfInput = 4; // Ctrl-D

/** A shell on this machine, outside of all containers. */
export interface ServerShells {
  /**
   * Starts a login shell of the agent's user on a terminal. It ends with the signal, and with it everything that was
   * started from it.
   *
   * @throws CallError `no_program`
   */
  open(options: { shell?: string; size: TerminalSize }, signal: AbortSignal): Promise<ExecProcess>;
}

/** What runs on a terminal. */
interface Session {
  /** Exit code of the shell. @throws CallError `failed` if it could not be started */
  ended: Promise<number>;
  /** Ends everything of the session. Returns false if that was not possible. */
  end(): Promise<boolean>;
}

interface Plan {
  shell: string;
  home: string;
  env: Readonly<Record<string, string>>;
  /** Names the terminal. */
  id: string;
  owner: string;
}

/**
 * Shells for the agent with that data directory. Under systemd each is a unit of its own: outside of the sandbox of the
 * agent's unit, and ended as a whole. Elsewhere it is a child of the agent, and {@link endSession} ends it.
 */
export function serverShells({ owner, clock, log }: { owner: string; clock: Clock; log: Logger }): ServerShells {
  return {
    async open({ shell: named, size }, signal) {
      const user = userOfAgent();
      const shell = await shellOf(named, user.shell);
      const env = {
        HOME: user.home,
        USER: user.name,
        LOGNAME: user.name,
        SHELL: shell,
        TERM: 'xterm-256color',
      };
      const pty = await Pty.open(size, clock);
      try {
        signal.throwIfAborted();
        const plan = { shell, home: user.home, env, id: randomUUID(), owner };
        const session = (await isOurSystemd()) ? await asUnit(pty, plan) : await asChild(pty, plan, clock);
        log.info({ terminal: plan.id, shell }, 'A terminal of the server was opened');
        return processOf(pty, session, { clock, log: log.child({ terminal: plan.id }) }, signal);
      } catch (error) {
        pty.hangUp();
        throw error;
      }
    },
  };
}

/** Ends the units that an earlier run of the agent left; its other programs are those of `endOrphans`. */
export async function endEarlierShells(owner: string, log: Logger, signal: AbortSignal): Promise<void> {
  if (!(await isOurSystemd())) return;
  if (!(await stopUnits(unitOf(owner, '*'), signal)))
    log.warn(
      { advice: `Run systemctl stop '${unitOf(owner, '*')}'` },
      'Terminals of the server that were open before the restart of the agent could not be ended',
    );
}

function processOf(
  pty: Pty,
  session: Session,
  { clock, log }: { clock: Clock; log: Logger },
  signal: AbortSignal,
): ExecProcess {
  const aborted = Promise.withResolvers<undefined>();
  const hangUp = (): void => {
    pty.hangUp();
    aborted.resolve(undefined);
  };
  signal.addEventListener('abort', hangUp, { once: true });
  if (signal.aborted) hangUp();
  const whole = (async () => {
    await Promise.race([session.ended, aborted.promise]);
    const isGone = await session.end();
    if (!isGone) log.warn('Programs on a terminal of the server could not be ended');
    log.info('A terminal of the server was closed');
    if (isGone) return session.ended;
    return undefined;
  })().finally(() => {
    signal.removeEventListener('abort', hangUp);
    pty.closeSlave();
    void hangUpWhenQuiet(pty, clock);
  });
  whole.catch(() => undefined); // the reader of the output gets the error
  return {
    input: {
      write: (data) => pty.write(data),
      end: () => void pty.write(Uint8Array.of(endOfInput)),
    },
    output: outputOf(pty, whole, signal),
    resize: async (size) => pty.setSize(size),
    exited: whole.catch(() => undefined),
  };
}

async function* outputOf(
  pty: Pty,
  whole: Promise<unknown>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield* pty.output();
  signal.throwIfAborted();
  await whole;
}

/**
 * A program that left its session and cleared its environment is not found, and may keep the terminal open. What was
 * written before still reaches the reader.
 */
async function hangUpWhenQuiet(pty: Pty, clock: Clock): Promise<void> {
  const never = new AbortController().signal;
  for (let before: number | undefined; !pty.isClosed;) {
    await wait(clock, quietMs, never);
    const now = pty.deliveredToWaiting;
    if (now !== undefined && now === before) pty.hangUp();
    before = now;
  }
}

async function asChild(pty: Pty, { shell, home, env, id, owner }: Plan, clock: Clock): Promise<Session> {
  const entry = `${terminalVariable}=${id}`;
  // It is no leader of a process group, so that `setsid` does not fork: the process becomes the shell.
  const child = await start('setsid', {
    args: ['--ctty', shell, '-l'],
    cwd: (await isFolder(home)) ? home : '/',
    env: { ...env, [ownerVariable]: owner, [terminalVariable]: id },
    stdio: [pty.slave, pty.slave, pty.slave],
  });
  return {
    ended: child.ended.then(({ code }) => code),
    end: () => endSession(child.pid, entry, clock),
  };
}

async function asUnit(pty: Pty, { shell, home, env, id, owner }: Plan): Promise<Session> {
  const unit = unitOf(owner, id);
  const properties = {
    TTYPath: pty.name,
    StandardInput: 'tty',
    StandardOutput: 'tty',
    StandardError: 'tty',
    WorkingDirectory: `-${home}`,
    // A shell of its own, as after a login, ends by a hang-up and not by SIGTERM.
    KillSignal: 'SIGHUP',
    TimeoutStopSec: `${graceSeconds}s`,
    IgnoreSIGPIPE: 'no',
  };
  const child = await start('systemd-run', {
    args: [
      '--quiet',
      '--collect',
      '--wait',
      `--unit=${unit}`,
      '--description=Terminal of the server, opened by Setpoint',
      ...Object.entries(properties).map(([name, value]) => `--property=${name}=${value}`),
      ...Object.entries({ ...env, LANG: 'C.UTF-8' }).map(([name, value]) => `--setenv=${name}=${value}`),
      '--',
      shell,
      '-l',
    ],
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  return {
    ended: child.ended.then(({ code, stderr }) => {
      const why = stderr.trim();
      if (code === 0 || why === '') return code;
      throw new CallError('failed', `systemd did not start the shell: ${why.slice(0, 300)}`);
    }),
    end: () => stopUnits(unit, AbortSignal.timeout(stopMs)),
  };
}

/** Stops units by their name, also with `*`. Returns false if systemd refused. */
async function stopUnits(name: string, signal: AbortSignal): Promise<boolean> {
  const notLoaded = 5;
  try {
    const { code } = await run('systemctl', { args: ['stop', name], maxOutputBytes }, signal);
    return code === 0 || code === notLoaded;
  } catch {
    return false; // no systemctl, or it did not end in time
  }
}

function unitOf(owner: string, id: string): string {
  const digest = createHash('sha256').update(owner).digest('hex').slice(0, 12);
  return `setpoint-terminal-${digest}-${id}.service`;
}

function userOfAgent(): { name: string; home: string; shell: string | null } {
  try {
    const { username: name, homedir: home, shell } = userInfo();
    return { name, home, shell };
  } catch {
    return { name: String(process.geteuid?.() ?? ''), home: '/', shell: null }; // the system has no entry of the user
  }
}

/** The path of the shell. @throws CallError `no_program` */
async function shellOf(named: string | undefined, own: string | null): Promise<string> {
  const usual = [...(own === null ? [] : [own]), ...usualShells].filter(isShell);
  const wanted = named === undefined ? usual : [named];
  for (const name of wanted)
    for (const path of name.includes('/') ? [name] : folders.map((it) => join(it, name)))
      if (await isProgram(path)) return path;
  throw new CallError('no_program', `The server has no program ${wanted.at(-1)}`);
}

/** Accounts without a login have a program in place of the shell that refuses it. */
function isShell(path: string): boolean {
  return !/\/(nologin|false)$/.test(path) && path.startsWith('/');
}

async function isProgram(path: string): Promise<boolean> {
  const isFile = await stat(path).then((it) => it.isFile(), no);
  return isFile && access(path, constants.X_OK).then(() => true, no);
}

function isFolder(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(() => true, no);
}

function no(): boolean {
  return false;
}
