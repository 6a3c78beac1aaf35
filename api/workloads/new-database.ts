import { engines } from '../../databases/engines.ts';
import type { Configuration, Credentials, Engine } from '../../databases/engine.ts';
import type { SealedValue } from '../../store/kinds/define.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { given } from '../resources/object-fields.ts';
import type { DatabaseCreate } from '../resources/database.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { changedParameters, requireMemory } from './database-parameters.ts';
import { setEncryption } from './encryption.ts';
import { newInternalId } from './internal-id.ts';
import { setPooling } from './pooling.ts';

type Desired = DesiredOf<'database'>;
type PlaceIds = Pick<Desired, 'project_id' | 'environment_id' | 'server_id'>;
type Database = ReadonlyResource<'database'>;
type Context = Pick<RequestContext, 'tenant' | 'random' | 'sealer' | 'config'>;

/** Bytes of randomness of a generated password. */
const passwordBytes = 24;
const saltBytes = 16;

/**
 * The id and the desired state of a new database, whose volume has that id; `id` is its own, if it is there already and
 * declared anew. @throws ApiError BAD_REQUEST
 */
export function newDatabase(
  ctx: Context,
  place: PlaceIds,
  body: Omit<DatabaseCreate, keyof PlaceIds>,
  volumeId: string,
  id: string = ctx.random.id(),
): { id: string; desired: Desired } {
  const engine = engines[body.type];
  const version = body.version ?? engine.versions[0];
  if (!engine.versions.includes(version))
    throw badField('version', 'unknown', `Must be a version of ${engine.word}: ${engine.versions.join(', ')}`);
  const credentials = credentialsOf(ctx, engine, body);
  const parameters = changedParameters(body.type, undefined, body.parameters ?? null);
  requireMemory({ type: body.type, parameters, memory_limit: body.memory_limit ?? undefined });
  const chosen: Pick<Desired, 'type' | 'connection_pooling' | 'require_tls'> = { type: body.type };
  setPooling(chosen, body.connection_pooling);
  setEncryption(chosen, body.require_tls);
  return {
    id,
    desired: {
      ...place,
      name: body.name,
      internal_id: newInternalId(body.name, ctx.random),
      ...chosen,
      version,
      database_name: credentials.database,
      database_user: credentials.username,
      password: seal(ctx, id, 'password', credentials.password),
      config: { revision: 1, ...sealed(ctx, id, engine.configuration(credentials, version)) },
      ...given({
        image: ctx.config.engineImages[body.type]?.replaceAll('{version}', version),
        display_name: body.display_name,
        memory_limit: body.memory_limit,
        cpu_limit: body.cpu_limit,
        parameters,
        exposed_port: body.exposed_port,
      }),
      data_volume_id: volumeId,
      run: 'running',
    },
  };
}

/**
 * Gives a database another password. Its engine has the former one until it was started with the changed configuration, and
 * both are kept until then.
 */
export function changePassword(
  ctx: Context & Pick<RequestContext, 'unsealer'>,
  it: Database,
  draft: Desired,
  chosen: string | undefined,
): void {
  const { desired } = it;
  const { id } = it.meta;
  const { type, version } = desired;
  const engine = engines[type];
  const { passwordKeeper: keeper } = engine;
  if (keeper === undefined)
    throw conflicting(`The password of ${engine.word} cannot be changed yet: change it by its own tools`);
  const { password: former } = databaseCredentials(ctx, it);
  const password = chosen ?? generatedPassword(ctx);
  const credentials = { username: desired.database_user, password, database: desired.database_name };
  const { env, files } = engine.configuration(credentials, version);
  const kept = keeper.files(credentials, ctx.random.bytes(saltBytes));
  const revision = desired.config.revision + 1;
  draft.password = seal(ctx, id, 'password', password);
  draft.config = { revision, ...sealed(ctx, id, { env, files: { ...files, ...kept } }) };
  draft.rotation = { former: seal(ctx, id, 'rotation.former', former), revision };
}

/** Whether its engine has another password than the one that was asked for last. */
export function isRotating({ desired: { rotation }, observed }: Database): boolean {
  return rotation !== undefined && (observed?.config_revision ?? 0) < rotation.revision;
}

function credentialsOf(
  ctx: Context,
  { usual, username, database }: Engine,
  body: Pick<DatabaseCreate, 'database_user' | 'database_name' | 'password'>,
): Credentials {
  const chosen = {
    username: body.database_user ?? usual.username,
    database: body.database_name ?? usual.database,
    password: body.password ?? generatedPassword(ctx),
  };
  if (!username.pattern.test(chosen.username)) throw badField('database_user', 'invalid', username.fault);
  if (!database.pattern.test(chosen.database)) throw badField('database_name', 'invalid', database.fault);
  return chosen;
}

function generatedPassword({ random }: Pick<Context, 'random'>): string {
  return random.bytes(passwordBytes).toString('base64url');
}

function sealed(ctx: Context, id: string, { env, files }: Configuration): Omit<Desired['config'], 'revision'> {
  return {
    env: mapped(env, (name, value) => seal(ctx, id, `config.env.${name}`, value)),
    files: mapped(files, (path, text) => seal(ctx, id, `config.files.${path}`, Buffer.from(text).toString('base64'))),
  };
}

function mapped(
  values: Readonly<Record<string, string>>,
  by: (name: string, value: string) => SealedValue,
): Record<string, SealedValue> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, by(name, value)]));
}

function seal({ sealer, tenant }: Context, id: string, path: string, text: string): SealedValue {
  return sealer.seal(text, { tenant, kind: 'database', id, path });
}

/** Who uses a database, in plain text, with the password that its engine has. @throws Error if that does not open */
export function databaseCredentials(
  { unsealer, tenant }: Pick<RequestContext, 'unsealer' | 'tenant'>,
  it: Database,
): Credentials {
  const { desired } = it;
  const { rotation } = desired;
  const of = { tenant, kind: 'database', id: it.meta.id };
  const password =
    rotation !== undefined && isRotating(it)
      ? unsealer.unseal(rotation.former, { ...of, path: 'rotation.former' })
      : unsealer.unseal(desired.password, { ...of, path: 'password' });
  return { username: desired.database_user, password, database: desired.database_name };
}

/** Requires that so many more databases may be created in a project. @throws ApiError CONFLICT */
export function requireDatabaseRoom(view: TenantView, projectId: string, { adding }: { adding: number }): void {
  requireRoom(view.by('database', 'project', projectId).length + adding - 1, countLimits.databasesPerProject, {
    where: 'The project',
    what: 'databases',
    remedy: 'delete one that is not needed, or use another project',
  });
}
