import { createHash } from 'node:crypto';
import { chmod, chown, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServiceItem } from './memory.ts';
import type { Mount } from '../runtime/runtime.ts';

/**
 * The files of instances on the disk of the server: a folder for each assignment, which only root can enter. They are
 * mounted into its container one by one, so that they are there again after a restart of the machine, also before the
 * agent runs.
 */
export class InstanceFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Writes the files of an item with the contents of its configuration. Call it while no container of the assignment
   * exists. Resolves with their mounts.
   * @throws Error if a file has no content, or cannot be written
   */
  async write({ id, spec }: ServiceItem): Promise<Mount[]> {
    if (spec.files.length === 0) return [];
    const folder = this.#folderOf(id);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const mounts: Mount[] = [];
    for (const [index, { path, mode, uid, gid }] of spec.files.entries()) {
      const content = spec.configuration?.files?.[path];
      if (content === undefined) throw new Error(`The configuration of assignment ${id} has no content for ${path}`);
      const source = join(folder, `${index}`);
      await writeFile(source, Buffer.from(content, 'base64'), { mode: 0o600 });
      await chown(source, uid, gid);
      await chmod(source, mode);
      mounts.push({ type: 'file', source, path });
    }
    return mounts;
  }

  /** Removes the files of an assignment. Idempotent. */
  async remove(id: string): Promise<void> {
    await rm(this.#folderOf(id), { recursive: true, force: true });
  }

  /** Removes the files of all assignments except these. */
  async retain(ids: ReadonlySet<string>): Promise<void> {
    const kept = new Set([...ids].map(nameOf));
    const present = await readdir(this.#folder).catch(() => []); // no instance has had files yet
    for (const name of present)
      if (!kept.has(name)) await rm(join(this.#folder, name), { recursive: true, force: true });
  }

  #folderOf(id: string): string {
    return join(this.#folder, nameOf(id));
  }
}

/** Ids come over the wire, so they are hashed and cannot form a path. */
function nameOf(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}
