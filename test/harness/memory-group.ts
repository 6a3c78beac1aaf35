import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './until.ts';

const root = '/sys/fs/cgroup';

/** A group of processes that the kernel gives no more memory than a limit: it ends one of them that needs more. */
export class MemoryGroup implements AsyncDisposable {
  readonly #folder: string;
  readonly #isUnified: boolean;
  readonly #scripts: string[] = [];

  private constructor(folder: string, isUnified: boolean) {
    this.#folder = folder;
    this.#isUnified = isUnified;
  }

  /** @param bytes what its processes may have together; pages of files that they can read again are dropped before */
  static async make(bytes: number): Promise<MemoryGroup> {
    const isUnified = await stat(join(root, 'cgroup.controllers')).then(
      () => true,
      () => false,
    );
    const name = `setpoint-test-${randomBytes(4).toString('hex')}`;
    if (isUnified) await writeFile(join(root, 'cgroup.subtree_control'), '+memory');
    const group = new MemoryGroup(join(root, isUnified ? name : `memory/${name}`), isUnified);
    await mkdir(group.#folder);
    await writeFile(join(group.#folder, isUnified ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes));
    return group;
  }

  /** Resolves with the path of a script that runs the program in the group. */
  async within(program: string): Promise<string> {
    const path = join(tmpdir(), `setpoint-within-${randomBytes(4).toString('hex')}`);
    this.#scripts.push(path);
    await writeFile(path, `#!/bin/sh\necho $$ >${this.#folder}/cgroup.procs\nexec ${program} "$@"\n`, { mode: 0o755 });
    return path;
  }

  /** Processes that the kernel ended, and in MB what is in no file, now. */
  async figures(): Promise<{ kills: number; ownMb: number }> {
    const events = await this.#read(this.#isUnified ? 'memory.events' : 'memory.oom_control');
    const now = await this.#read('memory.stat');
    return {
      kills: number('oom_kill', events),
      ownMb: Math.round(number(this.#isUnified ? 'anon' : 'rss', now) / 1e6),
    };
  }

  #read(name: string): Promise<string> {
    return readFile(join(this.#folder, name), 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await until('no process is in the group', async () => (await this.#read('cgroup.procs')) === '');
    await rmdir(this.#folder);
    for (const path of this.#scripts) await rm(path);
  }
}

function number(key: string, text: string): number {
  const found = new RegExp(`^${key} (\\d+)$`, 'm').exec(text)?.[1];
  if (found === undefined) throw new Error(`The kernel does not tell ${key} of a group: ${text}`);
  return Number(found);
}
