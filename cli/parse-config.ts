import type { z } from 'zod';

/** @throws Error that lists every fault. */
export function parseConfig<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues
    .map((it) => {
      const flag = `--${it.path.join('.').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      return `\n  ${flag}: ${it.message.endsWith('received undefined') ? 'is needed' : it.message}`;
    })
    .join('');
  throw new Error(`The settings are wrong:${faults}`);
}
