import { unreadable, type Instruction } from './dockerfile-lines.ts';
import { stageName } from './dockerfile-stages.ts';

/**
 * The instructions up to the end of the stage that is called so, or has this number: an image of a stage needs none after
 * it. @throws RuntimeFailure `invalid_source` if there is no such stage
 */
export function upToStage(instructions: readonly Instruction[], target: string): Instruction[] {
  const begins = instructions.flatMap(({ name }, at) => (name === 'FROM' ? [at] : []));
  const named = begins.findIndex((at) => stageName(instructions[at]) === target.toLowerCase());
  const index = named === -1 && /^\d{1,3}$/.test(target) ? Number(target) : named;
  if (begins[index] === undefined) throw unreadable(`no stage ${target}`);
  return instructions.slice(0, begins[index + 1]);
}
