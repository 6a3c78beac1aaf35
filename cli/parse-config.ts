import type { z } from 'zod';
import { parseWritten } from '../store/faults.ts';

/** @throws Error with every fault, by the name of its flag. */
export function parseConfig<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const parsed = parseWritten(schema, given, 'The settings');
  if ('data' in parsed) return parsed.data;
  const faults = parsed.faults.map(({ path, rule }) => {
    const flag = `--${path.join('.').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return `\n  ${flag}: ${rule}`;
  });
  throw new Error(`The settings are wrong:${faults.join('')}`);
}
