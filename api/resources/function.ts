import { z } from 'zod';
import { RunState } from '../../store/kinds/application.ts';
import { Port } from '../../store/kinds/fields.ts';
import {
  functionKind,
  FunctionPhase,
  FunctionRuntime,
  FunctionVersionPhase,
  hasVersionEnded,
} from '../../store/kinds/function.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { functionVerbs, functionVersionVerbs } from '../../rules/function.ts';
import { CpuLimit, EnvValues, MemoryLimit } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, placeFields } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

const nullableText = z.string().nullable();
const TriggerType = z.enum(['http', 'cron']);
const { shape } = functionKind.desired;
const codeChars = 128 * 1024;

export const FunctionObject = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    name: z.string(),
    internal_id: z.string(),
    runtime: FunctionRuntime,
    trigger_type: TriggerType,
    schedule: nullableText.meta({ description: 'Five fields of cron; null where requests call it' }),
    schedule_config: z.object({ timezone: z.string() }).nullable(),
    exposed_port: z.int().nullable(),
    url: nullableText.meta({ description: 'Where requests call it; null where its server opens no port for it' }),
    cpu_limit: nullableText,
    memory_limit: nullableText,
    timeout_seconds: z.int(),
    min_instances: z.int(),
    max_instances: z.int(),
    concurrency: z
      .int()
      .nullable()
      .meta({ description: 'Calls that one instance answers at a time; null: usual ones' }),
    version_id: nullableText.meta({ description: 'The version that is to serve; null: it was never deployed' }),
    active_version_id: nullableText.meta({ description: 'The version that serves, or would if it was started' }),
    next_run_at: nullableText.meta({ description: 'When its schedule calls it next' }),
    last_run_at: nullableText,
    run: RunState.meta({ description: 'Whether it shall run; status shows whether it does' }),
    status: FunctionPhase,
  })
  .meta({ id: 'Function' });
export type FunctionObject = z.infer<typeof FunctionObject>;

export const FunctionDetail = z
  .object({
    ...FunctionObject.shape,
    code: z.string().meta({ description: 'What the next version is made of' }),
    dependencies: nullableText,
    env: z.record(z.string(), z.string()).meta({ description: 'Values are masked for viewers' }),
    masked: z.boolean().meta({ description: 'Whether the values of `env` are masked' }),
  })
  .meta({ id: 'FunctionDetail' });

const settings = {
  cpu_limit: CpuLimit.nullish(),
  memory_limit: MemoryLimit.nullish(),
  timeout_seconds: shape.timeout_seconds.nullish().meta({ description: 'By default 30' }),
  min_instances: shape.min_instances
    .nullish()
    .meta({ description: 'Instances that run also while nothing calls it; by default 0' }),
  max_instances: shape.max_instances.nullish().meta({ description: 'By default 4' }),
  concurrency: shape.concurrency
    .unwrap()
    .nullish()
    .meta({ description: 'Calls that one instance answers at a time; by default 16, and 1 of python3' }),
  exposed_port: Port.nullish().meta({ description: 'A port of its server at which requests call it' }),
  schedule: z.string().max(100).nullish().meta({ description: 'Five fields of cron; required with trigger_type cron' }),
  schedule_config: z
    .strictObject({
      timezone: z.string().max(64).optional().meta({ description: 'Such as Europe/Berlin; by default UTC' }),
    })
    .nullish(),
  dependencies: z.string().max(16_384).nullish().meta({
    description:
      'JSON: versions by name for node20, bun and go, a list of requirements for python3, an import map for deno',
  }),
  env: EnvValues.nullish(),
  labels: Labels.optional(),
};
const Code = z
  .string()
  .min(1)
  .max(codeChars)
  .meta({ description: `Source text, at most ${codeChars / 1024} KiB; it is deployed by /functions/:id/deploy` });

export const FunctionCreate = z.strictObject({
  ...placeFields,
  ...settings,
  name: shape.name,
  runtime: FunctionRuntime,
  code: Code,
  trigger_type: TriggerType.optional().meta({ description: 'By default http' }),
});
export type FunctionCreate = z.infer<typeof FunctionCreate>;

export const FunctionUpdate = z
  .strictObject({ ...settings, name: shape.name, runtime: FunctionRuntime, code: Code, trigger_type: TriggerType })
  .partial();
export type FunctionUpdate = z.infer<typeof FunctionUpdate>;

/** The status of a function: the last one from its controller, or the one that follows from later requests. */
function functionStatus(it: ReadonlyResource<'function'>): FunctionPhase {
  if (isDeleting(it)) return 'deleting';
  const phase = it.observed?.phase ?? 'stopped';
  const isSeen = it.observed !== undefined && it.observed.observedGeneration >= it.meta.generation;
  if (isSeen || it.desired.run === 'stopped' || it.desired.version_id === undefined) return phase;
  return phase === 'running' && it.observed?.active_version_id === it.desired.version_id ? 'running' : 'deploying';
}

