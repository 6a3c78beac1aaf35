import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../time/clock.ts';
import type { BuildLimits } from '../../agent/runtime/docker/build.ts';
import { defaultContainerLimits, dockerRuntime } from '../../agent/runtime/docker/docker-runtime.ts';
import { labels, type ContainerRuntime, type ContainerSpec } from '../../agent/runtime/runtime.ts';

/** The engine that tests run against; a test that needs it fails where there is none. */
export const engineSocket = '/var/run/docker.sock';

/** Room for the builds of all tests, but not for a fork bomb. */
export const testBuilds: BuildLimits = {
  memoryBytes: 1024 ** 3,
  cpuShares: 512,
  group: { name: 'setpoint-test-builds', pids: 300, memoryBytes: 1.5 * 1024 ** 3, cpus: 2 },
};

/** A runtime on the real engine, and an owner whose containers, networks and images go when it is disposed. */
export interface TestDocker extends AsyncDisposable {
  runtime: ContainerRuntime;
  /** Value of `labels.server` on all that belongs to this test. */
  server: string;
  /** Has `labels.server` and exists. */
  network: string;
  /** A container spec with the test's labels, a name of its own and these changes. */
  spec(changes: Partial<ContainerSpec> & Pick<ContainerSpec, 'image'>): ContainerSpec;
}

export async function testDocker(): Promise<TestDocker> {
  const server = randomUUID();
  const network = `sp-${server.replaceAll('-', '').slice(0, 12)}`;
  const runtime = dockerRuntime({
    socketPath: engineSocket,
    clock: systemClock,
    containers: defaultContainerLimits,
    builds: testBuilds,
  });
  const own = { [labels.server]: server };
  await runtime.ensureNetwork(network, own, deadline());
  return {
    runtime,
    server,
    network,
    spec: (changes) => ({
      name: `sp-test-${randomUUID().slice(0, 8)}`,
      env: {},
      networks: [{ name: network, aliases: ['test'] }],
      restart: 'no',
      ...changes,
      labels: { ...own, ...changes.labels },
    }),
    async [Symbol.asyncDispose]() {
      for (const { id } of await runtime.list(server, deadline())) await runtime.remove(id, deadline());
      for (const name of await runtime.networks(own, deadline())) await runtime.removeNetwork(name, deadline());
      for (const { name } of await runtime.volumes(own, deadline())) await runtime.removeVolume(name, {}, deadline());
      for (const { id } of await runtime.images(own, deadline())) await runtime.removeImage(id, deadline());
      runtime[Symbol.dispose]();
    },
  };
}

/** Long enough for a loaded machine. */
function deadline(): AbortSignal {
  return AbortSignal.timeout(60_000);
}

/**
 * What only tests ask of the engine, past the runtime. Answers with the parsed body.
 * @throws Error with the engine's text for a status of 400 and above.
 */
export function engineCall(method: string, path: string, body?: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'engine', 'content-type': 'application/json' };
    const outgoing = request({ socketPath: engineSocket, method, path: `/v1.41${path}`, headers });
    outgoing.on('error', reject);
    outgoing.on('response', (answer) => {
      text(answer).then((body) => {
        if ((answer.statusCode ?? 0) >= 400) reject(new Error(`${method} ${path}: ${body}`));
        else resolve(body === '' ? undefined : JSON.parse(body));
      }, reject);
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
