import { flushCompileCache } from 'node:module';
import { join, resolve } from 'node:path';
import { pino } from 'pino';
import type { DestinationStream, Logger } from 'pino';
import packageFile from '../package.json' with { type: 'json' };
import { systemClock } from '../time/clock.ts';
import type { Agent } from '../agent/agent.ts';
import type { AgentOptions } from '../agent/options.ts';
import { startAgent } from '../agent/agent.ts';
import type { DiskSpace } from '../agent/disk/disk-guard.ts';
import { OwnLines } from '../agent/logs/own-lines.ts';
import { diskGuard, diskSpace } from '../agent/disk/disk-guard.ts';
import { engineFolders } from '../agent/disk/engine-folders.ts';
import { holdExclusively } from '../agent/machine/exclusive.ts';
import { openIdentity } from '../agent/identity.ts';
import { holdIdentity } from '../agent/machine/machine-identities.ts';
import { machineGate } from '../agent/functions/gate.ts';
import { caddy } from '../agent/ingress/caddy.ts';
import { ImageRecord } from '../agent/engine/image-record.ts';
import type { Engine } from '../agent/engine/engine.ts';
import { engineOf } from '../agent/engine/engine.ts';
import { imageStore } from '../agent/engine/image-store.ts';
import { endOrphans } from '../agent/machine/orphans.ts';
import { run } from '../agent/machine/process.ts';
import { endEarlierShells, serverShells } from '../agent/machine/server-shells.ts';
import { openRegistries, registryGuard } from '../agent/engine/registry-guard.ts';
import { runBuild } from '../agent/tasks/build.ts';
import { git } from '../agent/tasks/git.ts';
import { CloneCache } from '../agent/tasks/git-clones.ts';
import { repositoryFiles } from '../agent/tasks/read-repository.ts';
import { headReader } from '../agent/tasks/read-head.ts';
import { dockerfilePreview } from '../agent/tasks/generated-dockerfile.ts';
import { isUninstallOrdered } from '../agent/uninstall/order.ts';
import { openWorkFolder } from '../agent/tasks/work-folder.ts';
import { endTrial } from '../agent/update/trial.ts';
import { Updater } from '../agent/update/updater.ts';
import { AgentConfig } from './agent-config.ts';
import { ensureDataDir } from './data-dir.ts';
import { createLog } from './log.ts';
import { parseConfig } from './parse-config.ts';
import { stopped } from './stop-signal.ts';
import { releaseKeys } from './release-keys.ts';

/** All logs of a server together. */
const logBytes = 10 * 1024 ** 3;
const sweepMs = 30_000;
/** systemd kills what does not end within 5 s. */
/** A pull that began before the agent was connected would lack its login. */
const loginWaitMs = 10_000;
const endShellsMs = 20_000;
/** What an executable may write when it is asked for its version. */
const maxOutputBytes = 64 * 1024;

/**
 * `setpoint agent`: runs the agent of this machine until the signal aborts; its containers continue to run. An installed
 * agent that is ordered to remove itself does so, also if it was ordered before it started.
 */
export async function runAgent(options: unknown, signal: AbortSignal): Promise<void> {
  const config = parseConfig(AgentConfig, options);
  const logs = agentLogs(config.logLevel, pino.destination(1));
  const isOrdered = config.agentHome !== undefined && (await isUninstallOrdered(config.data));
  if (!isOrdered && !(await isDismissed(config, logs, signal))) return;
  const { uninstallItself } = await import('./agent-uninstall.ts'); // few agents need it
  await uninstallItself(config, logs.log, signal);
}

/** Runs the agent until it stops, or makes room for a later release. Returns whether it is to be removed instead. */
async function isDismissed(config: AgentConfig, logs: AgentLogs, signal: AbortSignal): Promise<boolean> {
  const updated = new AbortController();
  await using agent = await startLocalAgent(config, logs, () => updated.abort());
  const { log } = logs;
  log.info({ server: agent.serverId, runtime: config.runtime }, 'Agent started');
  flushCompileCache(); // a process that is killed would save nothing
  const ends = stopped(AbortSignal.any([signal, updated.signal])).then(() => false);
  const isToGo = await Promise.race([ends, agent.dismissed.then(() => true)]);
  log.info('Agent stops');
  return isToGo && !signal.aborted;
}

/** The logs of an agent: see `AgentOptions`. */
export type AgentLogs = Required<Pick<AgentOptions, 'log' | 'storeLog' | 'ownLines'>>;

/** Logs that write to `destination`; what the agent logs is kept in its log store as well. */
export function agentLogs(level: string, destination: DestinationStream): AgentLogs {
  const ownLines = new OwnLines(systemClock);
  const both = {
    write(line: string): void {
      destination.write(line);
      ownLines.write(line);
    },
  };
  return { ownLines, log: createLog({ level }, both), storeLog: createLog({ level }, destination) };
}

/**
 * `updated`: the agent is to end, as its supervisor is to start another version; without it the agent does not update
 * itself. @throws Error if there is neither an identity nor a join token, or if another agent uses the data directory.
 */
