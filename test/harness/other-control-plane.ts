import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import { installScript } from '../../api/pages/install-script.ts';

interface Options {
  /** What is sent as its executable. */
  content: () => NodeJS.ReadableStream | string;
  /** Called before that is sent. */
  asked?: () => Promise<void>;
  /** The address of this machine at which others reach it. */
  host?: string;
  /** Changes the script. */
  script?: (text: string) => string;
}

/** Serves the script that installs a release, and other bytes than those of the release if the test wants so. */
export async function otherControlPlane(
  manifest: ReleaseManifest,
  { content, asked, host = '127.0.0.1', script = (text) => text }: Options,
): Promise<{ url: string } & AsyncDisposable> {
  const send = async (path: string | undefined): Promise<NodeJS.ReadableStream | string> => {
    if (path === '/install.sh') return script(await installScript(manifest, url));
    await asked?.();
    return content();
  };
  const http = createServer((request, response) => {
    send(request.url).then(
      (body) => (typeof body === 'string' ? response.end(body) : body.pipe(response)),
      (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
    );
  });
  http.listen(0, host);
  await once(http, 'listening');
  const url = `http://${host}:${(http.address() as AddressInfo).port}`; // a TCP server has such an address
  return {
    url,
    async [Symbol.asyncDispose]() {
      const closed = once(http, 'close');
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}
