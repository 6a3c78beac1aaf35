import { hashJoinToken, makeJoinToken } from '../../../agent-protocol/join-token.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { servers, ServerWithJoin } from '../../resources/server.ts';
import { installCommand, installWarnings } from './install-command.ts';

const joinTokenLifeMs = 24 * 3_600_000;

export const renewJoinToken = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/join-token',
  summary: 'Make a new join token; the one before no longer works',
  on: ['server', 'id'],
  response: ServerWithJoin,
  handle: async (ctx, { it }) => {
    const join = await newJoin(ctx, it.meta.id, it.desired.ip_address);
    const unit = ctx.repo.begin();
    const server = unit.change(it, (draft) => void Object.assign(draft, join.stored));
    return ctx.commit(unit, () => ({ ...servers.answerOf(server, ctx.view), ...join.shown }));
  },
});

/**
 * A one-time join token: what the store gets, and what the answer shows once. `machine`: the address of the server by SSH.
 */
export async function newJoin(ctx: RequestContext, serverId: string, machine: string | undefined) {
  const { publicUrl, allowPlainHttp } = ctx.config;
  const token = makeJoinToken(serverId, ctx.random.bytes(16), ctx.agents.controlKey());
  const release = await ctx.releases.current().catch(() => undefined); // the log has the reason
  const isReleased = release !== undefined;
  const expires = new Date(ctx.clock.now().getTime() + joinTokenLifeMs).toISOString();
  return {
    stored: { join_token_hash: hashJoinToken(token), join_token_expires_at: expires },
    shown: {
      join_token: token,
      join_token_expires_at: expires,
      install_command: installCommand({ publicUrl, allowPlainHttp, tenant: ctx.tenant, token, isReleased }),
      install_warnings: installWarnings({ publicUrl, allowPlainHttp }, machine),
    },
  };
}
