import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeSample } from '../../../agent-protocol/metrics.ts';
import type { ServerSample } from '../../../agent-protocol/metrics.ts';
import { encodeTraffic } from '../../../agent-protocol/traffic.ts';
import type { TrafficSample } from '../../../agent-protocol/traffic.ts';
import { keys } from '../../../store/keys.ts';
import { isDeleting } from '../../../store/resource.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { desiredState } from '../../harness/states.ts';
import { until } from '../../harness/until.ts';

let world: GatewayWorld;
let holder: TestReplica;
let other: TestReplica;
let backend: FakeBackend;
let server: { id: string; token: string };

beforeEach(async () => {
  world = await GatewayWorld.start();
  holder = await world.replica();
  other = await world.replica();
  backend = new FakeBackend();
  server = await world.server();
  await world.agent(holder, server, backend);
  await world.connected(holder, server.id);
  await world.connected(other, server.id);
  await eventually(other.mirror, () => other.mirror.key(keys.replica(holder.id)));
});
afterEach(() => world[Symbol.asyncDispose]());

const sample = (at: number): ServerSample => ({ at, cores: 2, values: { cpu_percent: at } });

describe.each(['held here', 'held by another replica'])('the samples of an agent that is %s', (where) => {
  const replica = (): TestReplica => (where === 'held here' ? holder : other);

  it('arrive as they are measured, until the reader leaves', async () => {
    const left = Promise.withResolvers<void>();
    backend.onStream = async function* (params, signal) {
      expect(params).toEqual({ kind: 'metrics' });
      signal.addEventListener('abort', () => left.resolve(), { once: true });
      yield encodeSample(sample(1));
      yield Buffer.concat([encodeSample(sample(2)), encodeSample(sample(3)).subarray(0, 10)]);
      yield encodeSample(sample(3)).subarray(10);
      await left.promise;
    };
    const stop = new AbortController();
    const found: ServerSample[] = [];
    for await (const one of replica().gateway.samples(tenant, server.id, { signal: stop.signal })) {
      found.push(one);
      if (found.length === 3) break;
    }
    expect(found).toEqual([sample(1), sample(2), sample(3)]);
    await left.promise;
  });

  it.each([
    ['something else', 'not JSON\n'],
    ['a sample without end', 'x'.repeat(10_000)],
  ])('are an error if the agent sends %s', async (_, text) => {
    backend.onStream = async function* () {
      yield Buffer.from(text);
    };
    const { signal } = new AbortController();
    const samples = replica().gateway.samples(tenant, server.id, { signal })[Symbol.asyncIterator]();
    await expect(samples.next()).rejects.toMatchObject({ code: 'malformed' });
  });
});

describe.each(['held here', 'held by another replica'])('the traffic from an agent that is %s', (where) => {
  const replica = (): TestReplica => (where === 'held here' ? holder : other);
  const counts = {
    requests: 1,
    status: { '1xx': 0, '2xx': 1, '3xx': 0, '4xx': 0, '5xx': 0 },
    latency_ms: { p50: 1, p95: 1, p99: 1 },
    bytes_in: 0,
    bytes_out: 5,
    refused: { unavailable: 0, unauthorized: 0, body_too_large: 0 },
    aborted: 0,
    cut: 0,
  };
  const window = (at: number): TrafficSample => ({ at, complete: true, ...counts, instances: [] });

  it('arrives window by window, of the workload that is asked for', async () => {
    backend.onStream = async function* (params) {
      expect(params).toEqual({ kind: 'traffic', workload: 'w' });
      const both = Buffer.concat([encodeTraffic(window(5000)), encodeTraffic(window(10_000))]);
      yield both.subarray(0, 20);
      yield both.subarray(20);
    };
    const { signal } = new AbortController();
    const found: TrafficSample[] = [];
    for await (const one of replica().gateway.traffic(tenant, server.id, 'w', { signal })) found.push(one);
    expect(found).toEqual([window(5000), window(10_000)]);
  });

  it('is an error if the agent sends something else', async () => {
    backend.onStream = async function* () {
      yield Buffer.from('{"at":1}\n');
    };
    const { signal } = new AbortController();
    const stream = replica().gateway.traffic(tenant, server.id, 'w', { signal })[Symbol.asyncIterator]();
    await expect(stream.next()).rejects.toMatchObject({ code: 'malformed' });
  });
});

