import { bears } from '../bears.ts';
import { RuntimeFailure, type Mount } from '../runtime.ts';

interface MockVolume {
  labels: Readonly<Record<string, string>>;
  /** Content by path within the volume: `/greeting`. */
  files: Map<string, string>;
}

/** The volumes of a mock engine, with their content. */
export class MockVolumes {
  readonly #all = new Map<string, MockVolume>();

  ensure(name: string, labels: Readonly<Record<string, string>>): void {
    const present = this.#all.get(name);
    if (present === undefined) this.#all.set(name, { labels: { ...labels }, files: new Map() });
    else if (!bears(present.labels, labels)) {
      const message = `A volume named ${name} exists already and bears other labels`;
      throw new RuntimeFailure('name_taken', message, { retryable: true });
    }
  }

  get(name: string): MockVolume | undefined {
    return this.#all.get(name);
  }

  /** Those with all these labels, by name. */
  list(labels: Readonly<Record<string, string>>): { name: string; labels: Readonly<Record<string, string>> }[] {
    return [...this.#all]
      .filter(([, one]) => bears(one.labels, labels))
      .map(([name, one]) => ({ name, labels: one.labels }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Its content goes with it. */
  remove(name: string): void {
    this.#all.delete(name);
  }

  /** Copies at once; the disk has room for all. */
  copier() {
    const filesOf = (name: string): Map<string, string> => {
      const found = this.#all.get(name);
      if (found === undefined)
        throw new RuntimeFailure('copy_failed', `Volume ${name} is not there`, { retryable: true });
      return found.files;
    };
    return {
      content: (name: string) => {
        const mark = JSON.stringify([...filesOf(name)]);
        return Promise.resolve({ bytes: this.usage(name) ?? 0, mark });
      },
      space: () => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 }),
      isEmpty: (name: string) => Promise.resolve(filesOf(name).size === 0),
      copy: (from: string, to: string, copied: (bytes: number) => void): Promise<void> => {
        for (const [path, content] of filesOf(from)) filesOf(to).set(path, content);
        copied(this.usage(to) ?? 0);
        return Promise.resolve();
      },
      move: (from: string, to: string): Promise<void> => {
        for (const [path, content] of filesOf(from)) filesOf(to).set(path, content);
        filesOf(from).clear();
        return Promise.resolve();
      },
    };
  }

  /** Bytes of its content; `undefined` if there is no such volume. */
  usage(name: string): number | undefined {
    const files = this.#all.get(name)?.files.values().toArray();
    return files?.reduce((sum, content) => sum + Buffer.byteLength(content), 0);
  }

  /**
   * Fills empty volumes of a new container with what its image has at their paths.
   * @throws RuntimeFailure `data_lost` if a volume is missing
   */
  mount(container: string, mounts: readonly Mount[], image: Readonly<Record<string, string>>): void {
    const volumes = mounts.filter((one) => one.type === 'volume');
    const missing = volumes.find(({ volume }) => !this.#all.has(volume));
    if (missing !== undefined) {
      const message = `Cannot create container ${container}: volume ${missing.volume} does not exist`;
      throw new RuntimeFailure('data_lost', message, { retryable: true });
    }
    for (const { volume, path, copy = true } of volumes) {
      const files = this.#all.get(volume)?.files;
      if (files === undefined || files.size > 0 || !copy) continue;
      for (const [file, content] of Object.entries(image))
        if (file.startsWith(`${path}/`)) files.set(file.slice(path.length), content);
    }
  }
}
