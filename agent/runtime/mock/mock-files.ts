import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Mount } from '../runtime.ts';
import type { MockVolumes } from './mock-volumes.ts';

/** The files that the process of a mock container sees: those of its own layer, and those of its mounts. */
export class MockFiles {
  readonly #volumes: MockVolumes;
  readonly #mounts: readonly Mount[];
  readonly #isRootReadOnly: boolean;
  readonly #layer: Map<string, string>;
  #memory = new Map<string, string>();

  constructor(what: {
    volumes: MockVolumes;
    mounts: readonly Mount[];
    isRootReadOnly: boolean;
    /** Content by path. */
    image: Readonly<Record<string, string>>;
  }) {
    this.#volumes = what.volumes;
    this.#mounts = what.mounts;
    this.#isRootReadOnly = what.isRootReadOnly;
    this.#layer = new Map(Object.entries(what.image));
  }

  /** Returns `undefined` if there is no such file. */
  read(path: string): string | undefined {
    const mount = this.#mountOf(path);
    switch (mount?.type) {
      case undefined:
        return this.#layer.get(path);
      case 'volume':
        return this.#volumes.get(mount.volume)?.files.get(path.slice(mount.path.length));
      case 'tmpfs':
        return this.#memory.get(path);
      case 'file':
        return readFileSync(mount.source, 'utf8');
      case 'folder':
        return readFileSync(join(mount.source, path.slice(mount.path.length)), 'utf8');
    }
  }

  /** @throws Error if the file cannot be written */
  write(path: string, content: string): void {
    const mount = this.#mountOf(path);
    const isReadOnly = mount === undefined ? this.#isRootReadOnly : mount.type === 'file' || isMarked(mount);
    if (isReadOnly) throw new Error(`Read-only file system: ${path}`);
    if (mount?.type === 'volume') this.#volumes.get(mount.volume)?.files.set(path.slice(mount.path.length), content);
    else if (mount?.type === 'tmpfs') this.#memory.set(path, content);
    else this.#layer.set(path, content);
  }

  /** The process ended, and with it what was in memory. */
  forgetMemory(): void {
    this.#memory = new Map();
  }

  #mountOf(path: string): Mount | undefined {
    return this.#mounts.find((one) => path === one.path || path.startsWith(`${one.path}/`));
  }
}

function isMarked(mount: Mount): boolean {
  return mount.type === 'volume' && mount.readOnly;
}
