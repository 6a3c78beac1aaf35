import type { Observer } from '../engine/observer.ts';
import { labels } from '../runtime/runtime.ts';
import type { Container } from '../runtime/runtime.ts';

/**
 * Decides which assignment may write to which volume: one at a time, whatever the control plane asks for. Containers
 * from before a restart of the agent count by their labels, as long as they may run.
 */
export class VolumeWriters {
  readonly #observer: Pick<Observer, 'assignments' | 'of'>;
  readonly #freed: (assignments: readonly string[]) => void;
  /** The assignment that may write to each volume. */
  readonly #writers = new Map<string, string>();
  readonly #waiting = new Set<string>();
  /** Assignments that were found by the labels of their containers to hold what another one waits for. */
  readonly #holders = new Set<string>();

  /** @param freed called with the assignments that wait, when a volume may have become free */
  constructor(observer: Pick<Observer, 'assignments' | 'of'>, freed: (assignments: readonly string[]) => void) {
    this.#observer = observer;
    this.#freed = freed;
  }

  /**
   * True if the assignment may write to all of these volumes, until it claims others or none. A volume that it does not
   * claim any more stays its own while a container of it has the volume.
   */
  claim(assignment: string, volumes: readonly string[]): boolean {
    this.#leave(assignment, volumes);
    const isTaken = volumes.some((volume) => ![undefined, assignment].includes(this.#writerOf(volume)));
    if (isTaken) {
      this.#waiting.add(assignment);
      return false;
    }
    for (const volume of volumes) this.#writers.set(volume, assignment);
    return true;
  }

  #leave(assignment: string, volumes: readonly string[]): void {
    this.#waiting.delete(assignment);
    const left = [...this.#writers].filter(
      ([volume, writer]) => writer === assignment && !volumes.includes(volume) && !this.#mayWrite(assignment, volume),
    );
    for (const [volume] of left) this.#writers.delete(volume);
    const isHolder = this.#holders.has(assignment) && !this.#mayWriteAny(assignment);
    if (isHolder) this.#holders.delete(assignment);
    const waiting = [...this.#waiting];
    if ((left.length === 0 && !isHolder) || waiting.length === 0) return;
    this.#waiting.clear();
    this.#freed(waiting);
  }

  #writerOf(volume: string): string | undefined {
    const known = this.#writers.get(volume);
    if (known !== undefined) return known;
    const holder = [...this.#observer.assignments()].find((assignment) => this.#mayWrite(assignment, volume));
    if (holder !== undefined) this.#holders.add(holder);
    return holder;
  }

  /** True if a container of the assignment may run and write to some volume. */
  #mayWriteAny(assignment: string): boolean {
    return this.#observer.of(assignment).some(({ container }) => writtenBy(container).length > 0);
  }

  /** True if a container of the assignment has the volume and may run. */
  #mayWrite(assignment: string, volume: string): boolean {
    return this.#observer.of(assignment).some(({ container }) => writtenBy(container).includes(volume));
  }
}

/** The volumes that a container may write to; none if it does not run. */
function writtenBy({ state, labels: of }: Container): readonly string[] {
  if (!['running', 'paused', 'restarting'].includes(state)) return [];
  return (of[labels.writes] ?? '').split(' ').filter((volume) => volume !== '');
}
