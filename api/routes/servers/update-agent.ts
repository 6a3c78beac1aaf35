import { z } from 'zod';
import { updateCapability } from '../../../agent-protocol/messages.ts';
import { isLater, ReleaseVersion } from '../../../agent-protocol/release-manifest.ts';
import type { LiveAgent } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { conflicting } from '../../ground/api-error.ts';

export const updateAgent = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/update-agent',
  summary: 'Let the agent of a server update itself to the release that the control plane has; workloads go on',
  on: ['server', 'id'],
  body: z
    .strictObject({
      version: ReleaseVersion.optional().meta({
        description: 'The version that is expected of the release; by default whichever it has',
      }),
    })
    .default({}),
  response: z
    .object({
      server_id: z.string(),
      status: z.enum(['current', 'updating']).meta({
        description:
          'current: it runs that version. updating: the condition AgentUpdated shows when it does; an agent that is away takes it up once it is back',
      }),
      agent_version: z.string().nullable().meta({ description: 'The version that runs' }),
      desired_agent_version: z.string(),
    })
    .meta({ id: 'AgentUpdate' }),
  handle: async (ctx, { it, body }) => {
    const agent = ctx.view.agent(it.meta.id);
    if (agent === undefined && it.desired.agent_public_key === undefined)
      throw conflicting(
        'No agent has joined the server yet: one that joins has the version of the release that the control plane has',
      );
    // One that is away takes it up once it is back, if it can: its server shows whether.
    const running = agent === undefined ? it.observed?.agent_version : agent.agentVersion;
    const version = await releasedVersion(ctx, body.version);
    const answer = (status: 'current' | 'updating') => ({
      server_id: it.meta.id,
      status,
      agent_version: running ?? null,
      desired_agent_version: version,
    });
    if (running === version) return answer('current');
    requireUpdatable(ctx, agent, running, version);
    if (isUnderWay(it, agent, version)) return answer('updating');
    const unit = ctx.repo.begin();
    unit.change(it, (draft) => {
      draft.agent_update = { version, requested_at: ctx.clock.now().toISOString() };
    });
    return ctx.commit(unit, () => answer('updating'));
  },
});

/** The version of the release that this replica has. @throws ApiError CONFLICT if there is none, or another one */
async function releasedVersion({ releases }: RequestContext, expected: string | undefined): Promise<string> {
  const release = await releases.current();
  if (release === undefined)
    throw conflicting(
      'The control plane has no release of the agent: build one by make release, in its checkout, then ask again',
    );
  const { version } = release.manifest;
  if (expected !== undefined && expected !== version)
    throw conflicting(
      `The control plane has the release ${version} of the agent, and not ${expected}: ask for ${version}, or build the other one by make release`,
    );
  return version;
}

/** `running`: the version that the agent runs, or ran last. @throws ApiError CONFLICT if it cannot update itself to that one */
function requireUpdatable(
  { config }: RequestContext,
  agent: LiveAgent | undefined,
  running: string | undefined,
  version: string,
): void {
  const script = `run the script that installs it on its machine, as root: curl -fsSL ${config.publicUrl}/install.sh | sh`;
  if (agent !== undefined && agent.capabilities?.includes(updateCapability) !== true)
    throw conflicting(
      `The agent of the server cannot update itself, as its release is an earlier one or was not installed by the script: ${script}`,
    );
  if (running !== undefined && isLater(running, version))
    throw conflicting(
      `The agent of the server has version ${running}, which is later than ${version}, and goes back to no earlier one: upgrade the control plane, or ${script}`,
    );
}

/** Whether that version was asked for already, and the agent has neither run it nor failed to since. */
function isUnderWay(
  { desired, observed }: ReadonlyResource<'server'>,
  agent: LiveAgent | undefined,
  version: string,
): boolean {
  const asked = desired.agent_update;
  if (asked?.version !== version) return false;
  const ended = [observed?.update_done, observed?.update_failure?.requested_at, agent?.updateFailure?.requestedAt];
  return !ended.includes(asked.requested_at);
}
