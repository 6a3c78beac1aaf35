import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { grpcReader, grpcWrite } from './grpc.ts';
import { sendFiles, type SyncFolder } from './file-sync.ts';
import { readMessage, writeMessage } from './protobuf.ts';

/** What the engine may ask for while it builds. */
export interface SessionContent {
  /** The folder of that name; `undefined`: there is none. */
  folder(name: string, wanted: readonly string[]): SyncFolder | undefined;
  secret(id: string): Uint8Array | undefined;
  /** Called when a folder could not be sent: the engine only learns that the transfer broke. */
  failed(error: unknown): void;
}

const methods = {
  health: '/grpc.health.v1.Health/Check',
  files: '/moby.filesync.v1.FileSync/DiffCopy',
  secret: '/moby.buildkit.secrets.v1.Secrets/GetSecret',
} as const;

/** Codes of gRPC. */
const code = { ok: 0, notFound: 5, unimplemented: 12, internal: 13 } as const;
/** Longest question of the engine. */
const maxQuestionBytes = 64 * 1024;
/** `SERVING` */
const healthy = writeMessage([[1, 1]]);

/**
 * The headers that open a session. A folder that was sent under the same `sharedKey` is compared by name, size and
 * time, and its content used where these agree: so each session must have a key of its own.
 */
export function sessionHeaders(id: string, sharedKey: string): Record<string, string | string[]> {
  return {
    'x-docker-expose-session-uuid': id,
    'x-docker-expose-session-name': 'setpoint',
    'x-docker-expose-session-sharedkey': sharedKey,
    'x-docker-expose-session-grpc-method': Object.values(methods),
  };
}

/** Answers BuildKit on a connection that the engine has turned over to it, until that closes. */
export function serveSession(connection: Duplex, content: SessionContent): ServerHttp2Session {
  const session = performServerHandshake(connection);
  session.on('error', () => connection.destroy()); // the build fails by the engine's own answer
  session.on('stream', (stream, headers) => {
    stream.on('error', () => undefined); // the engine went away, or ended the call
    answer(stream, headers, content).catch((error: unknown) => {
      content.failed(error);
      end(stream, code.internal, 'The agent could not answer');
    });
  });
  return session;
}

async function answer(
  stream: ServerHttp2Stream,
  headers: Readonly<Record<string, unknown>>,
  content: SessionContent,
): Promise<void> {
  const path = headers[':path'];
  if (path === methods.health) return reply(stream, healthy);
  if (path === methods.secret) {
    const { value } = await grpcReader(stream, maxQuestionBytes).next();
    const id = value === undefined ? '' : readMessage(value).text(1);
    const secret = content.secret(id);
    if (secret === undefined) return end(stream, code.notFound, `secret ${id} not found`);
    return reply(stream, writeMessage([[1, secret]]));
  }
  if (path !== methods.files) return end(stream, code.unimplemented, 'unknown method');
  const folder = content.folder(valuesOf(headers['dir-name'])[0] ?? '', valuesOf(headers['followpaths']));
  if (folder === undefined) return end(stream, code.notFound, 'no such folder');
  begin(stream);
  await sendFiles(stream, folder);
  stream.end();
}

/** Values of a header that may come more than once. */
function valuesOf(header: unknown): string[] {
  if (Array.isArray(header)) return header.map(String);
  return typeof header === 'string' ? header.split(',').map((one) => one.trim()) : [];
}

async function reply(stream: ServerHttp2Stream, message: Buffer): Promise<void> {
  begin(stream);
  await grpcWrite(stream, message);
  stream.end();
}

function begin(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': `${code.ok}` }));
}

function end(stream: ServerHttp2Stream, status: number, message: string): void {
  if (stream.headersSent || stream.destroyed) return void stream.destroy();
  stream.respond(
    {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': `${status}`,
      'grpc-message': encodeURIComponent(message).replaceAll('%20', ' '),
    },
    { endStream: true },
  );
}
