import { maxComposeBytes } from '../../store/kinds/composed-service.ts';
import type { RunConfig, Source } from '../../store/kinds/application.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import { isAllowedRegistry, settingsOf } from '../../store/settings.ts';
import { badField } from '../ground/api-error.ts';
import { sealBuildArgs, sealBuildSecrets, sealComposeFile } from './application-env.ts';
import type { RequestContext } from '../endpoint/context.ts';
import type { ApplicationUpdate } from '../resources/application.ts';
import { registryOf } from '../resources/fields.ts';
import { given } from '../resources/object-fields.ts';

type Context = Pick<RequestContext, 'tenant' | 'view' | 'sealer' | 'unsealer'>;
type Fields = Pick<
  ApplicationUpdate,
  | 'source_type'
  | 'repository_url'
  | 'branch'
  | 'dockerfile_path'
  | 'build_context'
  | 'build_args'
  | 'build_secrets'
  | 'git_credential_id'
  | 'submodules'
  | 'image_url'
  | 'compose_file'
  | 'compose_path'
  | 'compose_service'
  | 'start_command'
  | 'restart_policy'
  | 'memory_limit'
  | 'cpu_limit'
  | 'shm_size'
  | 'pids_limit'
  | 'ulimits'
>;

const ofRepositories: readonly (keyof Fields)[] = [
  'repository_url',
  'branch',
  'dockerfile_path',
  'build_context',
  'build_args',
  'build_secrets',
  'git_credential_id',
  'submodules',
];
const ofComposeFiles: readonly (keyof Fields)[] = ['compose_file', 'compose_path', 'compose_service'];
/** What a build needs. Services of a compose file have it in their file. */
const ofBuilds: readonly (keyof Fields)[] = ['dockerfile_path', 'build_context', 'build_args', 'build_secrets'];
const ofComposeRepositories: readonly (keyof Fields)[] = ['repository_url', 'branch', 'git_credential_id'];
/** What clients send with each source as a matter of form. It is not taken where the type has no use for it. */
const formal: readonly (keyof Fields)[] = ['branch', 'dockerfile_path', 'build_context'];
/** What each service of a compose file has for itself. */
const ofServices: readonly (keyof Fields & keyof RunConfig)[] = [
  'start_command',
  'restart_policy',
  'memory_limit',
  'cpu_limit',
  'shm_size',
  'pids_limit',
  'ulimits',
];

/** What an application has before a request. A new one has its defaults, and no source. */
interface Present {
  config: DeepReadonly<RunConfig>;
  source?: DeepReadonly<Source>;
}

/**
 * The source that the flat fields describe, on top of the one of before. With a compose file, what each service has for
 * itself is taken as the application shows it, so that an answer can be sent back. @throws ApiError BAD_REQUEST for a
 * field that the type needs and that is missing, that belongs to another type, or that names a registry which the tenant
 * does not allow.
 */
export function sourceFrom(
  ctx: Context,
  applicationId: string,
  fields: Fields,
  { config, source: before }: Present,
): Source {
  const type = fields.source_type ?? before?.type;
  switch (type) {
    case 'image':
      refuse(fields, type, [...ofRepositories, ...ofComposeFiles]);
      return { type, image_url: imageUrl(ctx, fields, before?.type === 'image' ? before.image_url : undefined) };
    case 'git':
      refuse(fields, type, ['image_url', ...ofComposeFiles]);
      return gitSource(ctx, applicationId, fields, before?.type === 'git' ? before : undefined);
    case 'compose':
      refuse(fields, type, [
        ...ofBuilds,
        'image_url',
        ...ofServices.filter((it) => !jsonEqual(fields[it], config[it])),
      ]);
      return composeSource(ctx, applicationId, fields, before?.type === 'compose' ? before : undefined);
    default:
      throw badField('source_type', 'required', 'source_type is required: git, image or compose');
  }
}

type ComposeSource = Extract<Source, { type: 'compose' }>;

