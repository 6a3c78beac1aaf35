import { z } from 'zod';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** Another object that an answer names. */
export const Linked = z.object({ id: z.string(), name: z.string() });
export type Linked = z.infer<typeof Linked>;

export function linkTo({
  meta,
  desired,
}: ReadonlyResource<'application' | 'database' | 'volume' | 'function' | 'template_instance'>): Linked {
  return { id: meta.id, name: desired.name };
}

/** The template instance that an object belongs to, if it belongs to one. */
export function instanceLinks(
  view: TenantView,
  { template_instance_id: id }: { readonly template_instance_id?: string | undefined },
): Linked[] {
  const it = id === undefined ? undefined : view.get('template_instance', id);
  return it === undefined ? [] : [linkTo(it)];
}
