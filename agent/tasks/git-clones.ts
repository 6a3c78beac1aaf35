import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import { sizeOf } from './git-size.ts';

/** Whose clone it is: another project, and another credential, never gets it. */
export interface CloneOf {
  project: string;
  url: string;
  credential: GitCredential | undefined;
}

interface CacheBounds {
  /** Most bytes of all clones; 4 GiB by default. One may have half of them. */
  maxBytes?: number;
  /** 100 by default. */
  maxClones?: number;
}

interface Clone {
  project: string;
  path: string;
  bytes: number;
  /** When it was put here, in milliseconds since 1970. */
  at: number;
}

const defaults = { maxBytes: 4 * 1024 ** 3, maxClones: 100 } as const;
/** Fetches that one clone takes: each leaves a pack, and nothing packs them anew. */
const maxPacks = 30;
const maxAgeMs = 7 * 24 * 3_600_000;

/**
 * Git's own files of repositories that were built, so that the next build of a project fetches only what is new. A clone is
 * taken out of here while it is used, into the folder of the task, and put back once its checkout succeeded: what fails or is
 * killed leaves nothing here, and no clone has two users. The least recently used ones go first. What an earlier agent kept
 * is not used.
 */
export class CloneCache {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #maxClones: number;
  /** By key, in the order of their last use. */
  readonly #clones = new Map<string, Clone>();

  private constructor(folder: string, clock: Clock, bounds: CacheBounds) {
    this.#folder = folder;
    this.#clock = clock;
    this.#maxBytes = bounds.maxBytes ?? defaults.maxBytes;
    this.#maxClones = bounds.maxClones ?? defaults.maxClones;
  }

  /** Opens the folder and empties it. */
  static async open(folder: string, clock: Clock, bounds: CacheBounds = {}): Promise<CloneCache> {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return new CloneCache(folder, clock, bounds);
  }

  get bytes(): number {
    return [...this.#clones.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Moves the clone to `path`, which must not exist. Returns false if there is none. */
  async take(of: CloneOf, path: string): Promise<boolean> {
    const key = keyOf(of);
    const clone = this.#clones.get(key);
    if (clone === undefined) return false;
    this.#clones.delete(key);
    try {
      await rename(clone.path, path);
      return true;
    } catch {
      await rm(clone.path, { recursive: true, force: true });
      return false;
    }
  }

  /** Takes the clone at `path` over, unless it is too large to be kept. */
  async put(of: CloneOf, path: string): Promise<void> {
    const packs = join(path, 'objects', 'pack');
    const [bytes, names] = await Promise.all([sizeOf(packs), readdir(packs)]);
    if (bytes > this.#maxBytes / 2 || names.filter((name) => name.endsWith('.pack')).length > maxPacks) return;
    const key = keyOf(of);
    const clone: Clone = {
      project: of.project,
      path: join(this.#folder, randomUUID()),
      bytes,
      at: this.#clock.now().getTime(),
    };
    await rename(path, clone.path);
    const before = this.#clones.get(key);
    this.#clones.delete(key);
    this.#clones.set(key, clone);
    if (before !== undefined) await remove(before);
    for (const oldest of this.#clones.keys()) {
      if (this.bytes <= this.#maxBytes && this.#clones.size <= this.#maxClones) break;
      await this.#forget(oldest);
    }
  }

  /** Removes the clones of other projects, and those that were not used for a week. */
  async retain(projects: ReadonlySet<string>): Promise<void> {
    const oldest = this.#clock.now().getTime() - maxAgeMs;
    for (const [key, { project, at }] of this.#clones)
      if (!projects.has(project) || at < oldest) await this.#forget(key);
  }

  /** Removes all clones. */
  async clear(): Promise<void> {
    for (const key of this.#clones.keys()) await this.#forget(key);
  }

  async #forget(key: string): Promise<void> {
    const clone = this.#clones.get(key);
    this.#clones.delete(key);
    if (clone !== undefined) await remove(clone);
  }
}

async function remove({ path }: Clone): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}

/** The key has the secret in it, so that a clone is no longer found once that is another one. It stays in memory. */
function keyOf({ project, url, credential }: CloneOf): string {
  return createHash('sha256')
    .update(JSON.stringify([project, url, credential ?? null]))
    .digest('hex');
}
