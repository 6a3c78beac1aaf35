import type { z } from 'zod';
import { fieldPath, parseWritten } from '../../store/faults.ts';
import { ApiError } from '../ground/api-error.ts';

/** Parses input of a client. @throws ApiError BAD_REQUEST with every wrong field. */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown, what: 'body' | 'query'): z.output<S> {
  const parsed = parseWritten(schema, value, `The ${what}`);
  if ('data' in parsed) return parsed.data;
  const details = parsed.faults.map(({ path, reason, message }) => ({ field: fieldPath(path), reason, message }));
  throw new ApiError('BAD_REQUEST', details[0]?.message ?? `The ${what} is not valid`, { details });
}
