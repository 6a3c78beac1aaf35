import { z } from 'zod';
import type { ReadonlyResource } from '../../store/resource.ts';
import { hasRunEnded, RunPhase } from '../../store/kinds/run.ts';
import { runVerbs } from '../../rules/run.ts';
import { objectFields, objectFieldsOf, orNull } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

export const Run = z
  .object({
    ...objectFields,
    application_id: z.string(),
    project_id: z.string(),
    deployment_id: z.string().meta({ description: 'The deployment whose image and configuration it has' }),
    service: z.string().nullable().meta({ description: 'The service of its compose file whose image it has' }),
    name: z.string().meta({ description: 'The command in one line' }),
    command: z.array(z.string()),
    status: RunPhase.meta({
      description: 'lost: it is not known what became of the command, which is never begun again by itself',
    }),
    exit_code: z.int().nullable(),
    timeout_seconds: z.int(),
    read_only_volumes: z.boolean(),
    requested_by: z.string().nullable(),
    requested_at: z.string(),
    started_at: z.string().nullable(),
    finished_at: z.string().nullable(),
    duration_ms: z.int().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Run', description: 'A command that runs once in a container of its own' });
export type Run = z.infer<typeof Run>;

function toRun(it: ReadonlyResource<'run'>): Run {
  const { desired, observed } = it;
  const { started_at, finished_at } = observed ?? {};
  const isTimed = started_at !== undefined && finished_at !== undefined;
  return {
    ...objectFieldsOf(it),
    application_id: desired.application_id,
    project_id: desired.project_id,
    deployment_id: desired.deployment_id,
    name: desired.name,
    command: [...desired.command],
    status: runStatus(it),
    timeout_seconds: desired.timeout_seconds,
    read_only_volumes: desired.read_only_volumes,
    requested_at: desired.requested_at,
    duration_ms: isTimed ? Math.max(0, Date.parse(finished_at) - Date.parse(started_at)) : null,
    ...orNull({
      service: desired.service,
      exit_code: observed?.exit_code,
      requested_by: desired.requested_by,
      started_at,
      finished_at,
      error: observed?.error,
    }),
  };
}

export function runStatus({ observed }: ReadonlyResource<'run'>): RunPhase {
  return observed?.phase ?? 'pending';
}

export const runs = defineResource({
  kind: 'run',
  word: 'Run',
  project: ({ desired }) => desired.project_id,
  answer: Run,
  seen: () => ({}),
  show: toRun,
  list: {
    texts: ({ desired }) => [desired.name],
    status: { values: RunPhase.options, of: runStatus },
  },
  verbs: runVerbs,
  isSettled: (it) => hasRunEnded(it.observed?.phase) && isReconciled(it),
  watch: { shows: {} },
});
