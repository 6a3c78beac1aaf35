import { readFile, readdir } from 'node:fs/promises';
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { z } from 'zod';

const Containers = z.array(z.object({ Names: z.array(z.string()) }));

/** Names of the containers of this machine's Docker engine that bear the label. */
export async function containersWithLabel(label: string): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
  const answer = await new Promise<unknown>((resolve, reject) => {
    request({
      socketPath: '/var/run/docker.sock',
      path: `/containers/json?all=true&filters=${filters}`,
      signal: AbortSignal.timeout(10_000),
    })
      .once('error', reject)
      .once('response', (response) => void json(response).then(resolve, reject))
      .end();
  });
  return Containers.parse(answer).map((container) => container.Names.join(' ').replace('/', ''));
}

export interface Process {
  pid: number;
  name: string;
}

/** The living processes of a process group, or of the session that the group's leader began. */
export async function processesOf(group: number): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(pids.map(statusOf));
  return all
    .filter((it) => it !== undefined)
    .filter((it) => it.state !== 'Z' && [it.group, it.session].includes(group));
}

async function statusOf(
  pid: string,
): Promise<(Process & { state: string; group: number; session: number }) | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''); // it ended meanwhile
  const match = /^\d+ \((?<name>.*)\) (?<state>\S) \d+ (?<group>\d+) (?<session>\d+) /s.exec(text);
  if (!match?.groups) return undefined;
  const { name = '', state = '', group, session } = match.groups;
  return { pid: Number(pid), name, state, group: Number(group), session: Number(session) };
}
