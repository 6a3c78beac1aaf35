import { resolve } from 'node:path';
import type { Logger } from 'pino';
import { openIdentity } from '../agent/identity.ts';
import {
  installedSetting,
  keptImports,
  placesOf,
  removal,
  removeInstallation,
  stopInstallation,
  usualPlaces,
} from '../agent/uninstall/removal.ts';
import { removeLeftover } from '../agent/leftovers.ts';
import { run, startDetached } from '../agent/machine/process.ts';
import { isOurSystemd } from '../agent/machine/systemd.ts';
import { systemClock, wait } from '../time/clock.ts';
import type { AgentConfig } from './agent-config.ts';
import { confirm } from './ask.ts';
import { localRuntime } from './docker-engine.ts';
import { stopped } from './stop-signal.ts';

interface Options {
  data?: string;
  imports?: string;
  dockerSocket?: string;
  runtime?: string;
  agentHome?: string;
  yes?: boolean;
  /** The agent itself has removed what its containers need: only the installation is left. */
  finish?: boolean;
  /** The engine is gone, or what it has of the agent is to stay. */
  keepContainers?: boolean;
}

const removeMs = 600_000;
const retry = { firstMs: 5_000, maxMs: 60_000 } as const;
/** The removal of the installation stops this process within this time. */
const finishMs = 120_000;
const maxOutputBytes = 64 * 1024;

/**
 * `setpoint-agent uninstall`: stops the agent of this machine and removes it with its containers, networks, images and
 * packet filter rules. Volumes and their data stay, as does everything that no agent made, such as dumps of the operator.
 * Idempotent.
 *
 * @throws Error if the agent does not stop, or the engine does not answer
 */
export async function uninstallAgent(options: Options, signal: AbortSignal): Promise<void> {
  const home = resolve(options.agentHome ?? usualPlaces.home);
  const data = resolve(options.data ?? (await installedSetting('SETPOINT_DATA')) ?? usualPlaces.data);
  const imports = options.imports ?? (await installedSetting('SETPOINT_IMPORTS'));
  const places = placesOf(home, data, imports === undefined ? undefined : resolve(imports));
  if (options.finish !== true && options.yes !== true)
    await confirm('Stop the agent and remove it, with its containers and what is in them?');
  await stopInstallation(places);
  if (options.finish !== true && options.keepContainers !== true) {
    const identity = await openIdentity(places.data).catch(() => undefined); // there is none, or it cannot be read
    if (identity !== undefined) await removeOwn(await engineOf(options), identity.serverId, signal);
    else
      console.log(
        `There is no identity of an agent in ${places.data}: if it left containers, docker ps --all --filter label=setpoint.server shows them`,
      );
  }
  await removeInstallation(places);
  console.log('The agent is removed from this machine. Volumes and their data stay: docker volume ls');
  const dumps = await keptImports(places);
  if (dumps !== undefined) console.log(`The dumps in ${dumps} stay, too: remove them by hand if they are not needed`);
}

/**
 * Goes on with the order to remove this agent until the process is stopped by that: what runs on the engine first, then
 * the installation. What fails is tried again. The agent of this process must have stopped.
 */
export async function uninstallItself(config: AgentConfig, log: Logger, signal: AbortSignal): Promise<void> {
  const { agentHome, data, imports } = config;
  if (agentHome === undefined) throw new Error('Only an agent that runs as an installed release can remove itself');
  const end = stopped(signal); // keeps the process alive
  const { serverId } = await openIdentity(data);
  const dumps = await keptImports(
    placesOf(agentHome, resolve(data), imports === undefined ? undefined : resolve(imports)),
  );
  log.info(
    { server: serverId, ...(dumps !== undefined && { keptDumps: dumps }) },
    'The agent removes what is left of it on this machine',
  );
  await repeated(() => removeOwn(config, serverId, signal), log, signal);
  await repeated(
    async () => {
      await beginRemoval({ home: agentHome, data, imports }, signal);
      const late = wait(systemClock, finishMs, signal).catch(() => undefined);
      await Promise.race([end, late]);
      if (!signal.aborted) throw new Error('The installation was not removed in time');
    },
    log,
    signal,
  );
}

/** Repeats work until it succeeds or the signal aborts. */
async function repeated(work: () => Promise<void>, log: Logger, signal: AbortSignal): Promise<void> {
  const isOver = (): boolean => signal.aborted;
  for (let ms: number = retry.firstMs; !isOver(); ms = Math.min(2 * ms, retry.maxMs)) {
    try {
      return await work();
    } catch (error) {
      if (isOver()) return;
      log.error(
        {
          err: error,
          retryInMs: ms,
          advice: 'Run `setpoint-agent uninstall` on this machine to see what it waits for',
        },
        'The agent cannot remove itself yet, and tries again',
      );
    }
    await wait(systemClock, ms, signal).catch(() => undefined); // rejects when aborted: the loop ends
  }
}

/** Removes what the engine has of a server, but for its volumes, and the rules that lead ports to its containers. */
async function removeOwn(
  { runtime, dockerSocket }: Pick<AgentConfig, 'runtime' | 'dockerSocket'>,
  server: string,
  signal: AbortSignal,
): Promise<void> {
  if (runtime === 'mock') return;
  using engine = localRuntime(dockerSocket);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(removeMs)]);
  const own = (await engine.belongings(limit)).find((it) => it.server === server);
  const none = { server, containers: [], running: [], networks: [], images: [] };
  const leftover = { ...(own ?? none), ports: [], rules: await hasIptables(limit) };
  await removeLeftover({ engine, clock: systemClock }, leftover, limit);
}

/** Without the program there are no rules of the agent. */
async function hasIptables(signal: AbortSignal): Promise<boolean> {
  try {
    await run('iptables-save', { args: ['--version'], maxOutputBytes }, signal);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Starts the removal of the installation apart from it: under systemd as a unit of its own, which the sandbox and the
 * end of the agent's unit do not concern.
 */
async function beginRemoval(
  { home, data, imports }: { home: string; data: string; imports: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  const args = [removal, '--finish', '--agent-home', home, '--data', resolve(data)];
  if (imports !== undefined) args.push('--imports', resolve(imports));
  if (!(await isOurSystemd())) return startDetached(process.execPath, args);
  const unit = ['--quiet', '--collect', '--unit=setpoint-agent-uninstall', '--'];
  const options = { args: [...unit, process.execPath, ...args], maxOutputBytes };
  const { code, stderr } = await run('systemd-run', options, signal);
  if (code !== 0) throw new Error(`systemd does not start the removal: ${stderr.trim().slice(0, 300)}`);
}

async function engineOf({ runtime, dockerSocket }: Options): Promise<Pick<AgentConfig, 'runtime' | 'dockerSocket'>> {
  return {
    runtime: (runtime ?? (await installedSetting('SETPOINT_RUNTIME'))) === 'mock' ? 'mock' : 'docker',
    dockerSocket: dockerSocket ?? (await installedSetting('SETPOINT_DOCKER_SOCKET')) ?? '/var/run/docker.sock',
  };
}