export async function startLocalAgent(config: AgentConfig, logs: AgentLogs, updated?: () => void): Promise<Agent> {
  await ensureDataDir(config.data);
  await using starting = new AsyncDisposableStack();
  starting.use(await holdExclusively(config.data));
  const { serverId } = await openIdentity(config.data, config.token);
  starting.use(await holdIdentity(serverId));
  const { log } = logs;
  const engine = await openEngine(config, serverId, log);
  const { runtime } = engine;
  const folders = engineFolders(runtime, systemClock);
  const disk = async (): Promise<DiskSpace> => diskSpace([config.data, ...(await folders())]);
  const record = await ImageRecord.open(join(config.data, 'images.json'));
  const images = imageStore({
    runtime,
    disk: diskGuard(disk),
    // the mock engine has no registry
    registries: config.runtime === 'mock' ? openRegistries : registryGuard(() => record.registries),
    record,
    localImages: config.localImages,
    clock: systemClock,
    loginWaitMs,
  });
  const owner = resolve(config.data);
  await endOrphans(owner, new AbortController().signal);
  await endEarlierShells(owner, log, AbortSignal.timeout(endShellsMs));
  const folder = await openWorkFolder(join(config.data, 'work'));
  const clones = await CloneCache.open(join(config.data, 'clones'), systemClock);
  const sources = git({
    clock: systemClock,
    owner,
    folder,
    clones,
    protocols: config.gitProtocols,
    fileRoots: config.gitFileRoots,
    loopback: config.gitLoopback,
    privateNetworks: config.gitPrivateNetworks,
    ...(config.gitMaxBytes === undefined ? {} : { maxPackBytes: config.gitMaxBytes }),
    ...(config.sshConfig === undefined ? {} : { sshConfig: config.sshConfig }),
  });
  await engine.steps.sweep(AbortSignal.timeout(sweepMs)).catch((error: unknown) => {
    log.warn({ err: error }, 'Cannot remove the rules that guarded builds of an earlier agent: the next build does');
  });
  const updater = updated === undefined ? undefined : updaterOf(config, log, updated);
  if (updater !== undefined) starting.use(updater);
  const agent = await startAgent({
    controlPlane: config.server,
    ...(config.token === undefined ? {} : { joinToken: config.token }),
    dataDir: config.data,
    engine,
    images,
    build: (item, progress, signal) =>
      runBuild(
        item,
        { runtime, images, git: sources, folder, steps: engine.steps, server: serverId },
        progress,
        signal,
      ),
    gitHead: headReader({ git: sources, folder }),
    gitTag: (source, signal) => sources.tag(source, signal),
    clones,
    dockerfiles: dockerfilePreview({ git: sources, folder, runtime, disk: diskGuard(disk), clock: systemClock }),
    repositories: repositoryFiles({ git: sources, folder, disk: diskGuard(disk), clock: systemClock }),
    ...(config.runtime !== 'mock' && { openProxy: caddy, gate: machineGate(systemClock) }),
    ...(config.serverTerminals && { serverShells: serverShells({ owner, clock: systemClock, log }) }),
    imports: { folder: config.imports, networks: config.importNetworks },
    disk,
    logBytes,
    version: packageFile.version,
    isInstalled: config.agentHome !== undefined,
    welcomed: () => onWelcome(config, logs.log),
    ...(updater !== undefined && { updater }),
    clock: systemClock,
    random: Math.random,
    ...logs,
  });
  starting.use(agent);
  const running = starting.move();
  return { ...agent, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

/** What updates the agent, if it was installed from a release, which has keys in it, and runs under its supervisor. */
function updaterOf(
  { agentHome: home, server: urls }: AgentConfig,
  log: Logger,
  chosen: () => void,
): Updater | undefined {
  if (home === undefined || releaseKeys.length === 0) return undefined;
  return new Updater({
    home,
    version: packageFile.version,
    platform: `${process.platform}-${process.arch}`,
    keys: releaseKeys,
    urls,
    disk: () => diskSpace([home]),
    askVersion: async (executable, signal) => {
      const { code, stdout, stderr } = await run(executable, { args: ['--version'], maxOutputBytes }, signal);
      if (code !== 0) throw new Error(stderr.trim().slice(0, 200) || `it ended with ${String(code)}`);
      return stdout.trim();
    },
    chosen,
    clock: systemClock,
    random: Math.random,
    log,
  });
}

/** What is left to do for an update once the new version has connected. */
function onWelcome({ agentHome }: AgentConfig, log: Logger): void {
  if (agentHome === undefined) return;
  endTrial(agentHome, packageFile.version).catch((error: unknown) =>
    log.error(
      { err: error },
      'Cannot end the trial of this version: its supervisor goes back to the version before. Check the disk of its folder',
    ),
  );
}

async function openEngine(config: AgentConfig, server: string, log: Logger): Promise<Engine> {
  if (config.runtime === 'mock') return engineOf({ type: 'mock', clock: systemClock });
  const { dockerOptions } = await import('./docker-engine.ts'); // as `engineOf` does
  const { dockerSocket, takeOverPorts } = config;
  return engineOf({
    type: 'docker',
    options: dockerOptions(dockerSocket),
    server,
    takeOverPorts,
    log,
    owner: resolve(config.data),
  });
}
