import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let server: string;
let app: string;
let asked: CallParams[];
const gone = crypto.randomUUID();

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  const place = await world.place(owner);
  ({ server } = place);
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: server,
    name: 'web',
    source_type: 'image',
    image_url: 'example/web',
  });
  app = made.data.id;
});
beforeEach(async () => {
  asked = [];
  await agentIsThere(agentCapabilities);
  world.agents.answer = (_, params) => {
    asked.push(params);
    if (params.method === 'logs.storage')
      return {
        total_bytes: 60,
        retention_days: 7,
        max_bytes: 1000,
        oldest_at: '2026-01-01T00:00:00.000Z',
        workloads: [app, 'agent', gone].map((id) => ({ id, bytes: 20, lines: 1 })),
      };
    const lines = [app, 'agent', gone].map((workload_id, index) => ({
      seq: 7,
      timestamp: `2026-01-01T00:00:00.00${index}Z`,
      stream: 'stdout',
      level: 'info',
      message: 'hi',
      instance_id: 'i',
      workload_id,
    }));
    return { lines, cursor: '1767225600000-7-agent', more: false, truncated: false };
  };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function agentIsThere(capabilities: readonly string[]): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm', capabilities });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  await world.settled();
}

const query = () => {
  const [params] = asked;
  if (params?.method !== 'logs.server') throw new Error('Logs were not asked for');
  return params.query;
};

const sources = () => [
  { kind: 'application', id: app, name: 'web' },
  { kind: 'agent', id: server, name: expect.stringContaining('server-') },
  { kind: 'deleted', id: gone, name: null },
];

describe('logs of a server', () => {
  it('name what wrote each line, and where the next answer begins', async () => {
    const { status, data } = await owner.get(`/servers/${server}/logs`);
    expect(status).toBe(200);
    expect(data).toEqual({
      lines: sources().map((source, index) => ({
        seq: 7,
        timestamp: `2026-01-01T00:00:00.00${index}Z`,
        stream: 'stdout',
        level: 'info',
        message: 'hi',
        instance_id: 'i',
        source: { ...source, instance_id: 'i' },
      })),
      next_cursor: '1767225600000-7-agent',
      more: false,
      truncated: false,
    });
    expect(query()).toEqual({ tail: 200 });
  });

  it('are narrowed by every parameter', async () => {
    const instance = crypto.randomUUID();
    await owner.get(
      `/servers/${server}/logs?tail=5&since=2026-01-01T00:00:00Z&until=15m&cursor=1767225600000-7-agent&search=x&stream=stderr&level=warn,error&instance_id=${instance}&source=${gone}`,
    );
    expect(query()).toEqual({
      tail: 5,
      since: '2026-01-01T00:00:00.000Z',
      until: expect.stringMatching(/Z$/),
      cursor: '1767225600000-7-agent',
      search: 'x',
      streams: ['stderr'],
      levels: ['warn', 'error'],
      instance_ids: [instance],
      workload_ids: [gone],
    });
  });

  it.each([
    ['kind=application', () => [app]],
    ['kind=agent', () => ['agent']],
    ['kind=agent,application', () => [app, 'agent']],
    ['source=agent', () => ['agent']],
  ])('are those of %s', async (text, ids) => {
    await owner.get(`/servers/${server}/logs?${text}`);
    expect(query().workload_ids).toEqual(ids());
  });

  it('are those of a source as answers name it', async () => {
    for (const [source, id] of [
      [server, 'agent'],
      [app.toUpperCase(), app],
    ] as const) {
      asked = [];
      await owner.get(`/servers/${server}/logs?source=${source}`);
      expect(query().workload_ids).toEqual([id]);
    }
  });

  it('of a kind that the server has nothing of are none, without asking', async () => {
    const { data } = await owner.get(`/servers/${server}/logs?kind=volume&cursor=0`);
    expect(data).toEqual({ lines: [], next_cursor: '0', more: false, truncated: false });
    expect(asked).toEqual([]);
  });

  it.each(['tail=0', 'tail=5001', 'since=x', 'cursor=x', 'cursor=1-2-..', 'level=loud', 'source=x', 'kind=project'])(
    'refuse %s',
    async (text) => {
      const answer = await owner.get(`/servers/${server}/logs?${text}`);
      expect(answer.status).toBe(400);
      expect(answer.body.error?.details?.[0]?.field).toContain(text.split('=')[0]);
      expect(asked).toEqual([]);
    },
  );

  it('need an agent that merges them, and say what to do without one', async () => {
    await agentIsThere(agentCapabilities.filter((it) => it !== 'logs.server'));
    const answer = await owner.get(`/servers/${server}/logs`);
    expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining('upgrade the agent')]);
    expect(asked).toEqual([]);
    world.agents.answer = () => {
      throw new CallError('away', 'told');
    };
    await agentIsThere(agentCapabilities);
    expect((await owner.get(`/servers/${server}/logs`)).status).toBe(503);
  });

  it('are for admins only', async () => {
    const user = await world.user();
    expect((await user.get(`/servers/${server}/logs`)).status).toBe(403);
    expect((await user.get(`/servers/${server}/logs/storage`)).status).toBe(403);
    expect((await owner.get(`/servers/${crypto.randomUUID()}/logs`)).status).toBe(404);
  });
});

describe('the storage of the logs of a server', () => {
  it('is told in all and by what wrote them, also of what was deleted', async () => {
    expect((await owner.get(`/servers/${server}/logs/storage`)).data).toEqual({
      total_bytes: 60,
      retention_days: 7,
      max_bytes: 1000,
      oldest_at: '2026-01-01T00:00:00.000Z',
      workloads: sources().map((source) => ({ ...source, bytes: 20, lines: 1 })),
      unlisted: 0,
    });
  });

  it('is told by an agent of an earlier release, too', async () => {
    await agentIsThere([]);
    world.agents.answer = () => ({ total_bytes: 0, retention_days: 3, workloads: [] });
    expect((await owner.get(`/servers/${server}/logs/storage`)).data).toEqual({
      total_bytes: 0,
      retention_days: 3,
      max_bytes: null,
      oldest_at: null,
      workloads: [],
      unlisted: 0,
    });
  });
});
