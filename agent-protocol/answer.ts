import type { z } from 'zod';
import { CallError } from './call-error.ts';

/**
 * The answer to a call, in the form that it has to have.
 *
 * @param peer who answered, in the words of the error
 * @throws CallError `malformed` if it has another form
 */
export function answerOf<Answer extends z.ZodType>(
  schema: Answer,
  answer: unknown,
  peer: 'agent' | 'control plane' = 'agent',
): z.output<Answer> {
  const read = schema.safeParse(answer);
  if (read.success) return read.data;
  const name = peer === 'agent' ? 'agent of the server' : peer;
  const message = `The ${name} answered with something that is no answer to the request: upgrade the ${peer}`;
  throw new CallError('malformed', message, { cause: read.error });
}
