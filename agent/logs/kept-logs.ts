import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { LogsToKeep } from '../../agent-protocol/logs.ts';
import { writeAtomically } from '../disk/atomic-file.ts';
import { keptStreams } from './kept-lines.ts';
import { disorderMs } from './record.ts';
import type { Entry } from './record.ts';

/** Beside the folders of workloads, none of which can have this name. */
const fileName = 'kept.json';
/** When the lines about the making of images begin that are kept, in milliseconds since 1970, by workload. */
const Since = z.record(z.string(), z.number());

/**
 * What the control plane wants to be kept of the logs: which workloads there are, and from when on the lines about the
 * making of their images stay. The times are on disk, so that a restarted agent removes nothing that is kept while it
 * waits for the control plane.
 */
export class KeptLogs {
  readonly #path: string;
  /** Of workloads that have lines to keep; from the disk at first. */
  readonly #since: Map<string, number>;
  /** The workloads that there are; `undefined` until the whole list has come. */
  #present: Set<string> | undefined;
  /** The parts of a whole list that have come, until its last one. */
  #coming: Map<string, number | undefined> | undefined;
  /** Workloads that were named as gone, and whose logs are there. */
  readonly #gone = new Set<string>();
  #writing: Promise<void> = Promise.resolve();
  /** The file is as old as a write that failed. */
  #isStale = false;

  private constructor(path: string, since: Map<string, number>) {
    this.#path = path;
    this.#since = since;
  }

  /** A missing or damaged file counts as one without times. */
  static async open(folder: string): Promise<KeptLogs> {
    const path = join(folder, fileName);
    try {
      return new KeptLogs(path, new Map(Object.entries(Since.parse(JSON.parse(await readFile(path, 'utf8'))))));
    } catch {
      return new KeptLogs(path, new Map());
    }
  }

  /** Whether lines about the making of images are kept for the workload. */
  keepsOf(workload: string): boolean {
    return this.#since.has(workload);
  }

  /** Whether the line stays, however old it is. */
  keeps(workload: string, { stream, at }: Pick<Entry, 'stream' | 'at'>): boolean {
    const since = this.#since.get(workload);
    return since !== undefined && keptStreams.has(stream) && at >= since - disorderMs;
  }

  /** `named`: the workload was deleted. `absent`: the whole list came, and it is not in it. */
  stateOf(workload: string): 'present' | 'named' | 'absent' | 'unknown' {
    if (this.#gone.has(workload)) return 'named';
    if (this.#present === undefined) return 'unknown';
    return this.#present.has(workload) ? 'present' : 'absent';
  }

  /** The log of a workload that is gone was removed. */
  removed(workload: string): void {
    this.#gone.delete(workload);
  }

  /**
   * Takes one message. Resolves with the workloads of which other lines are kept than before, once that is on disk.
   * @throws Error if it cannot be written to the disk; it holds all the same
   */
  async learn({ whole, more, workloads }: LogsToKeep): Promise<string[]> {
    if (whole) this.#coming = new Map();
    const named = Object.entries(workloads).map(([id, it]) => [id, it === null ? null : sinceOf(it)] as const);
    if (this.#coming !== undefined) {
      for (const [id, since] of named) if (since !== null) this.#coming.set(id, since);
      if (more) return [];
      const all = this.#coming;
      this.#coming = undefined;
      this.#present = new Set(all.keys());
      this.#gone.clear();
      const left = [...this.#since.keys()].filter((id) => !all.has(id));
      return this.#change([...all, ...left.map((id) => [id, undefined] as const)]);
    }
    for (const [id, since] of named) {
      if (since === null) this.#gone.add(id);
      else this.#gone.delete(id);
      if (since === null) this.#present?.delete(id);
      else this.#present?.add(id);
    }
    return this.#change(named.map(([id, since]) => [id, since ?? undefined]));
  }

  async #change(all: readonly (readonly [id: string, since: number | undefined])[]): Promise<string[]> {
    const changed = all.filter(([id, since]) => this.#isStale || this.#since.get(id) !== since);
    if (changed.length === 0) return [];
    for (const [id, since] of changed)
      if (since === undefined) this.#since.delete(id);
      else this.#since.set(id, since);
    this.#isStale = true;
    const done = this.#writing.then(async () => {
      await writeAtomically(this.#path, JSON.stringify(Object.fromEntries(this.#since)));
      this.#isStale = false;
    });
    this.#writing = done.catch(() => undefined);
    await done;
    return changed.map(([id]) => id);
  }
}

function sinceOf({ builds_since: since }: { builds_since?: string | undefined }): number | undefined {
  const ms = since === undefined ? Number.NaN : Date.parse(since);
  return Number.isNaN(ms) ? undefined : ms;
}
