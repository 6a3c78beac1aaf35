import type { z } from 'zod';

/** @throws Error that lists every fault. */
export function parseConfig<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((it) => `\n  ${it.path.join('.')}: ${it.message}`).join('');
  throw new Error(`The settings are wrong:${faults}`);
}
