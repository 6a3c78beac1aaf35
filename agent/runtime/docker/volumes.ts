import { chmod, readdir } from 'node:fs/promises';
import { z } from 'zod';
import { bears } from '../bears.ts';
import { folderAdvice } from '../folder-advice.ts';
import { notOurs } from '../not-ours.ts';
import { labels as ours, RuntimeFailure, type ContainerRuntime, type Volume } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { folderUsage } from './folder-usage.ts';
import { unavailable } from './transport.ts';

const Labels = z
  .record(z.string(), z.string())
  .nullish()
  .transform((labels) => labels ?? {});
const Found = z.object({ Name: z.string(), Labels, Mountpoint: z.string() });
const Listed = z.object({ Volumes: z.array(z.object({ Name: z.string(), Labels })).nullish() });

/** Creation and removal write and walk the disk, which can be slow. */
const slowMs = 120_000;

/**
 * No limit, as without it. A prune of the engine takes each volume that no container mounts, those of stopped workloads, too,
 * but none that has an option.
 */
const unbounded = { size: '0' };

type Verbs = Pick<
  ContainerRuntime,
  'ensureVolume' | 'openVolume' | 'volume' | 'volumes' | 'removeVolume' | 'volumeUsage'
>;

/** The volume verbs of the runtime: folders that the engine keeps on the disk of the server. */
export function volumes(engine: Engine): Verbs {
  return {
    async ensureVolume(name, labels, signal) {
      const taken = `A volume named ${name} exists already and bears other labels`;
      try {
        const { Labels: own, Mountpoint } = await make(engine, name, labels, signal);
        if (bears(own, labels)) return await openToAll(Mountpoint);
      } catch (error) {
        // The volume has another driver.
        if (isStatus(error, 409)) throw new RuntimeFailure('name_taken', taken, { retryable: true, cause: error });
        fail(error, { code: 'create_failed', attempted: `Cannot create volume ${name}`, codes: ['no_space'] });
      }
      throw new RuntimeFailure('name_taken', taken, { retryable: true });
    },

    async openVolume(name, signal) {
      const found = await find(engine, name, signal);
      if (found !== undefined) await openToAll(found.path);
    },

    volume: (name, signal) => find(engine, name, signal),

    async volumes(labels, signal) {
      const filters = JSON.stringify({ label: Object.entries(labels).map(([key, value]) => `${key}=${value}`) });
      const answer = await engine.call({ method: 'GET', path: ['volumes'], query: { filters } }, signal);
      const found = Listed.parse(answer).Volumes ?? [];
      return found
        .map(({ Name, Labels: own }) => ({ name: Name, labels: own }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    },

    async removeVolume(name, { alsoUnlabelled = false }, signal) {
      const found = await find(engine, name, signal);
      if (found === undefined) return;
      if (found.labels[ours.server] === undefined && !alsoUnlabelled)
        throw new RuntimeFailure('name_taken', notOurs(name), { retryable: false });
      try {
        await engine.call({ method: 'DELETE', path: ['volumes', name], timeoutMs: slowMs }, signal);
      } catch (error) {
        if (isStatus(error, 404)) return;
        const attempted = `Cannot remove volume ${name}`;
        if (!isStatus(error, 409)) fail(error, { code: 'runtime_unavailable', attempted, codes: [] });
        const message = `${attempted}: a container uses it`;
        throw new RuntimeFailure('in_use', message, { retryable: true, cause: error });
      }
    },

    async volumeUsage(name, signal) {
      const path = (await find(engine, name, signal))?.path;
      if (path === undefined) return undefined;
      return folderUsage(path, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        const { code, message } = error as NodeJS.ErrnoException; // of the file system or of the walk's own bounds
        const reason = code === undefined ? message : `the agent cannot read ${path}. Run the agent as root`;
        throw unavailable(`Cannot measure volume ${name}: ${reason}`, { cause: error });
      });
    },
  };
}

/**
 * Makes a volume that has an option, where the engine takes it. For a name that exists, the engine answers with what exists,
 * whatever its labels.
 */
async function make(
  engine: Engine,
  name: string,
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<z.infer<typeof Found>> {
  const call = (further: object) => {
    const body = { Name: name, Driver: 'local', Labels: labels, ...further };
    return engine.call({ method: 'POST', path: ['volumes', 'create'], body, timeoutMs: slowMs }, signal);
  };
  const made = call({ DriverOpts: unbounded }).catch((error: unknown) => {
    if (isStatus(error, 400)) return call({});
    throw error;
  });
  return Found.parse(await made);
}

/**
 * A new volume belongs to root, and most images run as another user, whose id only the engine knows. So an empty folder
 * is open to every user of a container that mounts it. Other users of the server do not reach it, as the engine's folder
 * above it is open to root only. An image that has the folder gives its owner and its rights to the volume.
 */
async function openToAll(path: string): Promise<void> {
  try {
    if ((await readdir(path)).length === 0) await chmod(path, 0o777);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException; // of the file system
    const message = `Cannot open folder ${path} of the volume to its users. ${folderAdvice(code)}`;
    throw new RuntimeFailure('create_failed', message, { retryable: true, cause });
  }
}

async function find(
  engine: Engine,
  name: string,
  signal: AbortSignal,
): Promise<(Volume & { path: string }) | undefined> {
  try {
    const answer = await engine.call({ method: 'GET', path: ['volumes', name] }, signal);
    const { Name, Labels: own, Mountpoint } = Found.parse(answer);
    return { name: Name, labels: own, path: Mountpoint };
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}
