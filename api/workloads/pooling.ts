import { engines } from '../../databases/engines.ts';
import type { Address } from '../../databases/engine.ts';
import { poolerService, sideHost } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { pooledAttributes } from '../../store/referable.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { referralsInWords, referringWorkloads } from './env-references.ts';

type Database = ReadonlyResource<'database'>;

/** Lets clients of a database share connections, or not any more. @throws ApiError BAD_REQUEST for another engine */
export function setPooling(
  draft: Pick<DesiredOf<'database'>, 'type' | 'connection_pooling'>,
  wanted: boolean | null | undefined,
): void {
  if (wanted === undefined) return;
  const { pooler, word } = engines[draft.type];
  if (wanted === true && pooler === undefined)
    throw badField(
      'connection_pooling',
      'unsupported',
      `Connections to ${word} cannot be pooled: those to PostgreSQL alone can`,
    );
  if (wanted === true) draft.connection_pooling = true;
  else delete draft.connection_pooling;
}

/** Where clients in its environment share connections; `undefined`: each has its own. */
export function pooledAddress({ desired }: Database): Address | undefined {
  const { pooler } = engines[desired.type];
  if (desired.connection_pooling !== true || pooler === undefined) return undefined;
  return { host: sideHost(desired.internal_id, poolerService), port: pooler.port };
}

/** Requires that nothing refers to a pooler that a change takes away. @throws ApiError CONFLICT naming what does */
export function requireUnpooled(view: TenantView, { it, changed }: { it: Database; changed: Database }): void {
  if (it.desired.connection_pooling !== true || changed.desired.connection_pooling === true) return;
  const lack = referralsInWords(it, referringWorkloads(view, it, pooledAttributes));
  if (lack !== undefined) throw conflicting(`${lack} by its pooler: change them first`);
}
