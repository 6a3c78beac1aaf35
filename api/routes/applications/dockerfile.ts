import { z } from 'zod';
import { conflicting, serviceUnavailable } from '../../ground/api-error.ts';
import { untilSettled } from '../../ground/settle.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { requireAgent } from '../../workloads/agent-capability.ts';
import { beginOperation } from '../../workloads/operations.ts';

/** A clone and a few reads. */
const patienceMs = 40_000;

const Generated = z.object({
  dockerfile: z.string(),
  ignore: z.array(z.string()).meta({ description: 'What stays out of the build context, as lines of .dockerignore' }),
  language: z.string(),
  reasons: z.array(z.string()).meta({ description: 'What was found and what follows from it, a sentence each' }),
  commit: z.string(),
  branch: z.string(),
});

export const generateDockerfile = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/dockerfile',
  summary:
    'The Dockerfile that a build with dockerfile_path auto would generate for the head of the branch; builds nothing',
  on: ['application', 'id'],
  heavy: true,
  waitsForAgent: true,
  response: Generated,
  handle: async (ctx, { it }) => {
    const { source, server_id } = it.desired;
    if (source.type !== 'git')
      throw conflicting('Only for an application with a git source a Dockerfile can be generated');
    const { view, tenant } = ctx;
    requireAgent(view.agent(server_id), 'build.generate', {
      lack: 'cannot generate a Dockerfile',
      otherwise: 'add a Dockerfile to the repository',
    });
    const kept = view.by('operation', 'application', it.meta.id).filter(({ desired }) => desired.type === 'dockerfile');
    const underWay = kept.filter(({ observed }) => observed?.finished_at === undefined);
    requireRoom(underWay.length, countLimits.comparisonsPerApplication, {
      where: 'The application',
      what: 'Dockerfiles that are being generated',
      remedy: 'wait for one of them to end',
    });
    const id = await beginOperation(ctx, it, kept, {
      type: 'dockerfile',
      project_id: it.desired.project_id,
      application_id: it.meta.id,
      server_id,
      deadline_seconds: patienceMs / 1000,
    });
    const isOver = (): boolean => view.get('operation', id)?.observed?.finished_at !== undefined;
    await untilSettled(ctx, tenant, isOver, patienceMs, ctx.signal());
    const { observed } = view.get('operation', id) ?? {};
    if (observed?.phase === 'failed' && observed.error !== undefined && observed.error.code !== 'away')
      throw conflicting(observed.error.message, [
        { field: '', reason: observed.error.code, message: observed.error.message },
      ]);
    if (observed?.phase !== 'succeeded') throw serviceUnavailable('The agent of the server did not answer in time');
    return Generated.parse(observed.result);
  },
});
