import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from '../cli/client.ts';
import { freePort } from '../test/harness/program.ts';
import { until } from '../test/harness/until.ts';
import { comeToRest, revisionOf } from './at-rest.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { logIn } from './control-plane.ts';
import { seedAgents } from './many-agents.ts';
import { usageOf } from './process-figures.ts';
import type { AgentsArgument, AgentsMethods } from './programs/agents.ts';
import { startServer } from './server-process.ts';

const servers = 20;
const count = 200;
const types = ['postgres', 'mysql', 'mariadb', 'redis'] as const;
const timeoutMs = 300_000;
const idleMs = 20_000;

/** Databases on agents without containers: what the control plane needs for them once all run. */
export const bench: Bench = {
  id: 'P8',
  async run({ compareAll }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    try {
      const path = join(folder, 'store.db');
      const agents = await seedAgents(`sqlite:${path}`, { count: servers, perAgent: 0 });
      await compareAll({
        figures: {
          createS: { what: `${count} databases on ${servers} agents, from the first call until all run`, unit: 's' },
          before: { what: 'resident memory before', unit: 'MB' },
          memory: { what: 'the same once they run, idle', unit: 'MB' },
          cpu: { what: 'the same: share of one core', unit: '%', goal: { atMost: 10 } },
          writes: { what: 'the same: writes to the store within 20 s', unit: 'writes', goal: { atMost: 0 } },
        },
        rounds: 1,
        warmUps: 0,
        ours: () => measureDatabases(folder, path, agents),
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function measureDatabases(data: string, path: string, agents: AgentsArgument['agents']) {
  const port = await freePort();
  await using server = await startServer(port, data);
  const token = await logIn(server.url);
  const client = createClient({ server: server.url, tenant: 'default', token });
  await using children = await Child.start<AgentsMethods>('agents', { url: `${server.url}/default`, agents });
  await children.call('start');
  await until('all are welcomed', async () => (await children.call('welcomed')) === servers, { timeoutMs });
  const project = await client.object('POST', '/api/v1/projects', { name: 'databases' });
  await comeToRest(path);
  const { memoryMb: before } = await usageOf(server.pid);

  const begun = performance.now();
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const where = { project_id: project.id, server_id: agents[n % servers]?.server };
    const fields = { ...where, name: `orders-${n}`, type: types[n % types.length] };
    ids.push((await client.object('POST', '/api/v1/databases', fields)).id);
  }
  for (const id of ids)
    await until(
      'the database runs',
      async () => (await client.object('GET', `/api/v1/databases/${id}`)).status === 'running',
      { timeoutMs },
    );
  const createS = (performance.now() - begun) / 1000;

  await comeToRest(path);
  const [used, revision] = [await usageOf(server.pid), revisionOf(path)];
  await delay(idleMs);
  const after = await usageOf(server.pid);
  const cpu = ((after.cpuSeconds - used.cpuSeconds) * 100_000) / idleMs;
  return { createS, before, memory: after.memoryMb, cpu, writes: revisionOf(path) - revision };
}
