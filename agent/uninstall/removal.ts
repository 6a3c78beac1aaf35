import { access, lstat, readdir, readFile, readlink, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isBelow } from '../disk/contained-path.ts';
import { holdExclusively } from '../machine/exclusive.ts';
import { processes } from '../runtime/sessions.ts';
import { run } from '../machine/process.ts';
import { isOurSystemd } from '../machine/systemd.ts';

/** Where `manifests/install/agent/install.sh` puts an agent, and where it keeps its state. */
export interface Places {
  /** Supervisor and executables. */
  home: string;
  /** Identity, desired set, logs, metrics: the agent's own state, without the data of volumes. */
  data: string;
  /** The folder with dumps of the operator, by default in that of the state. What is in it is never removed. */
  imports: string;
  /** The file of the settings, which may hold secrets; `undefined`: what supervises the agent has them. */
  settings: string | undefined;
  /** Further files. */
  files: readonly string[];
  /** Folders of what installed it. */
  folders: readonly string[];
  /** Units of systemd, by the name of their file in `unitFolder`. */
  units: readonly string[];
  unitFolder: string;
}

/** The places of the installation that `install.sh` makes; the folder of the state is a setting. */
export const usualPlaces = {
  home: '/opt/setpoint-agent',
  data: '/var/lib/setpoint/agent',
  settings: '/etc/setpoint/agent.env',
  files: [
    '/usr/local/bin/setpoint-agent',
    '/run/setpoint-agent.pid',
    '/var/log/setpoint-agent.log',
    '/var/log/setpoint-agent.log.1',
  ],
  folders: ['/var/lib/setpoint/provision'],
  units: ['setpoint-agent.service', 'setpoint-builds.slice'],
  unitFolder: '/etc/systemd/system',
} as const satisfies Omit<Places, 'imports'>;

/**
 * The places of the installation in `home`; of one elsewhere than usual, only its folders are known. `imports`: the folder
 * with dumps, where it is a setting.
 */
export function placesOf(home: string, data: string, imports = join(data, 'imports')): Places {
  if (home === usualPlaces.home) return { ...usualPlaces, data, imports };
  return {
    home,
    data,
    imports,
    settings: undefined,
    files: [],
    folders: [],
    units: [],
    unitFolder: usualPlaces.unitFolder,
  };
}

/** The command of an executable that removes its installation. */
export const removal = 'uninstall';

const maxOutputBytes = 64 * 1024;
/** systemd waits 30 s for the agent. */
const stopMs = 60_000;
const roundMs = 200;
/** Rounds until processes that do not end by SIGTERM are killed, and until that has failed. */
const patience = { kill: 175, fail: 200 } as const;

/**
 * Stops the agent of an installation, with what supervises it. Idempotent. It may be called by a process of the
 * installation that does neither.
 * @throws Error if it does not stop
 */
export async function stopInstallation({ home, data, units }: Places): Promise<void> {
  if (await isOurSystemd())
    for (const unit of units)
      await systemctl(unit.endsWith('.service') ? ['disable', '--now', '--quiet', unit] : ['stop', unit]);
  for (let round = 0; ; round += 1) {
    const supervisors = await supervisorsOf(home);
    const agents = await agentsOf(home);
    if (supervisors.length + agents.length === 0) break;
    const [first] = [...supervisors, ...agents];
    if (round > patience.fail)
      throw new Error(`The agent does not end: kill process ${first}, then run the command again`);
    if (round > patience.kill) for (const pid of [...supervisors, ...agents]) kill(pid, 'SIGKILL');
    else if (round === 0) for (const pid of supervisors.length > 0 ? supervisors : agents) kill(pid, 'SIGTERM');
    await delay(roundMs); // this timer keeps the process alive: nothing else does
  }
  // An agent that something else started, such as from a checkout, is seen here.
  const hold = await holdExclusively(data).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  });
  await hold?.[Symbol.asyncDispose]();
}

/**
 * Removes the files of an installation whose agent does not run. Idempotent; the executables go last, so that a run that
 * was cut off can be repeated. Folders that hold anything else stay, and so do dumps of the operator.
 * What fails keeps nothing but the executables, by which the command can be repeated.
 * @throws Error if a folder to remove is none of an agent; AggregateError if something could not be removed
 */
