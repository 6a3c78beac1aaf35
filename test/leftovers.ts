import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { z } from 'zod';

/** Label of what tests make by the engine's own command line. */
export const testLabel = 'setpoint-test';

const Containers = z.array(z.object({ Names: z.array(z.string()) }));

/** Names of the containers of this machine's Docker engine that bear the label. */
export async function containersWithLabel(label: string): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
  const containers = Containers.parse(await engineGet(`/containers/json?all=true&filters=${filters}`));
  return containers.map((container) => container.Names.join(' ').replace('/', ''));
}

/** What this machine's Docker engine answers. @throws Error if it does not answer within ten seconds */
export function engineGet(path: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    request({ socketPath: '/var/run/docker.sock', path, signal: AbortSignal.timeout(10_000) })
      .once('error', reject)
      .once('response', (response) => void json(response).then(resolve, reject))
      .end();
  });
}

export interface Process {
  pid: number;
  name: string;
  /** When it began, in the kernel's ticks. */
  began: string;
}

/** The living processes of a process group, or of the session that the group's leader began. */
export async function processesOf(group: number): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(pids.map(statusOf));
  return all
    .filter((it) => it !== undefined)
    .filter((it) => it.state !== 'Z' && [it.group, it.session].includes(group));
}

/** A file for each session that a run began, named by the id of its leader. */
const sessionFolder = join(tmpdir(), 'setpoint-test-sessions');
const Session = z.object({ boot: z.string(), run: z.int(), runBegan: z.string(), leaderBegan: z.string().nullable() });

/** Notes that this run began the session of that leader, so that a later run ends it where this one cannot. */
export async function claimSession(leader: number): Promise<void> {
  await mkdir(sessionFolder, { recursive: true });
  const [boot, run, of] = await Promise.all([bootId(), statusOf(String(process.pid)), statusOf(String(leader))]);
  const session = { boot, run: process.pid, runBegan: run?.began ?? '', leaderBegan: of?.began ?? null };
  await writeFile(join(sessionFolder, String(leader)), JSON.stringify(session));
}

export function releaseSession(leader: number): Promise<void> {
  return rm(join(sessionFolder, String(leader)), { force: true });
}

/** The sessions that runs began: whether the run lives, and what of the session does. */
export async function claimedSessions(): Promise<{ leader: number; isRunning: boolean; left: Process[] }[]> {
  const [boot, names] = await Promise.all([bootId(), readdir(sessionFolder).catch(() => [])]);
  return Promise.all(
    names.map(async (name) => {
      const leader = Number(name);
      const text = await readFile(join(sessionFolder, name), 'utf8').catch(() => '{}');
      const { data } = Session.safeParse(parsed(text));
      if (data?.boot !== boot) return { leader, isRunning: false, left: [] };
      const [run, first] = await Promise.all([statusOf(String(data.run)), statusOf(name)]);
      const isRunning = run?.began === data.runBegan;
      // While one process of the session lives, the kernel gives the id of its leader to no other.
      const isOther = first !== undefined && first.began !== data.leaderBegan;
      return { leader, isRunning, left: isOther ? [] : await processesOf(leader) };
    }),
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // it was being written when its run was killed
  }
}

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

async function statusOf(
  pid: string,
): Promise<(Process & { state: string; group: number; session: number }) | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''); // it ended meanwhile
  const match = /^\d+ \((?<name>.*)\) (?<state>\S) \d+ (?<group>\d+) (?<session>\d+) (?:\S+ ){15}(?<began>\d+) /s.exec(
    text,
  );
  if (!match?.groups) return undefined;
  const { name = '', state = '', group, session, began = '' } = match.groups;
  return { pid: Number(pid), name, began, state, group: Number(group), session: Number(session) };
}
