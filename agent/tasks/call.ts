import type { Functions } from '../functions/functions.ts';
import type { TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

/** Calls of functions by their schedules. */
export function callTask(functions: Pick<Functions, 'fire'>, turns: Turns): TaskWork<'call'> {
  return {
    turns,
    // a function that takes its time must not hold up another one
    turnOf: ({ id }) => id,
    run({ spec }, progress, signal) {
      progress.at({ step: 'calling' });
      return functions.fire(spec, signal);
    },
  };
}