export async function removeInstallation(places: Places): Promise<void> {
  const { home, data, imports, settings, files, folders, units, unitFolder } = places;
  await requireAgents(home, usualPlaces.home, ['supervise', 'versions']);
  if (!(await hasOnly(data, imports))) await requireAgents(data, usualPlaces.data, ['identity.json', 'uninstall']);
  const failures: unknown[] = [];
  const tried = async (path: string): Promise<void> => {
    await removeAllBut(imports, path).catch((error: unknown) => failures.push(error));
    await removeOwnParent(path);
  };
  for (const folder of [data, ...folders]) await tried(folder);
  // after the data, whose place it may name
  if (settings !== undefined) await tried(settings);
  for (const path of [...files, ...units.map((unit) => join(unitFolder, unit))]) await tried(path);
  if (units.length > 0 && (await isOurSystemd())) {
    await systemctl(['daemon-reload']);
    await systemctl(['reset-failed', ...units]);
  }
  if (failures.length === 0) await tried(home);
  if (failures.length > 0) throw new AggregateError(failures, `Cannot remove all of the agent: ${failures.join('; ')}`);
}

/** The dumps of the operator that stay in the folder of the agent: their folder. `undefined`: there are none. */
export async function keptImports({ data, imports }: Pick<Places, 'data' | 'imports'>): Promise<string | undefined> {
  return isBelow(data, imports) && (await namesIn(imports)).length > 0 ? imports : undefined;
}

/** A setting of the usual installation; `undefined`: it has none. */
export async function installedSetting(name: string): Promise<string | undefined> {
  const text = await readFile(usualPlaces.settings, 'utf8').catch(() => '');
  const line = text.split('\n').findLast((it) => it.startsWith(`${name}=`));
  return line?.slice(name.length + 1);
}

/** Requires that a folder is absent, or at its usual place, or has something of an agent. @throws Error */
async function requireAgents(folder: string, usual: string, marks: readonly string[]): Promise<void> {
  if (resolve(folder) === usual || !(await exists(folder))) return;
  for (const mark of marks) if (await exists(join(folder, mark))) return;
  throw new Error(`Cannot remove ${folder}, as nothing in it shows that it is an agent's: remove it by hand`);
}

/** Whether nothing is in a folder but another one, which may be further down. */
async function hasOnly(folder: string, kept: string): Promise<boolean> {
  const names = await namesIn(folder);
  return names.length > 0 && names.every((name) => isBelow(join(folder, name), kept));
}

/**
 * Removes a file or a folder with what is in it. A folder in it stays, unless that is empty; one that is a link goes, and
 * what it leads to stays. Of a file system of its own, what is in it goes.
 */
async function removeAllBut(kept: string, path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) return rm(path, { force: true });
  if (path !== kept)
    for (const name of await namesIn(path)) {
      const inner = join(path, name);
      if (isBelow(inner, kept)) await removeAllBut(kept, inner);
      else await rm(inner, { recursive: true, force: true }).catch(unless('EBUSY'));
    }
  await rmdir(path).catch(unless('ENOTEMPTY', 'EBUSY'));
}

/** Throws an error again, unless it has one of these codes. EBUSY: the path is where a file system is mounted. */
function unless(...codes: readonly string[]): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof Error && 'code' in error && codes.some((code) => code === error.code))) throw error;
  };
}

/** The names in a folder; none if it is not there. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  });
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Failures do not count: a unit may not be there, and the processes are looked for by themselves. */
async function systemctl(args: readonly string[]): Promise<void> {
  await run('systemctl', { args, maxOutputBytes }, AbortSignal.timeout(stopMs)).catch(() => undefined);
}

/** Removes the folder of a path that only Setpoint uses, if it is empty. */
async function removeOwnParent(path: string): Promise<void> {
  const folder = dirname(path);
  if (basename(folder) === 'setpoint') await rmdir(folder).catch(() => undefined); // it holds something else
}

function supervisorsOf(home: string): Promise<number[]> {
  return processes(async ({ id }) => (await argumentsOf(id)).includes(join(home, 'supervise')));
}

/** Processes that run an executable of the installation, also one that was removed, but for those that remove it. */
async function agentsOf(home: string): Promise<number[]> {
  return processes(
    async ({ id }) =>
      (await readlink(`/proc/${id}/exe`)).startsWith(join(home, 'versions/')) &&
      !(await argumentsOf(id)).includes(removal),
  );
}

async function argumentsOf(id: string): Promise<string[]> {
  return (await readFile(`/proc/${id}/cmdline`, 'utf8')).split('\0');
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
