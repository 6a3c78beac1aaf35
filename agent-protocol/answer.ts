import type { z } from 'zod';
import { CallError } from './call-error.ts';

/** The answer of an agent to a call, in the form that it has to have. @throws CallError `malformed` if it has another */
export function answerOf<Answer extends z.ZodType>(schema: Answer, answer: unknown): z.output<Answer> {
  const read = schema.safeParse(answer);
  if (read.success) return read.data;
  const message = 'The agent of the server answered with something that is no answer to the request: upgrade the agent';
  throw new CallError('malformed', message, { cause: read.error });
}
