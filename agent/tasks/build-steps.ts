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
