import type { z } from 'zod';
import { ApiError } from './api-error.ts';
import type { ErrorDetail } from './api-error.ts';

/** Parses what a client sent. @throws ApiError BAD_REQUEST naming every field that is wrong. */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown, what: 'body' | 'query'): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.flatMap(detailsOf);
  const [first] = details;
  const where = first === undefined || first.field === '' ? '' : `${first.field}: `;
  throw new ApiError('BAD_REQUEST', `Invalid ${what}: ${where}${first?.message ?? 'wrong'}`, { details });
}

function detailsOf(issue: z.core.$ZodIssue): ErrorDetail[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({
      field: [...path, key].join('.'),
      reason: 'unknown_field',
      message: `Unknown field ${key}`,
    }));
  return [{ field: path.join('.'), reason: issue.code, message: issue.message }];
}
