import { z } from 'zod';
import { CheckResult, CheckStatus } from '../../../agent-protocol/diagnosis.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { conflicting, serviceUnavailable, tooMany } from '../../ground/api-error.ts';
import { untilSettled } from '../../ground/settle.ts';
import { pinnedBy, Server, servers, TrustedHostKey } from '../../resources/server.ts';
import { countLimits } from '../../rights/count-limits.ts';
import { isConflict } from '../../../store/errors.ts';
import { shellWord } from '../../../store/shell-word.ts';
import { retention } from '../../../store/retention.ts';
import { hasAgent } from '../../../rules/server.ts';
import { examine, requireExaminable, worstOf } from '../../workloads/diagnosis.ts';
import { beginOperation } from '../../workloads/operations.ts';

/** A machine is given 10 s to answer and 15 s to be looked at. */
const patienceMs = 30_000;
const pinAttempts = 5;

const Report = z.object({
  status: CheckStatus.meta({ description: 'The worst of the checks' }),
  host_key: z
    .object({
      type: z.string(),
      fingerprint: z.string(),
      is_pinned: z.boolean().meta({ description: 'It was known before; the first one is pinned by this request' }),
    })
    .nullable()
    .meta({ description: 'The key that the machine showed; null: it showed none, or its agent has answered' }),
  checks: z.array(CheckResult),
});

export const validateServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/validate',
  summary:
    'Look at whether the machine of a server can be used, by SSH, or by its agent where SSH has no key; changes nothing on it',
  on: ['server', 'id'],
  heavy: true,
  actsOnce: true,
  waitsForAgent: true,
  response: Report,
  handle: async (ctx, { it }) => {
    const { view, tenant } = ctx;
    if (!isReachable(it) && it.desired.agent_public_key !== undefined) {
      requireExaminable(ctx, it);
      const checks = await examine(ctx, it);
      return { status: worstOf(checks), host_key: null, checks };
    }
    requireReachable(it);
    const id = await operationFor(ctx, it);
    const observed = () => view.get('operation', id)?.observed;
    await untilSettled(ctx, tenant, () => observed()?.finished_at !== undefined, patienceMs, ctx.signal());
    const { phase, result, error } = observed() ?? {};
    if (error !== undefined && error.code !== 'timeout') throw conflicting(error.message);
    if (phase !== 'succeeded') throw serviceUnavailable('The machine was not looked at in time: validate it again');
    const report = Report.parse(result);
    await pin(ctx, it, report);
    return report;
  },
});

/** Whether SSH has an address and a key for a server. */
function isReachable({ desired: { ip_address, ssh_key_id } }: ReadonlyResource<'server'>): boolean {
  return ip_address !== undefined && ssh_key_id !== undefined;
}

/** @throws ApiError CONFLICT for a server that SSH cannot reach */
function requireReachable(it: ReadonlyResource<'server'>): void {
  if (isReachable(it)) return;
  const { name, ip_address } = it.desired;
  const lacks = ip_address === undefined ? 'address of its machine (ip_address)' : 'SSH key (ssh_key_id)';
  throw conflicting(
    `The server has no ${lacks}: SSH needs an address and a key, setpoint set server ${shellWord(name)} --address ADDRESS --ssh-key KEY; or let its agent join by its install command`,
  );
}

export const provisionServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/provision',
  summary:
    'Try again to provision the machine of a server by SSH, which has failed; its conditions show how far it is. One that is under way goes on',
  on: ['server', 'id'],
  heavy: true,
  response: Server,
  handle: async (ctx, { it }) => {
    requireReachable(it);
    if (it.desired.agent_public_key !== undefined) throw conflicting(hasAgent);
    if (it.observed?.provisioning?.state !== 'failed') return servers.answerOf(it, ctx.view);
    const unit = ctx.repo.begin();
    const server = unit.change(it, (draft) => void (draft.provision_attempt = ctx.random.id()));
    return ctx.commit(unit, () => servers.answerOf(server, ctx.view));
  },
});

/** The validation of the server as it is: the one under way, else a new one. */
async function operationFor(ctx: RequestContext, it: ReadonlyResource<'server'>): Promise<string> {
  const kept = ctx.view.by('operation', 'server', it.meta.id).filter(({ desired }) => desired.type === 'validate');
  const underWay = kept.find(({ observed }) => observed?.finished_at === undefined);
  if (underWay !== undefined) return underWay.meta.id;
  if (kept.length >= countLimits.validationsPerServer) {
    const oldest = Math.min(...kept.map(({ observed }) => Date.parse(observed?.finished_at ?? '')));
    const seconds = Math.ceil((oldest + retention.validationsKeepMs - ctx.clock.now().getTime()) / 1000);
    throw tooMany(
      `The server was validated ${kept.length} times within the last minute, which is the most: wait`,
      Math.max(1, seconds),
    );
  }
  return beginOperation(ctx, it, kept, {
    type: 'validate',
    server_id: it.meta.id,
    deadline_seconds: patienceMs / 1000,
  });
}

/**
 * Pins the first host key that the machine showed, if the server is still the one that was looked at. Requests that share
 * a validation pin the same key.
 */
async function pin(ctx: RequestContext, it: ReadonlyResource<'server'>, { host_key }: z.infer<typeof Report>) {
  for (let attempt = 1; ; attempt++) {
    const now = ctx.view.get('server', it.meta.id);
    if (host_key === null || now === undefined || now.desired.host_key !== undefined) return;
    if (now.desired.ip_address !== it.desired.ip_address || now.desired.port !== it.desired.port) return;
    const unit = ctx.repo.begin();
    unit.change(now, (draft) => void (draft.host_key = { type: host_key.type, fingerprint: host_key.fingerprint }));
    try {
      await ctx.commit(unit, () => undefined);
      return;
    } catch (error) {
      // The whole request, tried again, would validate again.
      if (!isConflict(error) || attempt === pinAttempts) throw error;
      await ctx.fresh();
    }
  }
}

export const trustHostKey = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/trust-host-key',
  summary:
    'Pin the host key of a server, in place of the one that was pinned before: compare it on the machine first. A failed provisioning is tried again',
  on: ['server', 'id'],
  body: TrustedHostKey,
  response: Server,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    const server = unit.change(it, (draft) => {
      draft.host_key = pinnedBy(body);
      // a provisioning that has failed may do so no more
      if (it.observed?.provisioning?.state === 'failed') draft.provision_attempt = ctx.random.id();
    });
    return ctx.commit(unit, () => servers.answerOf(server, ctx.view));
  },
});
