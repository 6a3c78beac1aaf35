import { z } from 'zod';
import { answerOf } from '../../../agent-protocol/answer.ts';
import { forbiddable } from '../../../agent-protocol/messages.ts';
import { Survey, valuesLimits } from '../../../agent-protocol/survey.ts';
import { foldName } from '../../../store/fold-name.ts';
import type { TenantView } from '../../../store/mirror.ts';
import { isAllowedRegistry, settingsOf } from '../../../store/settings.ts';
import { FoundGroup, FoundVolume, PlanEntry, Taken } from '../../adoption/answer.ts';
import { adoptionOf, plannedOf } from '../../adoption/plan.ts';
import { takeOver } from '../../adoption/take-over.ts';
import type { Taking } from '../../adoption/take-over.ts';
import type { Destination } from '../../adoption/findings.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { badField, conflicting } from '../../ground/api-error.ts';
import { Reference } from '../../resources/object-fields.ts';
import { requireAgent } from '../../workloads/agent-capability.ts';
import { placeFrom } from '../../workloads/place.ts';
import type { Place } from '../../workloads/place.ts';
import { referred } from '../../workloads/references.ts';

/** Longer than the agent takes at most. */
const askMs = 25_000;

/** Both spellings of a field are accepted, as for servers. The OpenAPI document shows one of them. */
const Body = z
  .strictObject({
    project_id: Reference.optional().meta({
      description: 'Where to: names that are taken there stand against it, and the steps name it. Required for take',
    }),
    projectId: Reference.optional(),
    environment_id: Reference.nullish().meta({ description: 'Absent: the default one of the project' }),
    environmentId: Reference.nullish(),
    take: z
      .array(z.string().min(1).max(100))
      .min(1)
      .max(valuesLimits.containers)
      .refine((names) => new Set(names).size === names.length, 'Must name each entry once')
      .optional()
      .meta({
        description:
          'Names of entries of the plan to take over: the application or database of that name with its volumes, else the volume. All of them or none',
      }),
    deploy: z.boolean().optional().meta({ description: 'Also deploys what was made, where that can succeed now' }),
  })
  .meta({ hidden: ['projectId', 'environmentId'] });

export const adoptServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/adopt',
  summary:
    'List what runs on a server that no agent made, and plan what would become of it; with take, make applications and volumes of it',
  on: ['server', 'id'],
  heavy: true,
  waitsForAgent: true,
  givesSecrets: true,
  body: Body.default({}),
  response: z.object({
    found: z.array(FoundGroup).meta({ description: 'Containers that no agent made, by what made them together' }),
    volumes: z.array(FoundVolume).meta({ description: 'Volumes that no agent made' }),
    plan: z.array(PlanEntry),
    truncated: z.boolean().meta({ description: 'There is more than the answer has room for' }),
    taken: z.array(Taken).meta({ description: 'What was made; empty without take' }),
    remaining: z.array(z.string()).meta({ description: 'What is left to do by hand, in this order' }),
  }),
  handle: async (ctx, { it, body }) => {
    const { view, tenant } = ctx;
    const { id } = it.meta;
    const { place, taking } = askedFrom(ctx, id, body);
    requireAgent(view.agent(id), 'survey', { lack: 'cannot tell what runs on its machine' });
    if (taking !== undefined)
      requireAgent(view.agent(id), 'survey.values', {
        lack: 'does not give the values of variables',
        otherwise: 'move by hand, as the plan says',
      });
    if (taking !== undefined && view.agent(id)?.forbids?.includes(forbiddable.serverTerminals) === true)
      throw conflicting(
        'The operator of the machine allows no terminals of the server, and so nothing of it to be taken over: start its agent without --no-server-terminals, or move by hand',
      );
    const options = { timeoutMs: askMs, signal: ctx.signal() };
    const survey = answerOf(Survey, await ctx.agents.call(tenant, id, { method: 'survey' }, options));
    const { registries } = settingsOf(view);
    const { name, direct_ports_enabled: opensPorts } = it.desired;
    const ground = {
      server: { id, name, opensPorts },
      isAllowedRegistry: (registry: string) => isAllowedRegistry(registries, registry),
      ...(place !== undefined && { place: destinationOf(view, place) }),
    };
    const { truncated } = survey;
    const adoption = { ...adoptionOf(survey, ground), truncated };
    if (taking === undefined) return { ...adoption, taken: [], remaining: [] };
    return takeOver(ctx, it, plannedOf(survey, ground), taking, (done) => ({ ...adoption, ...done }));
  },
});

/** Where to, if that is said, and what is to be taken over, if anything is. @throws ApiError */
function askedFrom(
  { view }: RequestContext,
  server: string,
  body: z.infer<typeof Body>,
): { place?: Place; taking?: Taking } {
  const { project_id, projectId, environment_id, environmentId, take, deploy } = body;
  if (take === undefined && deploy !== undefined)
    throw badField('take', 'required', 'take is required to deploy: the names of what is to be taken over');
  if (Object.keys(body).length === 0) return {};
  for (const [field, id] of Object.entries({ project_id, projectId }))
    if (id !== undefined) referred(view, 'project', id, field);
  const project = project_id ?? projectId;
  if (project === undefined)
    throw badField('project_id', 'required', 'project_id is required: the project that it is to be in');
  const fields = { project_id: project, server_id: server };
  for (const environment of [environment_id, environmentId])
    if (typeof environment === 'string') placeFrom(view, { ...fields, environment_id: environment });
  const place = placeFrom(view, { ...fields, environment_id: environment_id ?? environmentId });
  return { place, ...(take !== undefined && { taking: { place, take, deploy: deploy === true } }) };
}

function destinationOf(view: TenantView, { project, environment }: Place): Destination {
  const names = (kind: 'application' | 'volume'): ReadonlyMap<string, string> =>
    new Map(view.by(kind, 'environment', environment.meta.id).map((it) => [foldName(it.desired.name), it.meta.id]));
  return {
    project: project.desired.name,
    environment: environment.desired.name,
    applications: names('application'),
    volumes: names('volume'),
  };
}
