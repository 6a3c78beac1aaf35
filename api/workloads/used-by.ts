import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import { holdPopulation } from './population.ts';

/** What applications name, as errors call it, and the field by which they do. */
const named = {
  git_credential: { what: 'The git credential', field: 'git_credential_id' },
  registry: { what: 'The registry', field: 'registry_id' },
} as const;

/** Most applications that an error names; it gives the number of the others. */
const maxNamed = 20;

/**
 * Requires that no application and no sync uses the object, also not at the commit. `fate`: what cannot be done to it, such as
 * `deleted`.
 *
 * @throws ApiError CONFLICT with the applications, if there are any
 */
export async function requireUnused(
  ctx: Pick<RequestContext, 'fresh' | 'view'>,
  unit: Unit,
  it: ReadonlyResource<keyof typeof named>,
  fate: string,
): Promise<void> {
  await holdPopulation(ctx, unit, it);
  const { kind, id } = it.meta;
  const { what, field } = named[kind];
  const [sync] = kind === 'git_credential' ? ctx.view.by('sync', kind, id) : [];
  if (sync !== undefined)
    throw conflicting(
      `${what} is used by the sync ${sync.desired.name} and cannot be ${fate}: give the sync another ${field}, or null`,
      [{ field, reason: 'in_use', message: `Sync ${sync.desired.name} (${sync.meta.id})` }],
    );
  const users = ctx.view.by('application', kind, id);
  if (users.length === 0) return;
  const shown = users.slice(0, maxNamed);
  const more = users.length > maxNamed ? ` and ${users.length - maxNamed} more` : '';
  const names = shown.map(({ desired }) => desired.name).join(', ');
  throw conflicting(
    `${what} is used by ${names}${more} and cannot be ${fate}: give these applications another ${field}, or null`,
    shown.map(({ meta, desired }) => ({
      field,
      reason: 'in_use',
      message: `Application ${desired.name} (${meta.id})`,
    })),
  );
}
