import { chmod, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { AgentUpdate } from '../../agent-protocol/server-settings.ts';
import { syncDirectory, writeAtomically } from '../disk/atomic-file.ts';
import { readIfThere } from '../disk/read-if-there.ts';

/**
 * The folder of an installed agent, as its supervisor uses it (`manifests/install/agent/supervise.sh` says what the
 * files in it mean), and one file more: `asked` has the version and the time of the update that was begun last. At each
 * instant of all that is done here, the supervisor can start a version that works.
 */
export class Installation {
  readonly #home: string;

  constructor(home: string) {
    this.#home = home;
  }

  /** Where an executable is written before it is known to be the right one. */
  partOf(version: string): string {
    return `${this.executableOf(version)}.part`;
  }

  executableOf(version: string): string {
    return join(this.#folderOf(version), 'setpoint-agent');
  }

  /** The version that the supervisor starts. */
  current(): Promise<string | undefined> {
    return this.#read('current');
  }

  /** Whether this very update was begun, and the supervisor went back from it. */
  async hasFailed(update: AgentUpdate): Promise<boolean> {
    const [failed, asked] = await Promise.all([this.#read('failed'), this.#read('asked')]);
    return failed === update.version && asked === lineOf(update);
  }

  /** Makes the folder of a version, and removes those of all but this one and the one that runs. */
  async makeRoom(version: string, running: string): Promise<void> {
    const versions = join(this.#home, 'versions');
    for (const name of await readdir(versions))
      if (name !== version && name !== running) await rm(join(versions, name), { recursive: true, force: true });
    const folder = this.#folderOf(version);
    await mkdir(folder, { recursive: true });
    await chmod(folder, 0o755); // whatever the umask of the service is, every user may run the command
    await rm(this.partOf(version), { force: true });
  }

  /** The executable is whole and the right one. */
  async keep(version: string): Promise<void> {
    await rename(this.partOf(version), this.executableOf(version));
    await syncDirectory(this.#folderOf(version));
    await syncDirectory(join(this.#home, 'versions'));
  }

  /** Forgets what was fetched so far. */
  async discard(version: string): Promise<void> {
    await rm(this.partOf(version), { force: true });
  }

  /**
   * Lets the supervisor start that version, on trial, when it starts the agent the next time. Only the last write has
   * that effect: until then the running version stays. @throws Error, while it stays
   */
  async choose(update: AgentUpdate, running: string): Promise<void> {
    try {
      await rm(join(this.#home, 'failed'), { force: true });
      await this.#write('asked', lineOf(update));
      await this.#write('previous', running);
      await this.#write('trial', update.version);
      await this.#write('current', update.version);
    } catch (error) {
      // The last write may fail after it took effect: then the trial must stay.
      if ((await this.current()) === update.version) return;
      await rm(join(this.#home, 'trial'), { force: true });
      throw error;
    }
  }

  #folderOf(version: string): string {
    return join(this.#home, 'versions', version);
  }

  async #read(name: string): Promise<string | undefined> {
    return (await readIfThere(join(this.#home, name)))?.trim();
  }

  async #write(name: string, line: string): Promise<void> {
    await writeAtomically(join(this.#home, name), `${line}\n`, 0o644);
  }
}

function lineOf({ version, requestedAt }: AgentUpdate): string {
  return `${version} ${requestedAt}`;
}
