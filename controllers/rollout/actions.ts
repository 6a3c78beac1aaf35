import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Context } from '../runtime/controller.ts';
import type { Assignment } from './slots.ts';

/** One write of a plan for assignments. */
export type Action =
  /** `owner` owns the assignment: it goes with it. */
  | { do: 'ensure'; id: string; desired: DesiredOf<'assignment'>; owner: ReadonlyResource }
  | { do: 'stop'; id: string }
  | { do: 'retire'; id: string };

/**
 * The write that leads to the one assignment that an object has in that role, or away from it once it is not needed any
 * more. Pure.
 *
 * @param role of the assignment among those of its owner, such as `build`
 */
export function planOne(
  owner: ReadonlyResource,
  role: string,
  { present, desired }: { present: Assignment | undefined; desired: DesiredOf<'assignment'> | undefined },
): Action[] {
  if (desired !== undefined) return [{ do: 'ensure', id: assignmentId.task(owner.meta.id, role), desired, owner }];
  return isStaying(present) ? [{ do: 'retire', id: present.meta.id }] : [];
}

/** Carries out the actions of a plan in their order. @throws conflict, which the runtime retries. */
export async function perform(ctx: Context, actions: readonly Action[]): Promise<void> {
  for (const action of actions) {
    switch (action.do) {
      case 'ensure':
        await ctx.ensure('assignment', action.id, action.desired, action.owner);
        break;
      case 'stop':
        await ctx.amend('assignment', action.id, (draft) => {
          draft.run = 'stopped';
        });
        break;
      case 'retire':
        await ctx.retire('assignment', action.id);
        break;
    }
  }
}
