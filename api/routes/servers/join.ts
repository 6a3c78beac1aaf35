import { hashJoinToken, makeJoinToken } from '../../../agent-protocol/join-token.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { servers, ServerWithJoin } from '../../resources/server.ts';

const joinTokenLifeMs = 24 * 3_600_000;

export const renewJoinToken = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/join-token',
  summary: 'Make a new join token; the one before no longer works',
  on: ['server', 'id'],
  response: ServerWithJoin,
  handle: async (ctx, { it }) => {
    const join = await newJoin(ctx, it.meta.id);
    const unit = ctx.repo.begin();
    const server = unit.change(it, (draft) => void Object.assign(draft, join.stored));
    return ctx.commit(unit, () => ({ ...servers.answerOf(server, ctx.view), ...join.shown }));
  },
});

/** A one-time join token: what the store gets, and what the answer shows once. */
export async function newJoin(ctx: RequestContext, serverId: string) {
  const token = makeJoinToken(serverId, ctx.random.bytes(16), ctx.agents.controlKey());
  const expires = new Date(ctx.clock.now().getTime() + joinTokenLifeMs).toISOString();
  return {
    stored: { join_token_hash: hashJoinToken(token), join_token_expires_at: expires },
    shown: {
      join_token: token,
      join_token_expires_at: expires,
      install_command: await installCommand(ctx, token),
    },
  };
}

/**
 * The command that installs the agent on a machine, where this replica has a release of it; else the one that runs it
 * from a checkout. The token is a variable, as every user of a machine can read the arguments of a program.
 */
async function installCommand(
  { config: { publicUrl }, tenant, releases }: RequestContext,
  token: string,
): Promise<string> {
  const server = `${publicUrl}/${tenant}`;
  const release = await releases.current().catch(() => undefined); // the log has the reason
  return release === undefined
    ? `SETPOINT_JOIN_TOKEN=${token} setpoint agent --server ${server}`
    : `curl -fsSL ${publicUrl}/install.sh | SETPOINT_JOIN_TOKEN=${token} sh -s -- --server ${server}`;
}
