import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { service } from './agent-world.ts';
import type { AgentWorld } from './agent-world.ts';

const together = 50;
const day = 86_400_000;

/** What a server that many workloads came to and went from still has. */
export interface Remains {
  /** Files of the agent that are open, a minute after the last workload went. */
  openFiles: number;
  /** Folders of logs, once their retention is over. */
  logFolders: number;
  /** Workloads whose line was in the log while they were here. */
  logged: number;
}

/** Lets so many workloads come, write a line, and go, some at a time. */
export async function comeAndGo(world: AgentWorld, count: number): Promise<Remains> {
  let logged = 0;
  await world.start();
  await world.snapshot();
  world.agent.backend.configure({ logRetentionDays: 1 });
  for (let done = 0; done < count; done += together) {
    const items = Array.from({ length: together }, () => service());
    await world.delta(items);
    await world.until('all run', () => items.every((it) => world.container(it)?.state === 'running'), 60_000, 500);
    for (const item of items) world.container(item)?.write('hello');
    await world.pass(500, 500);
    await world.delta(
      [],
      items.map(({ id }) => id),
    );
    await world.until('all went', () => items.every((it) => world.report(it)?.gone === true), 60_000, 500);
    const reports = items.flatMap((it) => world.report(it) ?? []);
    world.agent.backend.acknowledged(reports, new Set());
    logged += await withLine(world, items);
  }
  await world.pass(60_000, 1_000);
  const openFiles = (await filesOf(world.dir)).length;
  await world.clock.advance(day);
  // Old logs are looked for every hour.
  await world.pass(2 * 3_600_000, 600_000);
  const left = await readdir(join(world.dir, 'logs'), { withFileTypes: true });
  return { openFiles, logFolders: left.filter((it) => it.isDirectory()).length, logged };
}

async function withLine(world: AgentWorld, items: readonly { workload_id: string }[]): Promise<number> {
  const { workloads } = (await world.agent.backend.call({ method: 'logs.storage' }, AbortSignal.timeout(5_000))) as {
    workloads: { id: string }[];
  };
  return items.filter((it) => workloads.some(({ id }) => id === it.workload_id)).length;
}

async function filesOf(folder: string): Promise<string[]> {
  const names = await readdir('/proc/self/fd');
  const paths = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')));
  return paths.filter((path) => path.startsWith(folder));
}
