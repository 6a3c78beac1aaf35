import { z } from 'zod';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { Survey } from '../../../agent-protocol/survey.ts';
import { isAllowedRegistry, settingsOf } from '../../../store/settings.ts';
import { FoundGroup, FoundVolume, PlanEntry } from '../../adoption/answer.ts';
import { adoptionOf } from '../../adoption/plan.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { requireAgent } from '../../workloads/agent-capability.ts';

/** Longer than the agent takes at most. */
const askMs = 25_000;

export const adoptServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/adopt',
  summary: 'List what runs on a server that no agent made, and plan what would become of it; changes nothing',
  on: ['server', 'id'],
  heavy: true,
  waitsForAgent: true,
  givesSecrets: true,
  body: z.strictObject({}).default({}),
  response: z.object({
    found: z.array(FoundGroup).meta({ description: 'Containers that no agent made, by what made them together' }),
    volumes: z.array(FoundVolume).meta({ description: 'Volumes that no agent made' }),
    plan: z.array(PlanEntry),
    truncated: z.boolean().meta({ description: 'There is more than the answer has room for' }),
  }),
  handle: async (ctx, { it }) => {
    const { view, tenant } = ctx;
    const { id } = it.meta;
    requireAgent(view.agent(id), 'survey', { lack: 'cannot tell what runs on its machine' });
    const options = { timeoutMs: askMs, signal: ctx.signal() };
    const survey = Survey.safeParse(await ctx.agents.call(tenant, id, { method: 'survey' }, options));
    if (!survey.success) {
      const message = 'The agent of the server answered with something that is no survey: upgrade the agent';
      throw new CallError('malformed', message, { cause: survey.error });
    }
    const { registries } = settingsOf(view);
    const { name, direct_ports_enabled: opensPorts } = it.desired;
    const adoption = adoptionOf(survey.data, {
      server: { id, name, opensPorts },
      isAllowedRegistry: (registry) => isAllowedRegistry(registries, registry),
    });
    return { ...adoption, truncated: survey.data.truncated };
  },
});
