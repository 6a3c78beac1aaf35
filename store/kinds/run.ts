import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Sealed } from './fields.ts';

export const RunPhase = z.enum(['pending', 'running', 'succeeded', 'failed', 'cancelled', 'lost']);
export type RunPhase = z.infer<typeof RunPhase>;

/** Whether a run in this phase never leaves it; `undefined` is the phase of one that was not observed yet. */
export function hasRunEnded(phase: RunPhase | undefined): boolean {
  return phase !== undefined && phase !== 'pending' && phase !== 'running';
}

/** A command that runs once, with the image and the configuration of a deployment. It is never repeated by itself. */
export const run = defineKind({
  kind: 'run',
  version: 1,
  desired: z.object({
    application_id: Id,
    project_id: Id,
    server_id: Id,
    deployment_id: Id,
    /** The service of its compose file whose image, volumes and first network it has; `env` has its variables, too. */
    service: z.string().optional(),
    /** The command in one line, for lists. */
    name: z.string(),
    command: z.array(z.string()).min(1),
    /** Variables in addition to those of the deployment, sealed for the application. */
    env: z.record(z.string(), Sealed).default({}),
    timeout_seconds: z.int(),
    read_only_volumes: z.boolean().default(false),
    requested_by: Id.optional(),
    requested_at: z.string(),
    /** Set by the cancel verb; the controller turns it into the phase once the process is gone. */
    cancel_requested: z.boolean().default(false),
  }),
  observed: z.object({
    phase: RunPhase,
    exit_code: z.int().optional(),
    started_at: z.string().optional(),
    finished_at: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [{ kind: 'application', id: d.application_id, blocks: true }],
  indexes: { application: (d) => d.application_id, project: (d) => d.project_id, server: (d) => d.server_id },
  finalizers: ['run'],
  keep: {
    newest: {
      count: retention.runsPerApplication,
      under: 'application',
      hasEnded: ({ observed }) => hasRunEnded(observed?.phase),
    },
  },
});
