import { z } from 'zod';
import type { FunctionRuntime } from '../../store/kinds/function.ts';
import { defined } from '../../store/defined.ts';
import { deployLack } from '../../store/deploy-lack.ts';
import { hasVersionEnded } from '../../store/kinds/function.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { createFunctionVersion } from '../../store/new-function-version.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { cronFault } from '../../time/cron.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { FunctionCreate, FunctionUpdate } from '../resources/function.ts';
import { assign } from '../resources/object-fields.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { sealFunctionEnv } from './application-env.ts';
import { referencesIn } from './env-references.ts';
import { newInternalId } from './internal-id.ts';
import { enterPlace } from './place.ts';
import type { Place } from './place.ts';
import { requirePort } from './ports.ts';
import { requireEnvRoom } from './server-room.ts';

type Desired = DesiredOf<'function'>;
type PlaceIds = Pick<Desired, 'project_id' | 'environment_id' | 'server_id'>;
type Context = Pick<RequestContext, 'tenant' | 'view' | 'random' | 'sealer' | 'unsealer' | 'clock'>;

/**
 * The id and the desired state of a new function, or of one that is declared anew. It is stopped. @throws ApiError
 * BAD_REQUEST
 */
export function newFunction(
  ctx: Context,
  place: PlaceIds,
  body: Omit<FunctionCreate, keyof PlaceIds>,
  known?: { readonly id: string; readonly desired: { readonly internal_id: string } },
): { id: string; desired: Desired } {
  const id = known?.id ?? ctx.random.id();
  const desired: Desired = {
    ...place,
    name: body.name,
    internal_id: known?.desired.internal_id ?? newInternalId(body.name, ctx.random),
    runtime: body.runtime,
    mounts: [],
    code: body.code,
    config: { env: {} },
    trigger: { type: 'http' },
    timeout_seconds: 30,
    min_instances: 0,
    max_instances: 4,
    run: 'stopped',
    attempt: 0,
    next_version_number: 1,
  };
  applyFunctionFields(ctx, desired, body, id);
  return { id, desired };
}

/** Adds a function, which is stopped. @throws ApiError */
export function addFunction(
  ctx: RequestContext,
  unit: Unit,
  place: Place,
  body: Omit<FunctionCreate, keyof PlaceIds>,
): ReadonlyResource<'function'> {
  const { project_id: projectId, server_id: serverId } = place.fields;
  requireFunctionRoom(ctx.view, projectId);
  requirePort(ctx, { projectId, serverId, port: body.exposed_port ?? undefined });
  const { id, desired } = newFunction(ctx, place.fields, body);
  enterPlace(unit, place);
  return unit.create('function', id, desired, defined({ labels: body.labels }));
}

/** Writes the sent fields, except the name, into a draft. @throws ApiError BAD_REQUEST */
export function applyFunctionFields(ctx: Context, draft: Desired, body: FunctionUpdate, id: string): void {
  draft.runtime = body.runtime ?? draft.runtime;
  draft.code = body.code ?? draft.code;
  assign(draft, 'dependencies', body.dependencies);
  assign(draft, 'exposed_port', body.exposed_port);
  assign(draft, 'cpu_limit', body.cpu_limit);
  assign(draft, 'memory_limit', body.memory_limit);
  assign(draft, 'concurrency', body.concurrency);
  if (body.timeout_seconds !== undefined) draft.timeout_seconds = body.timeout_seconds ?? 30;
  if (body.min_instances !== undefined) draft.min_instances = body.min_instances ?? 0;
  if (body.max_instances !== undefined) draft.max_instances = body.max_instances ?? 4;
  if (draft.min_instances > draft.max_instances)
    throw badField('min_instances', 'range', 'min_instances must not be above max_instances');
  draft.trigger = triggerFrom(draft.trigger, body, ctx.clock.now());
  if (isEmptyJson(draft.dependencies)) delete draft.dependencies;
  requireDependencies(draft.runtime, draft.dependencies);
  if (body.env === undefined) return;
  const env = sealFunctionEnv(ctx, id, body.env ?? {}, draft.config.env);
  requireEnvRoom(env, draft.config.env);
  draft.config.env = env;
  assign(draft.config, 'references', referencesIn(ctx.view, draft.environment_id, body.env ?? {}) ?? null);
}

