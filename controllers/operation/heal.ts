import { answerOf } from '../../agent-protocol/answer.ts';
import { HealableCheck, Healing } from '../../agent-protocol/diagnosis.ts';
import { OperationFailure, type Run } from './run.ts';

/** Lets the agent of a server heal its machine. The agent removes only what no agent needs, so that twice does no harm. */
export const heal: Run = async (it, { agents, ctx, signal, timeoutMs }) => {
  const server = it.desired.server_id === undefined ? undefined : ctx.view.get('server', it.desired.server_id);
  if (server === undefined) throw new OperationFailure('not_found', 'The server was deleted');
  const checks = it.desired.checks?.map((name) => HealableCheck.parse(name));
  const answer = await agents.call(
    ctx.tenant,
    server.meta.id,
    { method: 'heal', ...(checks !== undefined && { checks }) },
    { timeoutMs, signal },
  );
  return answerOf(Healing, answer);
};
