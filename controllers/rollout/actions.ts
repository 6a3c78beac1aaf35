import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Context } from '../runtime/controller.ts';

/** One write of a plan for assignments. */
export type Action =
  /** `owner` owns the assignment: it goes with it. */
  | { do: 'ensure'; id: string; desired: DesiredOf<'assignment'>; owner: ReadonlyResource }
  | { do: 'stop'; id: string }
  | { do: 'retire'; id: string };

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
