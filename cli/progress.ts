import { z } from 'zod';

const Progress = z.object({
  step: z.string(),
  done: z.number().nullable(),
  total: z.number().nullable(),
  unit: z.string().nullable(),
});

/** Words for the progress of a task, such as `building, 2 of 7 steps`; `undefined` if the value is not of that form. */
export function progressText(value: unknown): string | undefined {
  const { data } = Progress.safeParse(value);
  if (data === undefined) return undefined;
  const { step, done, total, unit } = data;
  const amount =
    done === null ? [] : [done, ...(total === null ? [] : ['of', total]), ...(unit === null ? [] : [unit])];
  const words = (text: string): string => text.replaceAll('_', ' ');
  return [words(step), ...(amount.length === 0 ? [] : [words(amount.join(' '))])].join(', ');
}