describe('the metrics of a replica', () => {
  const shown = async (replica: TestReplica): Promise<string[]> =>
    (await replica.registry.metrics()).split('\n').filter((line) => line.startsWith('setpoint_server_'));

  it('show the servers whose agents it holds, as long as it does', async () => {
    const name = holder.mirror.tenant(tenant).get('server', server.id)?.desired.name;
    const labels = `{tenant="${tenant}",server="${server.id}",name="${name}"}`;
    await until('a beat has come', async () => (await shown(holder)).length > 1);
    const load = backend.load();
    expect(await shown(holder)).toEqual([
      `setpoint_server_connected${labels} 1`,
      `setpoint_server_cpu_ratio${labels} ${load.cpu_percent / 100}`,
      `setpoint_server_cpu_cores${labels} ${load.cores}`,
      `setpoint_server_memory_used_bytes${labels} ${load.memory_used_bytes}`,
      `setpoint_server_memory_total_bytes${labels} ${load.memory_total_bytes}`,
      `setpoint_server_disk_used_bytes${labels} ${load.disk_used_bytes}`,
      `setpoint_server_disk_total_bytes${labels} ${load.disk_total_bytes}`,
      `setpoint_server_network_receive_bytes_per_second${labels} ${load.network_rx_bps}`,
      `setpoint_server_network_transmit_bytes_per_second${labels} ${load.network_tx_bps}`,
    ]);
    expect(await shown(other)).toEqual([]);
    await holder[Symbol.asyncDispose]();
    expect(await shown(holder)).toEqual([]);
  });

  it('show at every replica how many servers have lost their agent, and no other server', async () => {
    const lost = async (replica: TestReplica): Promise<string[]> =>
      (await replica.registry.metrics()).split('\n').filter((line) => line.startsWith('setpoint_servers_lost{'));
    const of = (count: number): string[] => [`setpoint_servers_lost{tenant="${tenant}"} ${count}`];
    await world.server(); // no agent ever joined it
    expect(await lost(other)).toEqual(of(0));
    await holder[Symbol.asyncDispose]();
    await eventually(other.mirror, () => other.mirror.tenant(tenant).agent(server.id) === undefined);
    expect(await lost(other)).toEqual(of(1));
    await world.delete('server', server.id);
    await eventually(other.mirror, () => {
      const it = other.mirror.tenant(tenant).get('server', server.id);
      return it === undefined || isDeleting(it);
    });
    expect(await lost(other)).toEqual(of(0));
  });

  it('show what the workloads of these servers use, and nothing that an agent says of others', async () => {
    const [mine, elsewhere] = [randomUUID(), randomUUID()];
    await world.create('application', mine, desiredState('application', { server_id: server.id, name: 'web' }));
    await world.create('application', elsewhere, desiredState('application', { server_id: randomUUID() }));
    const values = { cpu_percent: 150, memory_used_bytes: 1000, network_tx_bps: 7 };
    const load = { ...backend.load() };
    backend.load = () => {
      const workloads = [mine, elsewhere, randomUUID()].map((id) => ({ workload_id: id, instances: 2, values }));
      return { ...load, workloads };
    };
    const shownOfWorkloads = async () =>
      (await holder.registry.metrics()).split('\n').filter((line) => line.startsWith('setpoint_workload_'));
    await until('a beat has come', async () => (await shownOfWorkloads()).length > 1);
    const labels = `{tenant="${tenant}",server="${server.id}",kind="application",workload="${mine}",name="web"}`;
    expect(await shownOfWorkloads()).toEqual([
      `setpoint_workload_instances${labels} 2`,
      `setpoint_workload_cpu_cores${labels} 1.5`,
      `setpoint_workload_memory_used_bytes${labels} 1000`,
      `setpoint_workload_network_transmit_bytes_per_second${labels} 7`,
    ]);
  });
});
