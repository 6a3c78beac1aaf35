import { conflictReason } from '../../store/errors.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { RequestContext } from '../endpoint/context.ts';

type Operation = ReadonlyResource<'operation'>;

/** Namespace of the ids of operations (UUIDv5). */
const namespace = '4f0f6a35-7d0b-4c0e-9a51-6a2f5c8d1e77';

/**
 * Begins an operation and returns its id. Requests that begin one at the same time share it: the id follows from the
 * subject, the operation before it and whether it deploys, so that the store takes the first one only. `earlier`: the
 * operations of this type that the subject has.
 *
 * @throws conflict if the subject or the operation before it was changed meanwhile
 */
export async function beginOperation(
  ctx: Pick<RequestContext, 'repo' | 'commit' | 'fresh' | 'clock' | 'principal'>,
  subject: ReadonlyResource<'server'> | ReadonlyResource<'application'>,
  earlier: readonly Operation[],
  desired: Omit<DesiredOf<'operation'>, 'requested_by' | 'requested_at'>,
): Promise<string> {
  const last = earlier.toSorted((a, b) => a.meta.desiredRevision - b.meta.desiredRevision).at(-1);
  const id = uuidv5(
    namespace,
    `${desired.type} ${subject.meta.id} ${last?.meta.id ?? ''}${desired.deploy === true ? ' deploy' : ''}`,
  );
  const unit = ctx.repo.begin();
  unit.require(subject);
  // A replica that has not seen its deletion would derive another id.
  if (last !== undefined) unit.require(last);
  unit.create('operation', id, {
    ...desired,
    requested_by: ctx.principal.user.meta.id,
    requested_at: ctx.clock.now().toISOString(),
  });
  try {
    await ctx.commit(unit, () => undefined);
  } catch (error) {
    const reason = conflictReason(error);
    if (reason?.why !== 'exists' || reason.ref.id !== id) throw error;
    await ctx.fresh();
  }
  return id;
}
