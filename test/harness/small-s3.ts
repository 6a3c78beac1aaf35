import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

/** What a client asks of the server, in the words of S3. */
export type S3Call =
  | 'PutObject'
  | 'GetObject'
  | 'ListObjectsV2'
  | 'DeleteObject'
  | 'CreateMultipartUpload'
  | 'ListMultipartUploads'
  | 'UploadPart'
  | 'ListParts'
  | 'CompleteMultipartUpload'
  | 'AbortMultipartUpload';

/** An answer in place of the right one: an error of S3, or what a broken service does. */
export type Instead =
  | {
      code: string;
      status: number;
      fields?: Readonly<Record<string, string>>;
      headers?: Readonly<Record<string, string>>;
    }
  | { body: string; status: number; headers?: Readonly<Record<string, string>> }
  | 'hang'
  | 'cut'
  | 'endless'
  | 'dribble';

/** A server on loopback that keeps objects in memory. It checks no signature: the contract with a real one is elsewhere. */
export interface SmallS3 extends AsyncDisposable {
  endpoint: string;
  /** `127.0.0.1:PORT`, as the settings of a tenant name it. */
  host: string;
  /** `/BUCKET/KEY` and what is there. */
  objects: Map<string, Buffer>;
  /** When an object was written, if that is not now, by its path. */
  written: Map<string, Date>;
  /** Uploads in parts that were begun and neither completed nor aborted. */
  uploads: Set<string>;
  /** Every call, in its order. */
  calls: { call: S3Call; path: string; headers: IncomingMessage['headers']; text: string }[];
  /** Answers the call otherwise; `undefined`: as it is right. */
  instead: (call: S3Call) => Instead | undefined;
  /** What the header `Date` of answers has beside the true time. */
  aheadMs: number;
}

export async function smallS3({ tls }: { tls?: { key: string; cert: string } } = {}): Promise<SmallS3> {
  const objects = new Map<string, Buffer>();
  const uploads = new Set<string>();
  const written = new Map<string, Date>();
  const parts = new Map<string, Buffer>();
  const calls: SmallS3['calls'] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://s3.test');
    const body = await bytesOf(request);
    const call = callOf(request.method ?? '', url);
    calls.push({ call, path: url.pathname, headers: request.headers, text: body.toString('utf8', 0, 4096) });
    response.setHeader('date', new Date(Date.now() + it.aheadMs).toUTCString());
    const instead = it.instead(call);
    if (instead !== undefined) {
      broken(instead, response);
      return;
    }
    const id = url.searchParams.get('uploadId') ?? '';
    const xml = (text: string): void => void response.setHeader('content-type', 'application/xml').end(text);
    switch (call) {
      case 'PutObject':
        objects.set(url.pathname, body);
        response.setHeader('etag', '"whole"').end();
        return;
      case 'GetObject':
        response.end(objects.get(url.pathname));
        return;
      case 'ListObjectsV2': {
        const prefix = `${url.pathname.replace(/\/$/, '')}/${url.searchParams.get('prefix') ?? ''}`;
        const found = [...objects.keys()].filter((path) => path.startsWith(prefix));
        const entries = found.map((path) => {
          const at = (written.get(path) ?? new Date()).toISOString();
          return `<Contents><Key>${path.split('/').slice(2).join('/')}</Key><LastModified>${at}</LastModified></Contents>`;
        });
        xml(`<ListBucketResult><KeyCount>${found.length}</KeyCount>${entries.join('')}</ListBucketResult>`);
        return;
      }
      case 'DeleteObject':
        objects.delete(url.pathname);
        response.writeHead(204).end();
        return;
      case 'CreateMultipartUpload': {
        const made = `upload-${calls.length}`;
        uploads.add(made);
        xml(`<InitiateMultipartUploadResult><UploadId>${made}</UploadId></InitiateMultipartUploadResult>`);
        return;
      }
      case 'UploadPart':
        parts.set(id, body);
        response.setHeader('etag', '"part"').end();
        return;
      case 'ListParts':
        xml('<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>"part"</ETag></Part></ListPartsResult>');
        return;
      case 'ListMultipartUploads':
        xml('<ListMultipartUploadsResult></ListMultipartUploadsResult>');
        return;
      case 'CompleteMultipartUpload':
        uploads.delete(id);
        objects.set(url.pathname, parts.get(id) ?? Buffer.alloc(0));
        xml('<CompleteMultipartUploadResult><ETag>"whole-1"</ETag></CompleteMultipartUploadResult>');
        return;
      case 'AbortMultipartUpload':
        uploads.delete(id);
        response.writeHead(204).end();
    }
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void =>
    void answer(request, response).catch(() => response.destroy());
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const it: SmallS3 = {
    endpoint: `${tls === undefined ? 'http' : 'https'}://${host}`,
    host,
    objects,
    written,
    uploads,
    calls,
    instead: () => undefined,
    aheadMs: 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return it;
}

function callOf(method: string, url: URL): S3Call {
  const { searchParams } = url;
  if (method === 'GET' && searchParams.has('uploadId')) return 'ListParts';
  if (method === 'GET' && searchParams.has('uploads')) return 'ListMultipartUploads';
  if (searchParams.has('uploadId'))
    return method === 'PUT' ? 'UploadPart' : method === 'POST' ? 'CompleteMultipartUpload' : 'AbortMultipartUpload';
  if (method === 'POST') return 'CreateMultipartUpload';
  if (method === 'PUT') return 'PutObject';
  if (method === 'DELETE') return 'DeleteObject';
  return searchParams.has('list-type') ? 'ListObjectsV2' : 'GetObject';
}

function broken(instead: Instead, response: ServerResponse): void {
  if (instead === 'hang') return;
  if (instead === 'cut') {
    response.destroy();
    return;
  }
  if (instead === 'dribble') {
    response.write('slowly'); // and no more
    return;
  }
  if (instead === 'endless') {
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536)));
    };
    response.on('drain', more);
    more();
    return;
  }
  response.writeHead(instead.status, instead.headers);
  if ('body' in instead) response.end(instead.body);
  else {
    const fields = Object.entries({ Code: instead.code, Message: 'sent-by-the-service', ...instead.fields });
    response.end(`<Error>${fields.map(([name, text]) => `<${name}>${text}</${name}>`).join('')}</Error>`);
  }
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
