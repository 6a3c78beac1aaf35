import type { z } from 'zod';

/**
 * Parses parameters, which the other side may have sent by another release. Returns them, or the error to answer.
 *
 * @param self who was asked, in the words of the error
 */
export function asks<T extends readonly z.ZodObject[]>(
  known: z.ZodDiscriminatedUnion<T>,
  by: string,
  params: Record<string, unknown>,
  self: string,
): { params: z.output<z.ZodDiscriminatedUnion<T>> } | { problem: { code: string; message: string } } {
  const parsed = known.safeParse(params);
  if (parsed.success) return { params: parsed.data };
  const [issue] = parsed.error.issues;
  if (issue?.code === 'invalid_union') {
    const message = `The ${self} does not know ${by} ${String(params[by]).slice(0, 64)}: upgrade the ${self}`;
    return { problem: { code: 'unsupported', message } };
  }
  const where = issue?.path.join('.') ?? '';
  return { problem: { code: 'invalid', message: `${where}: ${issue?.message ?? 'invalid'}`.slice(0, 200) } };
}
