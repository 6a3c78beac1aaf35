import { expect, test } from 'vitest';
import { systemClock } from '../../../agent-protocol/clock.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { containerSpec } from '../../../agent/service/container-spec.ts';
import type { ServiceItem } from '../../../agent/service/memory.ts';
import { testBuilds } from '../../harness/docker.ts';
import { recordingEngine } from '../../harness/recording-engine.ts';
import { network, service } from '../agent-world.ts';

const signal = (): AbortSignal => AbortSignal.timeout(10_000);
const made = 'c'.repeat(64);
const limits = { ...defaultContainerLimits, memoryBytes: 512 * 1024 * 1024, nanoCpus: 1_600_000_000 };

/** A service item of today whose container the engine is asked for. */
function item(spec: Parameters<typeof service>[1] = {}): ServiceItem {
  const id = '7c000000-0000-4000-8000-000000000000';
  return service({ id, tenant: 'default', workload_id: 'w'.repeat(8) }, spec) as ServiceItem;
}

/** What an engine was asked to make of it. */
async function created(it: ServiceItem): Promise<unknown> {
  await using engine = await recordingEngine(() => ({ status: 201, body: { Id: made } }));
  const { socketPath } = engine;
  using runtime = dockerRuntime({ socketPath, clock: systemClock, containers: limits, builds: testBuilds });
  const how = { server: 'server-1', name: 'sp-web-7c000000', image: `sha256:${'1'.repeat(64)}`, storageBytes: 10e9 };
  expect(await runtime.create(containerSpec(it, how), signal())).toBe(made);
  return engine.requests;
}

const ownLabels = {
  [labels.assignment]: '7c000000-0000-4000-8000-000000000000',
  [labels.generation]: '1',
  [labels.specHash]: 'hash-1',
  [labels.type]: 'service',
  [labels.workload]: 'wwwwwwww',
  [labels.tenant]: 'default',
  [labels.server]: 'server-1',
  [labels.storage]: '10000000000',
};

test('the container of a service without settings is asked for as ever, by one request', async () => {
  expect(await created(item())).toStrictEqual([
    {
      method: 'POST',
      path: '/containers/create?name=sp-web-7c000000',
      body: {
        Image: `sha256:${'1'.repeat(64)}`,
        Labels: { ...ownLabels, [labels.defaults]: '536870912 1600000000' },
        Env: ['GREETING=hello'],
        HostConfig: {
          NetworkMode: network,
          RestartPolicy: { Name: 'no' },
          PidsLimit: 4096,
          OomScoreAdj: 500,
          SecurityOpt: ['no-new-privileges:true'],
          CapDrop: ['NET_RAW', 'MKNOD'],
          LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
          Memory: 536_870_912,
          MemorySwap: 536_870_912,
          NanoCpus: 1_600_000_000,
        },
        NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: ['web-abc123'] } } },
      },
    },
  ]);
});

test('the container of a service with every setting is asked for as ever, by one request', async () => {
  const spec = {
    command: ['serve', '--port', '80'],
    env: { A: '1', B: 'two words' },
    memory_bytes: 64 * 1024 * 1024,
    nano_cpus: 250_000_000,
    restart_token: 'again',
    port: 80,
    publish_port: 8080,
    health: { path: '/healthz' },
  };
  expect(await created(item(spec))).toStrictEqual([
    {
      method: 'POST',
      path: '/containers/create?name=sp-web-7c000000',
      body: {
        Image: `sha256:${'1'.repeat(64)}`,
        Labels: { ...ownLabels, [labels.restartToken]: 'again' },
        Env: ['A=1', 'B=two words'],
        Cmd: ['serve', '--port', '80'],
        HostConfig: {
          NetworkMode: network,
          RestartPolicy: { Name: 'no' },
          PidsLimit: 4096,
          OomScoreAdj: 500,
          SecurityOpt: ['no-new-privileges:true'],
          CapDrop: ['NET_RAW', 'MKNOD'],
          LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
          Memory: 67_108_864,
          MemorySwap: 67_108_864,
          NanoCpus: 250_000_000,
        },
        NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: ['web-abc123'] } } },
      },
    },
  ]);
});
