import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { askedOf, provisioningOf } from '../../store/provisioning.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { stepsOf, triesAgain } from '../provision/steps.ts';
import type { Context } from '../runtime/controller.ts';
import { remedyFor } from '../ssh/remedy.ts';

export type Provisioning = NonNullable<ObservedOf<'server'>['provisioning']>;
type Operation = ReadonlyResource<'operation'>;

/** The time for a provisioning, from when it is asked on. */
const deadlineSeconds = 30 * 60;

/**
 * How far the provisioning of a server is; `undefined`: none is asked. One that was not asked before is begun: it is an
 * operation, of which a server has one. A failure is remembered by the server, as the operation is kept for a while
 * only.
 */
export async function follow(it: ReadonlyResource<'server'>, ctx: Context): Promise<Provisioning | undefined> {
  const asked = askedOf(it, ctx.view);
  if (asked === undefined) return undefined;
  const known = it.observed?.provisioning;
  if (known?.asked === asked && known.state === 'failed')
    return { asked, state: 'failed', steps: known.steps.map((step) => ({ ...step })) };
  const again = remedyFor(triesAgain, it, ctx.view);
  const id = provisioningOf(it.meta.id);
  const operation = ctx.view.get('operation', id);
  if (operation?.desired.asked === asked) return stateOf(operation, asked, again);
  const begun = await ctx.ensure(
    'operation',
    id,
    {
      type: 'provision',
      server_id: it.meta.id,
      asked,
      requested_at: ctx.clock.now().toISOString(),
      deadline_seconds: deadlineSeconds,
    },
    it,
  );
  return stateOf(begun, asked, again);
}

/** Reasons of the step in which the agent is installed once its job was begun. */
const begun = new Set(['Installing', 'InstallationFailed', 'DeadlineExceeded']);

/** Whether the installation of an agent by SSH was begun on its machine. */
export function hasBegunAgent(it: ReadonlyResource<'server'>, view: Pick<Context['view'], 'get'>): boolean {
  const known = view.get('operation', provisioningOf(it.meta.id))?.observed?.provisioning;
  const steps = [...(known?.steps ?? []), ...(it.observed?.provisioning?.steps ?? [])];
  return (
    known?.join_token_hash !== undefined ||
    steps.some(({ type, status, reason }) => type === 'AgentInstalled' && (status === 'true' || begun.has(reason)))
  );
}

/** What an operation came to. Pure. */
function stateOf({ observed }: Operation, asked: string, again: string): Provisioning {
  if (observed?.asked !== asked) return { asked, state: 'running', steps: stepsOf(new Map()) };
  const steps = (observed.provisioning?.steps ?? stepsOf(new Map())).map((step) => ({ ...step }));
  if (observed.phase !== 'failed' && observed.phase !== 'expired') return { asked, state: 'running', steps };
  const message = observed.error?.message ?? 'It failed';
  // one that ended by a fault of the control plane names no step
  const isNamed = steps.some(({ status }) => status === 'false');
  return {
    asked,
    state: 'failed',
    steps: isNamed ? steps : stepsOf(new Map(), { ...unnamed, message, remedy: again }),
  };
}

const unnamed = {
  step: 'Reachable',
  reason: 'Failed',
  isFinal: true,
} as const;
