import { jsonEqual } from '../../../store/json-equal.ts';
import { hasVersionEnded } from '../../../store/kinds/function.ts';
import type { TenantView } from '../../../store/mirror.ts';
import { createFunctionVersion } from '../../../store/new-function-version.ts';
import { resolveReferences } from '../../../store/referable.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { conflicting } from '../../ground/api-error.ts';
import { FunctionObject, functions } from '../../resources/function.ts';
import { versionIn } from '../../workloads/function-versions.ts';
import { addVersion, requireServer } from '../../workloads/new-function.ts';
import { requirePort } from '../../workloads/ports.ts';

type Fn = ReadonlyResource<'function'>;

/** A port of a function that is stopped may be taken meanwhile. @throws ApiError CONFLICT */
function requireOwnPort(ctx: RequestContext, { meta: { id }, desired }: Fn): void {
  const { project_id: projectId, server_id: serverId, exposed_port: port } = desired;
  requirePort(ctx, { id, projectId, serverId, port });
}

/** Lets a version serve that was built, or once it is: with what its variables refer to now, another version of its image. */
function serve(ctx: RequestContext, unit: Unit, it: Fn, version: ReadonlyResource<'function_version'>): Fn {
  requireServer(ctx.view, unit, it);
  unit.require(version);
  if (isOutdated(ctx.view, it, version))
    return createFunctionVersion(unit, it, ctx.random.id(), {
      requestedBy: ctx.principal.user.meta.id,
      baseImage: version.desired.base_image,
      requested_at: ctx.clock.now().toISOString(),
      from: version,
    });
  return unit.change(it, (draft) => {
    draft.run = 'running';
    draft.version_id = version.meta.id;
    draft.attempt += 1;
  });
}

/** Whether what the variables of a built version refer to is not what it was, such as the password of a database. */
function isOutdated(view: TenantView, { desired }: Fn, version: ReadonlyResource<'function_version'>): boolean {
  const { references } = version.desired.config;
  if (references === undefined || version.observed?.phase !== 'ready') return false;
  const now = resolveReferences(view, desired.environment_id, references);
  return !('values' in now) || !jsonEqual(now.values, version.observed.references);
}

export const deployFunction = defineEndpoint({
  method: 'POST',
  path: '/functions/:id/deploy',
  summary: 'Build a version of the function as it is now, and let it serve once it is built',
  on: ['function', 'id'],
  heavy: true,
  response: FunctionObject,
  settle: functions.settle,
  handle: async (ctx, { it }) => {
    requireOwnPort(ctx, it);
    const unit = ctx.repo.begin();
    const next = addVersion(ctx, unit, it);
    return ctx.commit(unit, () => functions.answerOf(next, ctx.view));
  },
});

export const deployFunctionVersion = defineEndpoint({
  method: 'POST',
  path: '/functions/:id/versions/:versionId/deploy',
  summary:
    'Let a version serve that was built before; nothing is built. Where its variables refer to what has changed, another version of its image serves',
  on: ['function', 'id'],
  heavy: true,
  response: FunctionObject,
  settle: functions.settle,
  handle: async (ctx, { it }) => {
    const version = versionIn(ctx, it);
    const phase = version.observed?.phase ?? 'building';
    if (phase !== 'ready')
      throw conflicting(
        phase === 'building'
          ? `Cannot deploy version ${version.desired.number} as it is being built: wait until it is ready`
          : `Cannot deploy version ${version.desired.number} as its build failed: see its log, and deploy the function`,
      );
    requireOwnPort(ctx, it);
    const unit = ctx.repo.begin();
    const next = serve(ctx, unit, it, version);
    return ctx.commit(unit, () => functions.answerOf(next, ctx.view));
  },
});

/** Whether a function serves or is about to, and else the version that a start lets serve; `undefined`: none was built. */
function startOf(
  view: TenantView,
  { desired, observed }: Fn,
): { isUnderWay: boolean; wanted: ReadonlyResource<'function_version'> | undefined } {
  const versionOf = (id: string | undefined) => (id === undefined ? undefined : view.get('function_version', id));
  const [target, known] = [versionOf(desired.version_id), versionOf(observed?.active_version_id)];
  const isBuilding = target !== undefined && !hasVersionEnded(target.observed?.phase);
  const isRefused = observed?.refused?.attempt === desired.attempt;
  const isReady = target?.observed?.phase === 'ready' && !isRefused;
  // one that was stopped stays so where what was deployed then is not built or does not start
  const isHeld = observed?.phase === 'stopped' && !isBuilding && !isReady;
  return {
    isUnderWay: desired.run === 'running' && !isHeld && (known !== undefined || isBuilding),
    // what was deployed last is to serve, unless it cannot
    wanted: isBuilding || isReady ? target : known,
  };
}

export const startFunction = defineEndpoint({
  method: 'POST',
  path: '/functions/:id/start',
  summary: 'Let the function run with the version that served last; deploys it if none was built',
  on: ['function', 'id'],
  heavy: true,
  response: FunctionObject,
  settle: functions.settle,
  handle: async (ctx, { it }) => {
    const { isUnderWay, wanted } = startOf(ctx.view, it);
    const unit = ctx.repo.begin();
    if (isUnderWay) return ctx.commit(unit, () => functions.answerOf(it, ctx.view));
    requireOwnPort(ctx, it);
    const next = wanted === undefined ? addVersion(ctx, unit, it) : serve(ctx, unit, it, wanted);
    return ctx.commit(unit, () => functions.answerOf(next, ctx.view));
  },
});

export const stopFunction = defineEndpoint({
  method: 'POST',
  path: '/functions/:id/stop',
  summary: 'Stop the function: neither requests nor its schedule call it',
  on: ['function', 'id'],
  response: FunctionObject,
  settle: functions.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const next = unit.change(it, (draft) => void (draft.run = 'stopped'));
    return ctx.commit(unit, () => functions.answerOf(next, ctx.view));
  },
});
