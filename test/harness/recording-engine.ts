import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** A request as it reached the engine. */
export interface Recorded {
  method: string;
  /** Without the version of the API; with its query. */
  path: string;
  body: unknown;
}

interface Answer {
  status: number;
  body?: object;
}

/** An engine of API 1.41 that records what it is asked, and answers as the test defines. */
export interface RecordingEngine extends AsyncDisposable {
  socketPath: string;
  requests: readonly Recorded[];
}

/**
 * `answer` returns `undefined` for a request that it does not know: the engine answers 404. One that is `kept waiting` gets
 * no answer.
 */
export async function recordingEngine(
  answer: (request: Recorded) => Answer | 'hang up' | 'kept waiting' | undefined,
): Promise<RecordingEngine> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-recording-engine-'));
  const socketPath = join(folder, 'engine.sock');
  const requests: Recorded[] = [];
  const server = createServer((incoming, outgoing) => {
    void text(incoming).then((body) => {
      const path = (incoming.url ?? '').replace(/^\/v1\.\d+/, '');
      if (path === '/version') {
        outgoing.end(JSON.stringify({ Version: '20.10.24', ApiVersion: '1.41', MinAPIVersion: '1.12' }));
        return;
      }
      const request = { method: incoming.method ?? '', path, body: body === '' ? undefined : JSON.parse(body) };
      requests.push(request);
      const given = answer(request) ?? { status: 404, body: { message: 'not found' } };
      if (given === 'kept waiting') return;
      if (given === 'hang up') incoming.socket.destroy();
      else outgoing.writeHead(given.status).end(given.body === undefined ? '' : JSON.stringify(given.body));
    });
  });
  server.listen(socketPath);
  await once(server, 'listening');
  return {
    socketPath,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await rm(folder, { recursive: true });
    },
  };
}
