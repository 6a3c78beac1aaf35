import { z } from 'zod';
import { isWriting } from '../../store/kinds/composed-service.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import { hasRunEnded } from '../../store/kinds/run.ts';
import type { TenantView } from '../../store/mirror.ts';
import { escapeReferences } from '../../store/references.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment, successes } from '../../store/serving.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField, conflicting, notFound } from '../ground/api-error.ts';
import { EnvValues, ServiceName, StartCommand } from '../resources/fields.ts';
import { Reference } from '../resources/object-fields.ts';
import { Run, runs, runStatus } from '../resources/run.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { openComposed } from '../../store/composed-values.ts';
import { sealEnv } from '../workloads/application-env.ts';
import { runInstanceOf } from '../workloads/instance-ids.ts';
import { Logs, LogsQuery } from '../workloads/log-query.ts';
import { readLogs } from '../workloads/read-logs.ts';
import { eventsEndpoint, getEndpoint, listOfEndpoint } from './resource-endpoints.ts';

type Application = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;

const longestSeconds = 24 * 3600;

const Argument = z
  .string()
  .max(4096)
  .refine((text) => !text.includes('\0') && text.isWellFormed(), 'Must be text without NUL');

const RunBody = z.strictObject({
  command: z.union([z.array(Argument).min(1).max(256), StartCommand]).meta({
    description: 'Program and arguments, or a text that is split into them; no shell reads it. The entrypoint stays',
  }),
  deployment_id: Reference.optional().meta({ description: 'By default the one that serves' }),
  service: ServiceName.meta({ description: 'Of its compose file; by default the one that requests are for' }),
  timeout_seconds: z.int().min(1).max(longestSeconds).default(3600),
  env: EnvValues.optional().meta({ description: 'In addition to the variables of the deployment, and as they are' }),
  read_only_volumes: z
    .boolean()
    .default(false)
    .meta({ description: 'Needed while instances run that may write to a volume' }),
});

export const runApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/run',
  summary: 'Run a command once in a container of its own, with image and configuration of a deployment',
  on: ['application', 'id'],
  heavy: true,
  body: RunBody,
  response: Run,
  status: 201,
  settle: runs.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const active = view.by('run', 'application', it.meta.id).filter(({ observed }) => !hasRunEnded(observed?.phase));
    requireRoom(active.length, countLimits.activeRunsPerApplication, {
      where: 'The application',
      what: 'commands that have not ended',
      remedy: 'wait until one has, or cancel it',
    });
    const deployment = deploymentFor(view, it, body.deployment_id);
    const composed = serviceIn(deployment, body.service);
    requireVolumes(view, it, body.read_only_volumes);
    requireServiceVolumes(it, composed, body.read_only_volumes);
    const command = wordsOf(body.command);
    const isRead = deployment.desired.config.references !== undefined;
    const values = Object.entries(body.env ?? {}).map(([name, value]) => [
      name,
      isRead ? escapeReferences(value) : value,
    ]);
    const unit = ctx.repo.begin();
    unit.require(it);
    unit.require(deployment);
    const made = unit.create('run', ctx.random.id(), {
      application_id: it.meta.id,
      project_id: it.desired.project_id,
      server_id: it.desired.server_id,
      deployment_id: deployment.meta.id,
      name: command.join(' ').replaceAll(/\s+/g, ' ').slice(0, 100),
      command,
      ...(composed !== undefined && { service: composed.name }),
      env: sealEnv(ctx, it.meta.id, {
        ...(composed !== undefined && openComposed(ctx, it.meta.id, composed).env),
        ...(Object.fromEntries(values) as Record<string, string>),
      }),
      timeout_seconds: body.timeout_seconds,
      read_only_volumes: body.read_only_volumes,
      requested_by: ctx.principal.user.meta.id,
      requested_at: ctx.clock.now().toISOString(),
      cancel_requested: false,
    });
    return ctx.commit(unit, () => runs.answerOf(made, view));
  },
});

function wordsOf(command: string | readonly string[]): string[] {
  if (typeof command !== 'string') return [...command];
  const parsed = parseCommand(command);
  if ('fault' in parsed) throw badField('command', 'invalid', parsed.fault);
  return parsed.words;
}

/** The named deployment, or the one that serves. @throws ApiError NOT_FOUND, CONFLICT if it has no image */
function deploymentFor(view: TenantView, it: Application, id: string | undefined): Deployment {
  if (id === undefined) {
    const serving = servingDeployment(view, it.meta.id);
    if (serving !== undefined) return serving;
    throw conflicting('Cannot run a command as no deployment of the application has succeeded yet: deploy it first');
  }
  const named = view.get('deployment', id);
  if (named?.desired.application_id !== it.meta.id) throw notFound('Deployment', 'deployment_id');
  if (!successes(view, it.meta.id).includes(named))
    throw conflicting('Cannot run a command of a deployment that did not succeed: name another one');
  return named;
}

/** The service whose image a command gets. @throws ApiError BAD_REQUEST for one that the deployment does not have */
function serviceIn({ desired: { services = [], number } }: Deployment, name: string | undefined) {
  if (name === undefined) return services[0];
  const named = services.find((it) => it.name === name);
  if (named === undefined) throw badField('service', 'unknown', `Deployment ${number} has no service ${name}`);
  return named;
}

/** A volume of a compose file has one writer, too. @throws ApiError CONFLICT */
function requireServiceVolumes(
  { desired }: Application,
  service: ReturnType<typeof serviceIn>,
  isReadOnly: boolean,
): void {
  if (service === undefined || !isWriting(service) || isReadOnly || desired.run === 'stopped') return;
  const message = `Cannot run a command that may write to a volume of ${service.name} while that runs: stop the application, or send read_only_volumes: true`;
  throw conflicting(message, [{ field: 'read_only_volumes', reason: 'volume_in_use', message }]);
}

/** A volume has one writer. @throws ApiError CONFLICT */
function requireVolumes(view: TenantView, { desired }: Application, isReadOnly: boolean): void {
  const written = desired.mounts.find(({ read_only }) => !read_only);
  if (written === undefined || isReadOnly || desired.run === 'stopped') return;
  const name = view.get('volume', written.volume_id)?.desired.name ?? written.volume_id;
  const message = `Cannot run a command that may write to volume ${name} while the application runs, which may write to it: stop the application, or send read_only_volumes: true`;
  throw conflicting(message, [{ field: 'read_only_volumes', reason: 'volume_in_use', message }]);
}

export const listRuns = listOfEndpoint('application', runs, {
  path: '/applications/:id/runs',
  summary: 'Commands that were run with an application',
});

export const getRun = getEndpoint(runs, { path: '/runs/:id', summary: 'A command that runs once, and its end' });

export const readRunLogs = defineEndpoint({
  method: 'GET',
  path: '/runs/:id/logs',
  summary: 'Output of a command',
  on: ['run', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, { workload: it.meta.id, instances: [runInstanceOf(it.meta.id)] }),
});

export const cancelRun = defineEndpoint({
  method: 'POST',
  path: '/runs/:id/cancel',
  summary: 'End a command that has not ended',
  on: ['run', 'id'],
  response: Run,
  settle: runs.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const isOver = hasRunEnded(runStatus(it));
    const next = isOver ? it : unit.change(it, (draft) => void (draft.cancel_requested = true));
    return ctx.commit(unit, () => runs.answerOf(next, ctx.view));
  },
});

export const listRunEvents = eventsEndpoint(runs, {
  path: '/runs/:id/events',
  summary: 'What happened to a command, newest first',
});
