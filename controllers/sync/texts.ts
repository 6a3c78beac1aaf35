import type { DeclaringFile } from '../../store/declared/commit.ts';

/** The files of a commit of a sync. */
export interface KeptCommit {
  commit: string;
  message: string;
  files: readonly DeclaringFile[];
}

/** Most characters of the files of all commits that are kept. */
const maxChars = 16 * 1024 * 1024;

/** Files of the newest commit of each place, so that they are not read again at each look. Those used longest ago go first. */
export class Texts {
  readonly #kept = new Map<string, KeptCommit>();
  #chars = 0;

  get(key: string, commit: string): KeptCommit | undefined {
    const it = this.#kept.get(key);
    if (it?.commit !== commit) return undefined;
    this.#kept.delete(key);
    this.#kept.set(key, it);
    return it;
  }

  set(key: string, it: KeptCommit): void {
    this.delete(key);
    this.#kept.set(key, it);
    this.#chars += sizeOf(it);
    for (const other of this.#kept.keys()) {
      if (this.#chars <= maxChars || other === key) break;
      this.delete(other);
    }
  }

  delete(key: string): void {
    const it = this.#kept.get(key);
    if (it === undefined) return;
    this.#kept.delete(key);
    this.#chars -= sizeOf(it);
  }

  clear(): void {
    this.#kept.clear();
    this.#chars = 0;
  }
}

function sizeOf({ files }: KeptCommit): number {
  return files.reduce((sum, { path, content }) => sum + path.length + content.length, 0);
}
