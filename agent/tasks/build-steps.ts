import { inWords, type SourceStep } from '../runtime/dockerfile-source.ts';
import type { Progress } from '../../agent-protocol/workload.ts';

const beginning = /^Step ([0-9]{1,6})\/([0-9]{1,6}) : /;

/**
 * Reads from the lines of the engine's builder which step has begun. Programs of the build can write such lines too, so
 * that only a step after the last one of the same total counts: there are never more reports than steps.
 */
export function buildSteps(at: (progress: Progress) => void): (line: string) => void {
  let last: { step: number; total: number } | undefined;
  return (line) => {
    const [, first, second] = beginning.exec(line) ?? [];
    if (first === undefined || second === undefined) return;
    const [step, total] = [Number(first), Number(second)];
    if (step > total || (last !== undefined && (step <= last.step || total !== last.total))) return;
    last = { step, total };
    at({ step: 'building', done: step - 1, total, unit: 'steps' });
  };
}

/** Reads which step of the Dockerfile runs from the lines of the engine's builder. */
export class ClassicSteps {
  readonly #instructions: readonly (SourceStep | undefined)[];
  #count = 0;

  /** `instructions`: as the builder gets them; `undefined`: its author did not write it. */
  constructor(instructions: readonly (SourceStep | undefined)[]) {
    this.#instructions = instructions;
  }

  /** The step that began last, if its author wrote it. */
  get current(): SourceStep | undefined {
    return this.#count === 0 ? undefined : this.#instructions[this.#count - 1];
  }

  /** A line as its author is to see it; `undefined`: it is of an instruction that is not theirs. */
  shown(line: string): string | undefined {
    // a program can write such lines, too: each step begins once
    if (Number(beginning.exec(line)?.[1]) !== this.#count + 1) return line;
    this.#count += 1;
    return this.current === undefined ? undefined : inWords(this.current);
  }
}