/** Where requests call it; `null` where its server opens no port for it, or its address is not known. */
function urlOf({ desired }: ReadonlyResource<'function'>, view: TenantView): string | null {
  const server = view.get('server', desired.server_id)?.desired;
  if (desired.trigger.type !== 'http' || desired.exposed_port === undefined) return null;
  if (server?.direct_ports_enabled !== true || server.ip_address === undefined) return null;
  const host = server.ip_address.includes(':') ? `[${server.ip_address}]` : server.ip_address;
  return `http://${host}:${desired.exposed_port}`;
}

function toFunction(it: ReadonlyResource<'function'>, { url }: { url: string | null }): FunctionObject {
  const { desired, observed } = it;
  const { trigger } = desired;
  return {
    ...objectFieldsOf(it),
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    server_id: desired.server_id,
    name: desired.name,
    internal_id: desired.internal_id,
    runtime: desired.runtime,
    trigger_type: trigger.type,
    schedule: trigger.type === 'cron' ? trigger.schedule : null,
    schedule_config: trigger.type === 'cron' ? { timezone: trigger.timezone } : null,
    url,
    timeout_seconds: desired.timeout_seconds,
    min_instances: desired.min_instances,
    max_instances: desired.max_instances,
    run: desired.run,
    status: functionStatus(it),
    ...orNull({
      exposed_port: desired.exposed_port,
      cpu_limit: desired.cpu_limit,
      memory_limit: desired.memory_limit,
      concurrency: desired.concurrency,
      version_id: desired.version_id,
      active_version_id: observed?.active_version_id,
      next_run_at: observed?.next_run_at,
      last_run_at: observed?.last_run_at,
    }),
  };
}

export const functions = defineResource({
  kind: 'function',
  word: 'Function',
  project: ({ desired }) => desired.project_id,
  parts: ['versionId'],
  answer: FunctionObject,
  seen: (it, view) => ({ url: urlOf(it, view) }),
  show: toFunction,
  list: {
    texts: ({ desired }) => [desired.name, desired.internal_id],
    status: { values: FunctionPhase.options, of: functionStatus },
  },
  isSettled: (it) => isReconciled(it) && functionStatus(it) !== 'deploying',
  verbs: functionVerbs,
  watch: {
    shows: {
      /** Its address follows from that of the server. */
      server({ id, before, after }, view) {
        const part = (one: typeof after) =>
          JSON.stringify([one?.desired.ip_address, one?.desired.direct_ports_enabled]);
        return part(before) === part(after) ? [] : view.by('function', 'server', id).map(({ meta }) => meta.id);
      },
    },
  },
});

const FunctionVersion = z
  .object({
    ...objectFields,
    function_id: z.string(),
    project_id: z.string(),
    number: z.int(),
    runtime: FunctionRuntime,
    status: z.enum([...FunctionVersionPhase.options, 'deleting']),
    is_active: z.boolean().meta({ description: 'It serves, or would if the function was started' }),
    image: nullableText,
    image_digest: nullableText,
    requested_by: nullableText,
    requested_at: z.string(),
    finished_at: nullableText,
    duration_ms: z.int().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'FunctionVersion' });
type FunctionVersion = z.infer<typeof FunctionVersion>;

type Version = ReadonlyResource<'function_version'>;

function versionStatus(it: Version): FunctionVersion['status'] {
  return isDeleting(it) ? 'deleting' : (it.observed?.phase ?? 'building');
}

export const functionVersions = defineResource({
  kind: 'function_version',
  word: 'Function version',
  project: ({ desired }) => desired.project_id,
  answer: FunctionVersion,
  seen: ({ meta, desired }, view) => ({
    is_active: view.get('function', desired.function_id)?.observed?.active_version_id === meta.id,
  }),
  show(it, { is_active }): FunctionVersion {
    const { desired, observed } = it;
    const { finished_at, lost_at } = observed ?? {};
    const begun = Date.parse(lost_at ?? desired.requested_at);
    const lasted = finished_at === undefined ? undefined : Date.parse(finished_at) - begun;
    return {
      ...objectFieldsOf(it),
      function_id: desired.function_id,
      project_id: desired.project_id,
      number: desired.number,
      runtime: desired.runtime,
      status: versionStatus(it),
      is_active,
      requested_at: desired.requested_at,
      ...orNull({
        image: observed?.image,
        image_digest: observed?.image_digest,
        requested_by: desired.requested_by,
        finished_at,
        duration_ms: lasted === undefined ? undefined : Math.max(0, lasted),
        error: observed?.error,
      }),
    };
  },
  list: {
    texts: ({ desired }) => [String(desired.number)],
    status: { values: functionVersionVerbs.states, of: versionStatus },
    sorts: { number: ({ desired }) => desired.number },
    defaultSort: '-number',
  },
  isSettled: (it) => hasVersionEnded(it.observed?.phase) && isReconciled(it),
  verbs: functionVersionVerbs,
  watch: { never: 'Its function changes with each of its phases, and lists the last ten' },
});