/** The file is a text, or in a repository. Without a text the one of before stays, as no answer has it. */
function composeSource(
  ctx: Context,
  applicationId: string,
  fields: Fields,
  before: DeepReadonly<ComposeSource> | undefined,
): Source {
  const { compose_file: text, compose_path: path, compose_service } = fields;
  const service = compose_service === undefined ? before?.compose_service : (compose_service ?? undefined);
  const isText = typeof text === 'string';
  if (isText && typeof path === 'string')
    throw badField(
      'compose_path',
      'unsupported',
      'Give the compose file as compose_file or as compose_path, not as both',
    );
  const isInRepository =
    !isText && (typeof path === 'string' || (path === undefined && before?.repository !== undefined));
  const file = isInRepository
    ? { repository: composeRepository(fields, before?.repository) }
    : { compose_file: composeText(ctx, applicationId, fields, before) };
  return { type: 'compose', ...file, ...(service !== undefined && { compose_service: service }) };
}

function composeText(
  ctx: Context,
  applicationId: string,
  fields: Fields,
  before: DeepReadonly<ComposeSource> | undefined,
): NonNullable<ComposeSource['compose_file']> {
  const { compose_file: text } = fields;
  for (const name of ofComposeRepositories)
    if (fields[name] !== undefined && fields[name] !== null && !isFormal(fields, name))
      throw badField(name, 'unsupported', `${name} belongs to a compose file in a repository: name it as compose_path`);
  if (typeof text === 'string' && Buffer.byteLength(text) > maxComposeBytes)
    throw badField('compose_file', 'limit', `compose_file must be at most ${maxComposeBytes / 1024} KiB`);
  if (typeof text === 'string') return sealComposeFile(ctx, applicationId, text, before?.compose_file);
  if (before?.compose_file !== undefined) return { ...before.compose_file };
  throw badField('compose_file', 'required', 'compose_file or compose_path is required for this source_type');
}

function composeRepository(
  fields: Fields,
  before: DeepReadonly<ComposeSource>['repository'],
): NonNullable<ComposeSource['repository']> {
  const { git_credential_id = before?.git_credential_id } = fields;
  return {
    repository_url: needed('repository_url', fields, before?.repository_url),
    branch: needed('branch', fields, before?.branch),
    compose_path: needed('compose_path', fields, before?.compose_path),
    ...given({ git_credential_id }),
  };
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
  const {
    build_context,
    build_args,
    submodules = before?.submodules,
    git_credential_id = before?.git_credential_id,
  } = fields;
  return {
    type: 'git',
    repository_url: needed('repository_url', fields, before?.repository_url),
    branch: needed('branch', fields, before?.branch),
    dockerfile_path: needed('dockerfile_path', fields, before?.dockerfile_path),
    build_context: build_context === null ? '.' : (build_context ?? before?.build_context ?? '.'),
    build_args: build_args === null ? {} : sealBuildArgs(ctx, applicationId, build_args, before?.build_args),
    ...given({
      build_secrets: sealBuildSecrets(ctx, applicationId, fields.build_secrets, before?.build_secrets),
      git_credential_id,
      submodules: submodules === true ? submodules : undefined,
    }),
  };
}

type TextField = 'repository_url' | 'branch' | 'dockerfile_path' | 'image_url' | 'compose_path';

function needed(field: TextField, fields: Fields, before: string | undefined): string {
  const value = fields[field] === undefined ? before : fields[field];
  if (value !== undefined && value !== null) return value;
  throw badField(field, 'required', `${field} is required for this source_type`);
}

/** A request that names the type says all of a source; one that does not wants to change the field. */
function isFormal({ source_type }: Fields, name: keyof Fields): boolean {
  return typeof source_type === 'string' && formal.includes(name);
}

/** Refuses values for another type of source, which would otherwise be dropped silently. */
function refuse(fields: Fields, type: string, names: readonly (keyof Fields)[]): void {
  for (const name of names) {
    if (fields[name] === undefined || fields[name] === null || isFormal(fields, name)) continue;
    const message = ofServices.some((it) => it === name)
      ? `${name} belongs to a service of the compose file: write it there`
      : `${name} does not belong to a source of type ${type}`;
    throw badField(name, 'unsupported', message);
  }
}
