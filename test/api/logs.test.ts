import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let app: string;
let deployment: string;
let asked: CallParams[];

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  const place = await world.place(owner);
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: 'web',
    source_type: 'git',
    repository_url: 'https://git.example/x',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  app = made.data.id;
  deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
});
beforeEach(() => {
  asked = [];
  const line = {
    seq: 7,
    timestamp: '2026-01-01T00:00:00.000Z',
    stream: 'stdout',
    level: 'info',
    message: 'hi',
    instance_id: 'i',
  };
  world.agents.answer = (_, params) => {
    asked.push(params);
    return { lines: [line], truncated: false };
  };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const query = () => {
  const [params] = asked;
  if (params?.method !== 'logs.read') throw new Error('Logs were not asked for');
  return params.query;
};

describe('logs', () => {
  it('of an application are its output, newest 200 lines unless asked otherwise', async () => {
    const answer = await owner.get(`/applications/${app}/runtime-logs`);
    expect(answer.data).toEqual({
      lines: [
        {
          seq: 7,
          timestamp: '2026-01-01T00:00:00.000Z',
          stream: 'stdout',
          level: 'info',
          message: 'hi',
          instance_id: 'i',
        },
      ],
      next_cursor: '7',
      truncated: false,
    });
    expect(query()).toEqual({ workload_id: app, tail: 200, streams: ['stdout', 'stderr', 'system'] });
  });

  it('are narrowed by every parameter', async () => {
    const instance = crypto.randomUUID();
    const since = '2026-01-01T01:00:00+01:00';
    await owner.get(
      `/applications/${app}/runtime-logs?tail=5&since=${encodeURIComponent(since)}&until=15m&cursor=42&search=x&stream=stderr&level=warn,error&instance_id=${instance}`,
    );
    expect(query()).toMatchObject({
      tail: 5,
      since: '2026-01-01T00:00:00.000Z',
      until: expect.stringMatching(/Z$/),
      after_seq: 42,
      search: 'x',
      streams: ['stderr'],
      levels: ['warn', 'error'],
      instance_ids: [instance],
    });
  });

  it('of a deployment are of its build and its instances, or of one of both', async () => {
    const build = uuidv5(deployment, 'build');
    const slot = uuidv5(deployment, 'slot/0');
    await owner.get(`/deployments/${deployment}/logs`);
    expect(query().instance_ids).toEqual(expect.arrayContaining([build, slot]));
    asked = [];
    await owner.get(`/deployments/${deployment}/build-logs`);
    expect(query().instance_ids).toEqual(expect.arrayContaining([build, slot]));
    expect(query().streams).toEqual(['build', 'system']);
    asked = [];
    await owner.get(`/deployments/${deployment}/runtime-logs`);
    expect(query().instance_ids).toContain(slot);
    expect(query().instance_ids).not.toContain(build);
    expect(query().streams).not.toContain('build');
    asked = [];
    await owner.get(`/applications/${app}/build-logs`);
    expect(query()).toMatchObject({ workload_id: app, streams: ['build', 'system'] });
  });

  it('of another stream than asked for are none, without asking', async () => {
    expect((await owner.get(`/applications/${app}/runtime-logs?stream=build`)).data).toEqual({
      lines: [],
      next_cursor: null,
      truncated: false,
    });
    expect((await owner.get(`/applications/${app}/runtime-logs?previous=true`)).data.lines).toEqual([]);
    expect(asked).toEqual([]);
  });

  it.each([
    'tail=0',
    'tail=5001',
    'since=yesterday',
    'until=x',
    'cursor=x',
    'level=loud',
    'stream=x',
    'instance_id=x',
    'limit=3',
  ])('refuse %s', async (text) => {
    const answer = await owner.get(`/applications/${app}/runtime-logs?${text}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details?.[0]?.field).toContain(text.split('=')[0]);
  });

  it.each([
    ['away', 503],
    ['timeout', 503],
    ['no_such_workload', 409],
  ])('answer for an agent that says %s with %i', async (code, status) => {
    world.agents.answer = () => {
      throw new CallError(code, 'told');
    };
    expect((await owner.get(`/applications/${app}/runtime-logs`)).status).toBe(status);
  });
});

describe('sync', () => {
  it('answers with what a leader of an earlier release found, which decides nothing', async () => {
    const result = { up_to_date: false, current_commit: 'aaa', latest_commit: 'bbb', branch: 'main' };
    let answering = Promise.resolve();
    const end = world.mirror.subscribe((change) => {
      if (change.kind !== 'operation' || change.after === undefined || change.after.observed !== undefined) return;
      answering = world.observe('operation', change.id, {
        phase: 'succeeded',
        result,
        finished_at: '2026-01-01T00:00:00Z',
      });
    });
    const answer = await owner.post(`/applications/${app}/deployments/sync`);
    end();
    await answering;
    expect(answer.data).toEqual({
      ...result,
      changed_files: [],
      changed_files_known: false,
      matched: true,
      decision: 'would_deploy',
      reason: 'The leader is of an earlier release, which does not decide',
      deployment_id: null,
    });
  });
});
