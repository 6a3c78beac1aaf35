import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

/** What goes wrong with one request, in place of the right answer. */
export type Fault =
  /** The connection ends before an answer, after the request was read, or after a part of the answer. */
  | 'cut'
  | 'cut-late'
  /** No answer ever comes. */
  | 'hang'
  /** The bucket keeps other bytes than were sent, and says so by its ETag. */
  | 'other-etag'
  | { status: number; code?: string };

/** Takes parts by PUT of `/part/NUMBER`, and gives one object by GET of `/object`. Each fault happens once, in this order. */
export interface PartServer extends AsyncDisposable {
  endpoint: string;
  parts: Map<number, Buffer>;
  object: Buffer;
  faults: (Fault | undefined)[];
  /** Header of answers to PUT. */
  headers: Record<string, string>;
  /** Requests that came; `onRequest` is called with each. */
  requests: number;
  onRequest: () => void;
  readonly connections: Promise<number>;
}

export async function partServer(tls?: { key: string; cert: string }): Promise<PartServer> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    it.requests += 1;
    it.onRequest();
    const fault = it.faults.shift();
    if (fault === 'hang') return;
    if (fault === 'cut') {
      request.socket.destroy();
      return;
    }
    if (typeof fault === 'object') {
      // a service that refuses does not wait for what it refuses
      response
        .writeHead(fault.status)
        .end(`<Error><Code>${fault.code ?? 'Some'}</Code><Signed>secret</Signed></Error>`);
      return;
    }
    if (request.method === 'PUT') await take(request, response, fault);
    else give(request, response, fault);
  };
  const take = async (request: IncomingMessage, response: ServerResponse, fault: Fault | undefined): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const md5 = createHash('md5').update(body).digest();
    if (request.headers['content-md5'] !== md5.toString('base64')) {
      response.writeHead(400).end('<Error><Code>BadDigest</Code></Error>');
      return;
    }
    it.parts.set(Number(request.url?.split('/')[2]?.split('?')[0]), body);
    if (fault === 'cut-late') request.socket.destroy();
    else {
      const etag = fault === 'other-etag' ? createHash('md5').update('other').digest('hex') : md5.toString('hex');
      response.writeHead(200, { etag: `"${etag}"`, ...it.headers }).end();
    }
  };
  const give = (request: IncomingMessage, response: ServerResponse, fault: Fault | undefined): void => {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const body = it.object.subarray(from);
    response.writeHead(request.headers.range === undefined ? 200 : 206, {
      'content-length': body.length,
      ...(request.headers.range !== undefined && {
        'content-range': `bytes ${from}-${it.object.length - 1}/${it.object.length}`,
      }),
    });
    if (fault !== 'cut-late') response.end(body);
    else if (body.length === 0) response.destroy();
    else response.write(body.subarray(0, Math.ceil(body.length / 2)), () => response.destroy());
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    request.on('error', () => undefined);
    void answer(request, response).catch(() => response.destroy());
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const it: PartServer = {
    endpoint: tls === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`,
    parts: new Map(),
    object: Buffer.alloc(0),
    faults: [],
    headers: {},
    requests: 0,
    onRequest: () => undefined,
    get connections() {
      return new Promise<number>((resolve, reject) =>
        server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
      );
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return it;
}
