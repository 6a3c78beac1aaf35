import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { testDocker, type TestDocker } from '../../harness/docker.ts';

let docker: TestDocker;
beforeAll(async () => {
  docker = await testDocker();
});
afterAll(() => docker[Symbol.asyncDispose]());

test.each([404, 500])(
  'SEC-10 what a service answers that is no registry reaches nobody by a pull: %i',
  async (status) => {
    const secret = `CANARY-${status}`;
    await using server = Object.assign(
      createServer((_request, response) => {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(
          JSON.stringify({
            errors: [{ code: secret, message: secret.repeat(60_000) }],
            message: secret.repeat(60_000),
          }),
        );
      }).listen(0, '127.0.0.1'),
      {
        [Symbol.asyncDispose]() {
          server.closeAllConnections();
          server.close();
          return once(server, 'close').then(() => undefined);
        },
      },
    );
    await once(server, 'listening');
    const image = `127.0.0.1:${(server.address() as AddressInfo).port}/x:1`;
    const failed: unknown = await docker.runtime.pull(image, AbortSignal.timeout(60_000)).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failed).toBeInstanceOf(RuntimeFailure);
    expect(String(failed)).toContain(`Cannot pull image ${image}: registry ${image.split('/')[0]!} `);
    expect(String(failed)).not.toContain(secret);
    // The agent's log has causes whole.
    let chars = 0;
    for (let cause = failed; cause instanceof Error; cause = cause.cause) chars += cause.message.length;
    expect(chars).toBeLessThan(4000);
  },
);
