import type { Source } from '../../store/kinds/application.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { isAllowedRegistry, settingsOf } from '../../store/settings.ts';
import { badField } from '../ground/api-error.ts';
import { sealBuildArgs } from './application-env.ts';
import type { RequestContext } from '../endpoint/context.ts';
import type { ApplicationUpdate } from '../resources/application.ts';
import { registryOf } from '../resources/fields.ts';

type Context = Pick<RequestContext, 'tenant' | 'view' | 'sealer' | 'unsealer'>;
type Fields = Pick<
  ApplicationUpdate,
  | 'source_type'
  | 'repository_url'
  | 'branch'
  | 'dockerfile_path'
  | 'build_context'
  | 'build_args'
  | 'image_url'
  | 'compose_file'
  | 'compose_path'
>;

/**
 * The source that the flat fields describe, on top of the source `before`. @throws ApiError BAD_REQUEST for a field
 * that the type needs and that is missing, that belongs to another type, or that names a registry which the tenant does
 * not allow.
 */
export function sourceFrom(ctx: Context, applicationId: string, fields: Fields, before?: DeepReadonly<Source>): Source {
  const type = fields.source_type ?? before?.type;
  switch (type) {
    case 'image':
      refuse(fields, type, ['repository_url', 'branch', 'dockerfile_path', 'build_context', 'build_args']);
      return { type, image_url: imageUrl(ctx, fields, before?.type === 'image' ? before.image_url : undefined) };
    case 'git':
      refuse(fields, type, ['image_url']);
      return gitSource(ctx, applicationId, fields, before?.type === 'git' ? before : undefined);
    default:
      throw badField('source_type', 'unsupported', 'Compose sources are not served yet: use git or image');
  }
}

/** An unchanged image may name a registry that is no longer allowed: the server judges it at the next deployment. */
function imageUrl({ view }: Context, fields: Fields, before: string | undefined): string {
  const image = needed('image_url', fields, before);
  const registry = image === before ? undefined : registryOf(image);
  if (registry === undefined || isAllowedRegistry(settingsOf(view).registries, registry)) return image;
  const message = `Images of registry ${registry} are not allowed: a superadmin can allow it in the settings of the tenant`;
  throw badField('image_url', 'not_allowed', message);
}

function gitSource(
  ctx: Context,
  applicationId: string,
  fields: Fields,
  before: DeepReadonly<Extract<Source, { type: 'git' }>> | undefined,
): Source {
  const { build_context, build_args } = fields;
  return {
    type: 'git',
    repository_url: needed('repository_url', fields, before?.repository_url),
    branch: needed('branch', fields, before?.branch),
    dockerfile_path: needed('dockerfile_path', fields, before?.dockerfile_path),
    build_context: build_context === null ? '.' : (build_context ?? before?.build_context ?? '.'),
    build_args: build_args === null ? {} : sealBuildArgs(ctx, applicationId, build_args, before?.build_args),
  };
}

type TextField = 'repository_url' | 'branch' | 'dockerfile_path' | 'image_url';

function needed(field: TextField, fields: Fields, before: string | undefined): string {
  const value = fields[field] === undefined ? before : fields[field];
  if (value !== undefined && value !== null) return value;
  throw badField(field, 'required', `${field} is required for this source_type`);
}

/** Refuses values for another type of source, which would otherwise be dropped silently. */
function refuse(fields: Fields, type: string, names: readonly (keyof Fields)[]): void {
  for (const name of [...names, 'compose_file', 'compose_path'] as const) {
    if (fields[name] !== undefined && fields[name] !== null)
      throw badField(name, 'unsupported', `${name} does not belong to a source of type ${type}`);
  }
}
