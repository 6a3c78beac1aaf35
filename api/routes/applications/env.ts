import { z } from 'zod';
import { variableLimits } from '../../../store/kinds/variables.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { badField } from '../../ground/api-error.ts';
import { maskEnv, sealEnv, unsealEnv } from '../../workloads/application-env.ts';
import { referencesIn } from '../../workloads/env-references.ts';
import { applications } from '../../resources/application.ts';
import { assign } from '../../resources/object-fields.ts';
import type { Settle } from '../../resources/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { addConfigDeployment } from '../../workloads/deploying.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { EnvValues } from '../../resources/fields.ts';
import { requireEnvRoom, requireServerRoom } from '../../workloads/server-room.ts';

const Env = z
  .object({
    env: z.record(z.string(), z.string()),
    masked: z.boolean(),
    deployment_id: z.string().nullable(),
    resource_version: z.string().meta({ description: 'Of the application, whose variables these are' }),
  })
  .meta({ id: 'Env' });

/** The variables in a body: `{ "env": { … } }`, or the map itself. */
const EnvBody = z.preprocess(unwrapped, EnvValues);
const EnvMerge = z.preprocess(
  unwrapped,
  z.record(EnvValues.keyType, EnvValues.valueType.nullable()).meta({ description: 'null removes a variable' }),
);

const envelopeOfEnv = new Set(Object.keys(Env.shape));

function unwrapped(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('env' in body)) return body;
  if (typeof body.env !== 'object' || body.env === null) return body;
  return Object.keys(body).every((name) => envelopeOfEnv.has(name)) ? body.env : body;
}

function envOf(
  { meta, desired }: ReadonlyResource<'application'>,
  env: Record<string, string>,
  masked = false,
): z.output<typeof Env> {
  const { deployment_id = null } = desired;
  return { env, masked, deployment_id, resource_version: String(meta.desiredRevision) };
}

/** Variables are settled once the deployment with them has ended; they stay what they are in the answer. */
const settleEnv: Settle<z.output<typeof Env>> = {
  isSettled: (view, id) => applications.settle?.isSettled(view, id) !== false,
  answer: () => undefined,
};

export const getEnv = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/env',
  summary: 'Environment variables; viewers see their names only',
  on: ['application', 'id'],
  givesSecrets: true,
  response: Env,
  handle: async (ctx, { it }) => {
    const { env } = it.desired.config;
    const masked = ctx.access.grant === 'm';
    return envOf(it, masked ? maskEnv(env) : unsealEnv(ctx, it.meta.id, env), masked);
  },
});

export const replaceEnv = defineEndpoint({
  method: 'PUT',
  path: '/applications/:id/env',
  summary: 'Replace all environment variables; a running application is rolled out with them',
  on: ['application', 'id'],
  body: EnvBody,
  response: Env,
  settle: settleEnv,
  handle: async (ctx, { it, body }) => writeEnv(ctx, it, body),
});

export const mergeEnv = defineEndpoint({
  method: 'PATCH',
  path: '/applications/:id/env',
  summary: 'Set the variables that are sent and keep the others; null removes one',
  on: ['application', 'id'],
  body: EnvMerge,
  givesSecrets: true,
  response: Env,
  settle: settleEnv,
  handle: async (ctx, { it, body }) => {
    const merged = { ...unsealEnv(ctx, it.meta.id, it.desired.config.env), ...body };
    const values = Object.entries(merged).filter((entry): entry is [string, string] => entry[1] !== null);
    if (values.length > variableLimits.count)
      throw badField('env', 'too_big', `Must have at most ${variableLimits.count} variables`);
    return writeEnv(ctx, it, Object.fromEntries(values));
  },
});

async function writeEnv(ctx: RequestContext, it: ReadonlyResource<'application'>, values: Record<string, string>) {
  const env = sealEnv(ctx, it.meta.id, values, it.desired.config.env);
  requireEnvRoom(env, it.desired.config.env);
  const references = referencesIn(ctx.view, it.desired.environment_id, values) ?? null;
  const unit = ctx.repo.begin();
  const changed = unit.change(it, (draft) => {
    draft.config.env = env;
    assign(draft.config, 'references', references);
  });
  requireServerRoom(ctx.view, [{ server: it.desired.server_id, desired: changed.desired, before: it.desired }], 'env');
  if (changed.desired.run === 'running') await addConfigDeployment(ctx, unit, it, changed.desired.config);
  return ctx.commit(unit, () => envOf(changed, values));
}
