import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { BuildGroup } from '../build-cgroup.ts';
import type { Engine } from '../engine.ts';

/** Keeps the steps of BuildKit builds within limits until it is disposed. */
export interface StepLimit extends AsyncDisposable {
  /** Whether the steps of all builds ran into their limit of memory since this was made. */
  reachedMemory(): Promise<boolean>;
}

const Info = z.object({ CgroupDriver: z.string(), CgroupVersion: z.string().optional() });

const root = '/sys/fs/cgroup';
/** Where the engine puts all steps of BuildKit; the group of a step is below it. */
const parent = ['docker', 'buildkit'] as const;
const periodUs = 100_000;
/** Where systemd manages control groups, each step is a unit beside those of containers, whose ids are longer. */
const slice = 'system.slice';
const stepUnit = /^docker-[0-9a-z]{25}\.scope$/;
const lookMs = 100;
/** Least memory of a step. */
const leastBytes = 4 * 1024 * 1024;

/**
 * Limits the steps of BuildKit. The engine takes no control group for them, but runs them all below one of its own,
 * whose limits then hold for all together. Where systemd manages the groups there is none, so that each step gets the
 * its share of the limits while it is seen.
 * @throws Error if the group cannot be set
 */
export async function limitSteps(engine: Engine, group: BuildGroup, signal: AbortSignal): Promise<StepLimit> {
  const info = Info.parse(await engine.call({ method: 'GET', path: ['info'] }, signal));
  const isUnified = info.CgroupVersion === '2';
  if (info.CgroupDriver === 'systemd') return eachUnit(root, group, isUnified);
  return together(root, group, isUnified);
}

/** `folder`: where the kernel shows control groups. @throws Error */
export async function together(folder: string, group: BuildGroup, isUnified: boolean): Promise<StepLimit> {
  if (isUnified) {
    let above = folder;
    for (const name of parent) {
      await writeFile(join(above, 'cgroup.subtree_control'), '+pids +memory +cpu');
      above = join(above, name);
      await mkdir(above, { recursive: true });
    }
  }
  const at = placesOf(folder, parent.join('/'), isUnified);
  if (!isUnified) for (const place of Object.values(at)) await mkdir(place, { recursive: true });
  await limit(at, group, isUnified);
  const before = await refusals(at.memory, isUnified);
  return {
    reachedMemory: async () => (await refusals(at.memory, isUnified)) > before,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/**
 * Limits each step where it is seen, so that the limits of all steps together are those of the group. A step that begins
 * is without one until it is seen. @throws Error if there is no such folder
 */
export async function eachUnit(folder: string, group: BuildGroup, isUnified: boolean): Promise<StepLimit> {
  const known = new Map<string, number>();
  let isOut = false;
  const units = placesOf(folder, slice, isUnified).memory;
  const look = async (): Promise<void> => {
    const present = (await readdir(units)).filter((name) => stepUnit.test(name));
    for (const name of known.keys()) if (!present.includes(name)) known.delete(name);
    const steps = await Promise.all(
      present.map(async (name) => {
        const at = placesOf(folder, `${slice}/${name}`, isUnified);
        return { name, at, bytes: await heldBytes(at.memory, isUnified) };
      }),
    );
    const free = group.memoryBytes - steps.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { name, at, bytes } of steps) {
      // What a step holds stays its own: a share of the whole would end it when another begins.
      const memoryBytes = Math.max(leastBytes, bytes + free / steps.length);
      const pids = Math.max(1, Math.floor(group.pids / steps.length));
      try {
        if (!known.has(name)) known.set(name, await refusals(at.memory, isUnified));
        await limit(at, { ...group, pids, memoryBytes }, isUnified);
      } catch {
        // It ended meanwhile, is not complete yet, or cannot be made smaller: the next look tries again.
      }
      isOut ||= (await refusals(at.memory, isUnified)) > (known.get(name) ?? 0);
    }
  };
  let looking: Promise<void> | undefined;
  const once = async (): Promise<void> => {
    try {
      await look();
    } finally {
      looking = undefined;
    }
  };
  await look();
  const timer = setInterval(() => {
    looking ??= once().catch(() => undefined);
  }, lookMs);
  return {
    reachedMemory: () => Promise.resolve(isOut),
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await looking;
    },
  };
}

/** The groups of all steps that run, by any driver and version. */
export async function stepGroups(folder: string): Promise<string[]> {
  const above = [parent.join('/'), slice].flatMap((path) => [join(folder, path), join(folder, 'pids', path)]);
  const found = await Promise.all(
    above.map(async (at) => {
      const entries = await readdir(at, { withFileTypes: true }).catch(() => []);
      const isStep = (name: string): boolean => !at.endsWith(slice) || stepUnit.test(name);
      return entries.filter((one) => one.isDirectory() && isStep(one.name)).map(({ name }) => join(at, name));
    }),
  );
  return found.flat();
}

interface Places {
  pids: string;
  memory: string;
  cpu: string;
}

function placesOf(folder: string, path: string, isUnified: boolean): Places {
  const at = (controller: string): string => (isUnified ? join(folder, path) : join(folder, controller, path));
  return { pids: at('pids'), memory: at('memory'), cpu: at('cpu') };
}

async function limit(at: Places, { pids, memoryBytes, cpus }: BuildGroup, isUnified: boolean): Promise<void> {
  const quota = Math.round(cpus * periodUs);
  await writeFile(join(at.pids, 'pids.max'), `${pids}`);
  await writeFile(join(at.memory, isUnified ? 'memory.max' : 'memory.limit_in_bytes'), `${Math.floor(memoryBytes)}`);
  if (isUnified) return writeFile(join(at.cpu, 'cpu.max'), `${quota} ${periodUs}`);
  await writeFile(join(at.cpu, 'cpu.cfs_period_us'), `${periodUs}`);
  await writeFile(join(at.cpu, 'cpu.cfs_quota_us'), `${quota}`);
}

/** Memory of a group that the kernel cannot take from it: its files are not counted. */
async function heldBytes(place: string, isUnified: boolean): Promise<number> {
  const text = await readFile(join(place, 'memory.stat'), 'utf8').catch(() => '');
  const lines = isUnified ? /^(?:anon|shmem) (\d+)$/gm : /^total_(?:rss|shmem) (\d+)$/gm;
  return [...text.matchAll(lines)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

/**
 * How often a group, or one below it, had no memory left. Version 2 counts the processes that the kernel ended. Version
 * 1 counts those in the group of the step alone, which ends with it; of the one above there is only how often the kernel
 * had to free some first.
 */
async function refusals(place: string, isUnified: boolean): Promise<number> {
  const text = await readFile(join(place, isUnified ? 'memory.events' : 'memory.failcnt'), 'utf8').catch(() => '');
  return Number((isUnified ? /^oom_kill (\d+)/m.exec(text)?.[1] : text.trim()) ?? 0);
}
