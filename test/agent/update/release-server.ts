import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

/** A control plane that serves the release of a folder, and nothing else. */
export interface ReleaseServer extends AsyncDisposable {
  /** What an agent has as its `--server`. */
  readonly url: string;
  /** The paths that were asked for. */
  readonly asked: string[];
  /** Answers in place of the folder; it returns false for what the folder answers. */
  instead: (path: string, response: ServerResponse) => boolean;
}

export async function releaseServer(folder: string): Promise<ReleaseServer> {
  const http = createServer((request, response) => {
    const path = request.url ?? '';
    server.asked.push(path);
    if (server.instead(path, response)) return;
    const name = path === '/agent/manifest' ? 'manifest.json' : path.replace('/agent/', '');
    readFile(join(folder, name)).then(
      (content) => response.end(content),
      () => response.writeHead(404).end(),
    );
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const server: ReleaseServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/default`,
    asked: [],
    instead: () => false,
    async [Symbol.asyncDispose]() {
      const closed = once(http, 'close');
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
  return server;
}
