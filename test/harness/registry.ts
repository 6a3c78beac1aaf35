import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';

/** A registry of one image on loopback, which engines accept without TLS. */
export interface TestRegistry extends AsyncDisposable {
  port: number;
  /** Reference of the image that it has. */
  image: string;
  digest: string;
  /** Reference of one that it does not have. */
  missing: string;
  /** Reference of one that it keeps to itself. */
  forbidden: string;
}

/** `given` is the layer of the image in place of one with a small file. It may be no layer as the image says it is. */
export async function testRegistry(given?: Buffer): Promise<TestRegistry> {
  const layer = given ?? (await layerOf('hello'));
  const config = Buffer.from(
    JSON.stringify({
      architecture: process.arch === 'x64' ? 'amd64' : process.arch,
      os: 'linux',
      config: { Cmd: ['/hello'] },
      rootfs: { type: 'layers', diff_ids: [digestOf(layer)] },
    }),
  );
  const manifestType = 'application/vnd.docker.distribution.manifest.v2+json';
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: described('application/vnd.docker.container.image.v1+json', config),
      layers: [described('application/vnd.docker.image.rootfs.diff.tar', layer)],
    }),
  );
  const blobs = new Map([config, layer].map((blob) => [digestOf(blob), blob]));
  const server = createServer((request, response) => {
    const [, version, , kind, name = ''] = (request.url ?? '').split('/');
    const answer = (status: number, type: string, body: Buffer | string): void => {
      const headers = {
        'content-type': type,
        'content-length': Buffer.byteLength(body),
        'docker-content-digest': digestOf(body),
      };
      response.writeHead(status, headers).end(request.method === 'HEAD' ? undefined : body);
    };
    const fail = (status: number, code: string): void =>
      answer(status, 'application/json', JSON.stringify({ errors: [{ code, message: code.toLowerCase() }] }));
    if (version !== 'v2') return fail(404, 'UNSUPPORTED');
    if (kind === undefined) return answer(200, 'application/json', '{}');
    if (request.url?.startsWith('/v2/forbidden/')) return fail(401, 'UNAUTHORIZED');
    const blob = blobs.get(name);
    if (kind === 'blobs' && blob) return answer(200, 'application/octet-stream', blob);
    if (kind === 'manifests' && request.url?.startsWith('/v2/hello/')) return answer(200, manifestType, manifest);
    return fail(404, 'MANIFEST_UNKNOWN');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a port
  const host = `127.0.0.1:${port}`;
  return {
    port,
    image: `${host}/hello:1`,
    digest: `${host}/hello@${digestOf(manifest)}`,
    missing: `${host}/missing:1`,
    forbidden: `${host}/forbidden:1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function layerOf(text: string): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name: 'hello', mode: 0o755, mtime: new Date(0) }, text);
  tar.finalize();
  return buffer(tar);
}

function described(mediaType: string, blob: Buffer): object {
  return { mediaType, size: blob.length, digest: digestOf(blob) };
}

function digestOf(data: Buffer | string): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}
