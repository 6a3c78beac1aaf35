import type { SealedValue } from '../../store/kinds/define.ts';
import type { BuildArgs } from '../../store/kinds/fields.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { RequestContext } from '../endpoint/context.ts';

type Env = Readonly<Record<string, SealedValue>>;
type Context = Pick<RequestContext, 'tenant' | 'sealer' | 'unsealer'>;

const envPath = 'config.env';
const buildArgsPath = 'source.build_args';
const buildSecretsPath = 'source.build_secrets';

/** Shown in place of a value to callers who may know the names of the variables, but not the values. */
const mask = '********';

/**
 * Seals variables for an application. An unchanged value keeps its ciphertext, so that writing the same value again
 * changes nothing.
 */
export function sealEnv(
  ctx: Context,
  applicationId: string,
  values: Readonly<Record<string, string>>,
  before: Env = {},
): Record<string, SealedValue> {
  return sealed(ctx, applicationId, envPath, values, before);
}

/** Seals variables for a function in the same way. */
export function sealFunctionEnv(
  ctx: Context,
  id: string,
  values: Readonly<Record<string, string>>,
  before: Env = {},
): Record<string, SealedValue> {
  return sealed(ctx, id, envPath, values, before, 'function');
}

/** Seals build arguments in the same way. Without `values` it returns those of before, with each plain one sealed. */
export function sealBuildArgs(
  ctx: Context,
  applicationId: string,
  values: Readonly<Record<string, string>> | undefined,
  before: DeepReadonly<BuildArgs> = {},
): Record<string, SealedValue> {
  if (values !== undefined) return sealed(ctx, applicationId, buildArgsPath, values, before);
  return Object.fromEntries(
    Object.entries(before).map(([name, value]) => [
      name,
      typeof value === 'string'
        ? ctx.sealer.seal(value, placeOf(ctx.tenant, applicationId, buildArgsPath, name))
        : value,
    ]),
  );
}

/** Seals build secrets in the same way; `undefined` where there are none. */
export function sealBuildSecrets(
  ctx: Context,
  applicationId: string,
  values: Readonly<Record<string, string>> | null | undefined,
  before: DeepReadonly<Record<string, SealedValue>> | undefined,
): Record<string, SealedValue> | undefined {
  if (values === undefined) return before && { ...before };
  if (values === null || Object.keys(values).length === 0) return undefined;
  return sealed(ctx, applicationId, buildSecretsPath, values, before ?? {});
}

function sealed(
  ctx: Context,
  applicationId: string,
  path: string,
  values: Readonly<Record<string, string>>,
  before: DeepReadonly<BuildArgs>,
  kind: Holder = 'application',
): Record<string, SealedValue> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const place = placeOf(ctx.tenant, applicationId, path, name, kind);
      const old = Object.hasOwn(before, name) ? before[name] : undefined;
      const same = typeof old === 'object' && ctx.unsealer.unseal(old, place) === value;
      return [name, same ? old : ctx.sealer.seal(value, place)];
    }),
  );
}

/** The kinds of objects that have variables. */
type Holder = 'application' | 'function';

/** @throws Error if a value cannot be unsealed; it never returns only a part of the variables. */
export function unsealEnv(ctx: Context, id: string, env: Env, kind: Holder = 'application'): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      ctx.unsealer.unseal(value, placeOf(ctx.tenant, id, envPath, name, kind)),
    ]),
  );
}

/** @throws Error if a value cannot be unsealed */
export function unsealBuildArgs(
  ctx: Context,
  applicationId: string,
  args: DeepReadonly<BuildArgs>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      typeof value === 'string'
        ? value
        : ctx.unsealer.unseal(value, placeOf(ctx.tenant, applicationId, buildArgsPath, name)),
    ]),
  );
}

export function maskEnv(env: Env): Record<string, string> {
  return Object.fromEntries(Object.keys(env).map((name) => [name, mask]));
}

const composeFilePath = 'source.compose_file';

/** Seals a compose file. The same text keeps its ciphertext. */
export function sealComposeFile(ctx: Context, id: string, text: string, before?: SealedValue): SealedValue {
  const place = { tenant: ctx.tenant, kind: 'application', id, path: composeFilePath };
  if (before !== undefined && ctx.unsealer.unseal(before, place) === text) return { ...before };
  return ctx.sealer.seal(text, place);
}

/** @throws Error if it cannot be unsealed */
export function composeFileOf(ctx: Context, id: string, file: SealedValue): string {
  return ctx.unsealer.unseal(file, { tenant: ctx.tenant, kind: 'application', id, path: composeFilePath });
}

function placeOf(tenant: string, id: string, path: string, name: string, kind: Holder = 'application'): SealPlace {
  return { tenant, kind, id, path: `${path}.${name}` };
}