function triggerFrom(
  before: Desired['trigger'],
  { trigger_type, schedule, schedule_config }: FunctionUpdate,
  now: Date,
): Desired['trigger'] {
  const known = before.type === 'cron' ? before : undefined;
  const type = trigger_type ?? before.type;
  if (type === 'http') {
    if (schedule !== undefined && schedule !== null)
      throw badField('schedule', 'not_for_http', 'A schedule is for trigger_type cron: leave it out, or send that');
    return { type };
  }
  const expression = schedule === null ? undefined : (schedule ?? known?.schedule);
  if (expression === undefined) throw badField('schedule', 'required', 'schedule is required with trigger_type cron');
  const timezone = schedule_config === null ? 'UTC' : (schedule_config?.timezone ?? known?.timezone ?? 'UTC');
  const fault = cronFault({ expression, timezone }, now);
  if (fault !== undefined)
    throw badField(fault.field === 'timezone' ? 'schedule_config.timezone' : 'schedule', 'invalid', fault.message);
  return { type, schedule: expression, timezone };
}

const packageName = /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]{0,213}$/i;
const packageVersion = /^[\w.^~<>=*|+ -]{1,64}$/;
const Versions = z.record(z.string().regex(packageName), z.string().regex(packageVersion));
const Modules = z.record(
  z.string().regex(/^[a-zA-Z0-9][\w.~-]*(\/[\w.~-]+){0,20}$/),
  z.string().regex(/^v\d[\w.+-]{0,99}$/),
);
const Requirements = z
  .array(z.string().regex(/^[A-Za-z0-9][\w.-]*(\[[\w.,-]+\])?([=<>!~]=?[\w.*+!-]+(,[=<>!~]=?[\w.*+!-]+)*)?$/))
  .max(200);
const ImportMap = z.strictObject({ imports: z.record(z.string().max(200), z.string().max(2000)) });

/** The form of the dependencies of each runtime, and what it is in words. */
const forms: Readonly<Record<FunctionRuntime, readonly [schema: z.ZodType, words: string]>> = {
  node20: [Versions, 'an object of versions by name, such as {"left-pad":"1.3.0"}'],
  bun: [Versions, 'an object of versions by name, such as {"left-pad":"1.3.0"}'],
  go: [Modules, 'an object of versions by module, such as {"github.com/google/uuid":"v1.6.0"}'],
  python3: [Requirements, 'a list of requirements, such as ["requests==2.32.3"]'],
  deno: [ImportMap, 'an import map, such as {"imports":{"oak":"jsr:@oak/oak@17"}}'],
};

/** An empty object or list means none, of whatever runtime. */
function isEmptyJson(text: string | undefined): boolean {
  return text !== undefined && /^\s*(\{\s*\}|\[\s*\])\s*$/.test(text);
}

/** @throws ApiError BAD_REQUEST */
function requireDependencies(runtime: FunctionRuntime, text: string | undefined): void {
  if (text === undefined) return;
  const [schema, words] = forms[runtime];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badField('dependencies', 'invalid', `Dependencies must be JSON: for ${runtime} ${words}`);
  }
  if (!schema.safeParse(value).success)
    throw badField('dependencies', 'invalid', `Dependencies of ${runtime} must be ${words}`);
}

/** Requires that another function may be created in a project. @throws ApiError CONFLICT */
export function requireFunctionRoom(view: TenantView, projectId: string, { adding = 1 } = {}): void {
  requireRoom(view.by('function', 'project', projectId).length + adding - 1, countLimits.functionsPerProject, {
    where: 'The project',
    what: 'functions',
    remedy: 'delete one that is not needed, or use another project',
  });
}

/**
 * Adds a version of the function as it is now, which is to serve once it is built. @throws ApiError CONFLICT if too many are
 * being built, or the project may not use the server
 */
export function addVersion(
  ctx: Pick<RequestContext, 'view' | 'random' | 'clock' | 'config' | 'principal'>,
  unit: Unit,
  it: ReadonlyResource<'function'>,
): ReadonlyResource<'function'> {
  const { view } = ctx;
  const { desired } = it;
  requireServer(view, unit, it);
  const active = view
    .by('function_version', 'function', it.meta.id)
    .filter(({ observed }) => !hasVersionEnded(observed?.phase));
  requireRoom(active.length, countLimits.activeVersionsPerFunction, {
    where: 'The function',
    what: 'versions that are being built',
    remedy: 'wait until one is',
  });
  const id = ctx.random.id();
  return createFunctionVersion(unit, it, id, {
    requestedBy: ctx.principal.user.meta.id,
    baseImage: ctx.config.runtimeImages[desired.runtime],
    requested_at: ctx.clock.now().toISOString(),
  });
}

/** Requires that the project may use the server of the function, and guards that. @throws ApiError CONFLICT */
export function requireServer(view: TenantView, unit: Unit, { desired }: ReadonlyResource<'function'>): void {
  const server = view.get('server', desired.server_id);
  const lack = deployLack(desired, server, []);
  if (lack !== undefined) throw conflicting(`Cannot deploy as ${lack.message}`);
  if (server !== undefined) unit.require(server);
}
