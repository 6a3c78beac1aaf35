import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { ImportFile } from '../../agent-protocol/messages.ts';
import type { ImportedEngine } from '../../agent-protocol/messages.ts';
import { engines } from '../../databases/engines.ts';
import type { RestoreSource } from '../../store/kinds/restore.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { StreamedUpload } from '../http/streamed-upload.ts';
import { requireAgent } from './agent-capability.ts';
import { importInto, requireRestorable } from './restoring.ts';

type Database = ReadonlyResource<'database'>;

const lookMs = 30_000;

/**
 * Imports a dump that a client sends: its bytes go on to the server of the database as they come, and nothing is changed
 * unless all of them came. @throws ApiError; CallError
 */
export async function importUpload(ctx: RequestContext, database: Database, file: StreamedUpload) {
  const engine = importable(ctx, database);
  const { id, size } = await file.once(async (bytes) => {
    const made = { id: ctx.random.id(), size: 0 };
    const counted = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of bytes) {
        made.size += chunk.length;
        yield chunk;
      }
    };
    const { sizeBytes: size_bytes } = file;
    const params = { kind: 'import' as const, id: made.id, engine, ...(size_bytes !== undefined && { size_bytes }) };
    const { server_id: server } = database.desired;
    const sending = ctx.agents.duplex(ctx.tenant, server, params, counted(), { signal: ctx.signal() });
    // it has no output but its end
    for await (const _ of sending);
    return made;
  });
  return importInto(ctx, database, id, { by: 'upload', id, size_bytes: size });
}

/** Imports a dump that the server of the database fetches. @throws ApiError */
export async function importUrl(ctx: RequestContext, database: Database, url: string) {
  engineOf(ctx, database);
  const { server_id: server } = database.desired;
  const agent = ctx.view.agent(server);
  // one that is away fetches it later
  if (agent !== undefined) requireImports(agent);
  const { username, password, origin, pathname } = new URL(url);
  if (username !== '' || password !== '')
    throw badField('url', 'invalid', 'Must have no user and no password in it: sign the address, or send the dump');
  const id = ctx.random.id();
  const place = { tenant: ctx.tenant, kind: 'restore', id, path: 'source.address' };
  const source: RestoreSource = { by: 'url', address: ctx.sealer.seal(url, place), shown: `${origin}${pathname}` };
  return importInto(ctx, database, id, source);
}

/** Imports a file below the folder for imports of the server. @throws ApiError; CallError */
export async function importPath(ctx: RequestContext, database: Database, path: string) {
  const engine = importable(ctx, database);
  const call = { method: 'import.look' as const, path, engine };
  const { server_id: server } = database.desired;
  const found = await ctx.agents
    .call(ctx.tenant, server, call, { timeoutMs: lookMs, signal: ctx.signal() })
    .catch((error: unknown) => {
      if (error instanceof CallError && error.code === 'invalid_path') throw badField('path', 'invalid', error.message);
      throw error;
    });
  const { size_bytes } = answerOf(ImportFile, found);
  return importInto(ctx, database, ctx.random.id(), { by: 'path', path, size_bytes });
}

/** The engine, if it takes dumps and its server can be asked now. @throws ApiError CONFLICT, SERVICE_UNAVAILABLE */
function importable(ctx: RequestContext, database: Database): ImportedEngine {
  const engine = engineOf(ctx, database);
  requireImports(ctx.view.agent(database.desired.server_id));
  return engine;
}

function requireImports(agent: LiveAgent | undefined): void {
  requireAgent(agent, 'tasks.import', { lack: 'imports no dumps' });
}

/** The engine, if it takes dumps. @throws ApiError CONFLICT, also while another restore runs */
function engineOf({ view }: RequestContext, database: Database): ImportedEngine {
  const { type } = database.desired;
  if (type === 'mongodb')
    throw conflicting(
      `Setpoint imports no dumps into ${engines[type].word}: open a way to the database by setpoint db connect, and use mongorestore`,
    );
  requireRestorable(view, database);
  return type;
}
