import { plainText } from './ansi.ts';
import type { LogRing } from './log-ring.ts';
import { RowSums } from './row-sums.ts';

/** Which rows of the view each line of a ring takes: none where its step is folded, several where it is wrapped. */
export class LogRows {
  readonly sums = new RowSums();
  readonly ring: LogRing;
  /** Characters of a row; 0: lines are not wrapped. */
  #columns = 0;
  #folded: ReadonlySet<number> = new Set();
  #step = -1;

  constructor(ring: LogRing) {
    this.ring = ring;
    this.#begin();
  }

  /** Takes up new lines and drops old ones. @returns how many rows have gone at the top */
  advance(): number {
    const { sums } = this;
    const first = this.ring.first;
    const gone = first >= sums.end ? sums.total : first > sums.first ? sums.topOf(first) : 0;
    if (first >= sums.end && sums.end > 0 && first > sums.first) this.#begin();
    else sums.advance(first, this.ring.end, (number) => this.#rowsOf(number));
    return gone;
  }

  setColumns(columns: number): void {
    if (columns === this.#columns) return;
    this.#columns = columns;
    this.#begin();
  }

  setFolded(folded: ReadonlySet<number>): void {
    this.#folded = folded;
    this.#begin();
  }

  #begin(): void {
    this.#step = -1;
    this.sums.reset(this.ring.first, this.ring.end, (number) => this.#rowsOf(number));
  }

  #rowsOf(number: number): number {
    if (this.ring.isStep(number)) {
      this.#step = number;
      return 1;
    }
    if (this.#step >= 0 && this.#folded.has(this.#step)) return 0;
    if (this.#columns === 0) return 1;
    return Math.max(1, Math.ceil(shown(this.ring.textAt(number)).length / this.#columns));
  }
}

/** A line as it is drawn: a tab is four columns. */
function shown(text: string): string {
  return plainText(text).replaceAll('\t', '    ');
}
