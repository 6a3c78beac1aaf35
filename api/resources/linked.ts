import { z } from 'zod';
import type { ReadonlyResource } from '../../store/resource.ts';

/** Another object that an answer names. */
export const Linked = z.object({ id: z.string(), name: z.string() });
export type Linked = z.infer<typeof Linked>;

export function linkTo({ meta, desired }: ReadonlyResource<'application' | 'database' | 'volume'>): Linked {
  return { id: meta.id, name: desired.name };
}
