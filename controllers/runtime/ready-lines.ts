/** What waits in a line: the last name of its path names the line, see {@link FairPlaces}. */
export interface Ready {
  priority: number;
  path: readonly string[];
}

interface Level<E> {
  priority: number;
  /** The line whose turn is next comes first. None is empty. */
  lines: Map<string, Set<E>>;
}

/**
 * Entries that could run now: the highest priority first, of one priority one of each line in turn, and each line in the
 * order of arrival. Priority and path of an entry must not change while it is here.
 */
export class ReadyLines<E extends Ready> {
  /** The highest priority first; few, and kept when they are empty. */
  readonly #levels: Level<E>[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(entry: E): void {
    const { lines } = this.#level(entry.priority);
    const name = lineOf(entry);
    const line = lines.get(name);
    if (line === undefined) lines.set(name, new Set([entry]));
    else line.add(entry);
    this.#size += 1;
  }

  remove(entry: E): void {
    const { lines } = this.#level(entry.priority);
    const line = lines.get(lineOf(entry));
    if (line?.delete(entry) !== true) return;
    this.#size -= 1;
    if (line.size === 0) lines.delete(lineOf(entry));
  }

  clear(): void {
    this.#levels.length = 0;
    this.#size = 0;
  }

  /** The entry that is to run next, of those whose path may. */
  next(may: (path: readonly string[]) => boolean): E | undefined {
    for (const first of this.firsts()) if (may(first.path)) return first;
    return undefined;
  }

  /** Takes out the entry that is to run next; then it is the turn of the other lines. */
  take(may: (path: readonly string[]) => boolean): E | undefined {
    const entry = this.next(may);
    if (entry === undefined) return undefined;
    this.remove(entry);
    const { lines } = this.#level(entry.priority);
    const name = lineOf(entry);
    const rest = lines.get(name);
    if (rest === undefined) return entry;
    lines.delete(name);
    lines.set(name, rest);
    return entry;
  }

  /** The first entry of each line. */
  *firsts(): Generator<E> {
    for (const { lines } of this.#levels) for (const [first] of lines.values()) if (first !== undefined) yield first;
  }

  #level(priority: number): Level<E> {
    const at = this.#levels.findIndex((level) => level.priority <= priority);
    const found = at < 0 ? undefined : this.#levels[at];
    if (found?.priority === priority) return found;
    const level: Level<E> = { priority, lines: new Map() };
    this.#levels.splice(at < 0 ? this.#levels.length : at, 0, level);
    return level;
  }
}

function lineOf({ path }: Ready): string {
  return path.at(-1) ?? '';
}
