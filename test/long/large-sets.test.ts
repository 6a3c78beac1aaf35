import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { maxControlFrameBytes } from '../../agent-protocol/codec.ts';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { running } from '../harness/fake-backend.ts';
import { eventually } from '../harness/eventually.ts';
import { GatewayWorld, tenant } from '../harness/gateway-world.ts';
import type { TestReplica } from '../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../harness/raw-agent.ts';
import type { AgentKey, RawAgent } from '../harness/raw-agent.ts';
import { until } from '../harness/until.ts';

const replicas = 100;
const timeoutMs = 120_000;

let world: GatewayWorld;
let replica: TestReplica;
beforeAll(async () => {
  world = await GatewayWorld.start();
});
afterAll(() => world[Symbol.asyncDispose]());

/** A record in the form of the first release. */
async function write(kind: 'deployment' | 'assignment', id: string, desired: object): Promise<void> {
  const value = JSON.stringify({
    v: 1,
    generation: 1,
    createdAt: '2030-01-01T00:00:00.000Z',
    updatedAt: '2030-01-01T00:00:00.000Z',
    finalizers: [],
    owners: [],
    labels: {},
    desired,
  });
  await world.store.txn({ if: [], then: [{ put: keys.desired(tenant, kind, id), value }] });
}

/** An application as the first release stored it: every instance has all variables in its record. */
async function application(server: string, name: string, bytes: number, count: number): Promise<string[]> {
  const [workload, deployment] = [randomUUID(), randomUUID()];
  const env = Object.fromEntries(
    Array.from({ length: Math.ceil(bytes / 30_000) }, (_, n) => {
      const path = `config.env.V${n}`;
      const place = { tenant, kind: 'application', id: workload, path };
      return [`V${n}`, world.keyring.seal(name.repeat(30_000 / name.length), place)];
    }),
  );
  await write('deployment', deployment, {
    application_id: workload,
    project_id: randomUUID(),
    environment_id: randomUUID(),
    server_id: server,
    number: 1,
    trigger: 'manual',
    source: { type: 'image', image_url: 'example/web:1' },
    config: { env },
    queued_at: '2030-01-01T00:00:00.000Z',
  });
  const ids = Array.from({ length: count }, () => randomUUID());
  for (const [slot, id] of ids.entries())
    await write('assignment', id, {
      server_id: server,
      project_id: randomUUID(),
      environment_id: randomUUID(),
      workload_kind: 'application',
      workload_id: workload,
      workload_name: 'web',
      deployment_id: deployment,
      run: 'running',
      spec_hash: 'hash-1',
      spec: {
        type: 'service',
        slot,
        image: 'example/web:1',
        env,
        restart_policy: 'always',
        network: 'n',
        alias: 'web',
      },
    });
  return ids;
}

/** An agent on a socket; `seen` says what came, and how large. */
function connect(server: { id: string; key: AgentKey; token?: string }, capabilities: readonly string[]) {
  const seen = { frames: 0, largest: 0, bytes: 0 };
  const { id, key, token } = server;
  const agent: RawAgent = rawAgent(replica.url, {
    server: id,
    key,
    capabilities,
    ...(token !== undefined && { token }),
  });
  agent.backend.onPut = running;
  agent.socket.on('message', (data) => {
    const { length } = data as Buffer;
    seen.frames++;
    seen.bytes += length;
    seen.largest = Math.max(seen.largest, length);
  });
  return { agent, seen };
}

describe.each([
  ['that does not know configurations', []],
  ['that knows configurations', agentCapabilities],
] as const)('an agent %s', (_, capabilities) => {
  it(
    'is told of two applications of 450 KB × 100 instances of an earlier release, and of a small neighbour beside them',
    async () => {
      const server = await world.server();
      const first = await application(server.id, 'a', 450_000, replicas);
      replica = await world.replica();
      const key = agentKey();
      const { agent, seen } = connect({ ...server, key }, capabilities);
      await until('the first application came', async () => first.every((id) => agent.backend.items.has(id)), {
        timeoutMs,
      });
      // The second comes while the session is up: by what changes, and by a snapshot if it is much at once.
      const second = await application(server.id, 'b', 450_000, replicas);
      const [small] = await application(server.id, 'c', 30_000, 1);
      const view = replica.mirror.tenant(tenant);
      await eventually(replica.mirror, () => view.get('assignment', small!)?.observed?.ready, { timeoutMs });
      await until('all came', async () => agent.backend.items.size === 2 * replicas + 1, { timeoutMs });
      expect(agent.backend.envOf(first[99]!)).toMatchObject({ V14: 'a'.repeat(30_000) });
      expect(agent.backend.envOf(second[99]!)).toMatchObject({ V14: 'b'.repeat(30_000) });
      expect(await Promise.race([agent.ended, Promise.resolve('still up')])).toBe('still up');
      expect(seen.largest).toBeLessThan(maxControlFrameBytes / 8);

      agent.session.goodbye('It starts anew');
      await agent.ended;

      // All of it at once, in the snapshot of the next session.
      const again = connect({ id: server.id, key }, capabilities);
      await until('all came again', async () => again.agent.backend.items.size === 2 * replicas + 1, { timeoutMs });
      expect(again.agent.backend.envOf(second[0]!)).toMatchObject({ V14: 'b'.repeat(30_000) });
      expect(again.seen.largest).toBeLessThan(maxControlFrameBytes / 8);
      again.agent.session.goodbye('The test is over');
      expect(await again.agent.ended).toEqual({ kind: 'lost', why: 'The test is over' });
    },
    2 * timeoutMs,
  );
});
