import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { resolveReferences } from '../../store/referable.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { agentIsThere } from '../harness/running-instance.ts';

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
const code = 'export default () => new Response("Hello")';

beforeAll(async () => {
  world = await startApi({ config: { runtimeImages: { python3: 'registry.example.test/python:3' } } });
  owner = await world.owner();
  project = (await owner.post('/projects', { name: 'shop' })).data.id;
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  await owner.put(`/servers/${server}`, { direct_ports_enabled: true, ipAddress: '192.0.2.7' });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const fields = (more: object = {}) => ({
  project_id: project,
  server_id: server,
  name: `hello-${(count += 1)}`,
  runtime: 'node20',
  code,
  ...more,
});

async function made(more: object = {}): Promise<string> {
  const { data, status, body } = await owner.post('/functions', fields(more));
  expect([status, body.error]).toEqual([201, undefined]);
  return data.id;
}

/** As its controllers leave a function that was deployed. */
async function deployed(id: string, found?: ReturnType<typeof resolveReferences>): Promise<string> {
  const { data } = await owner.post(`/functions/${id}/deploy`);
  const references = found !== undefined && 'values' in found ? { references: found.values } : {};
  const built = { phase: 'ready' as const, image: 'setpoint/hello:1', image_digest: 'sha256:1', ...references };
  await world.observe('function_version', data.version_id, built);
  await world.observe('function', id, { phase: 'running', active_version_id: data.version_id });
  return data.version_id;
}

/** What an agent records of a call. */
function executionOf(version: string) {
  return {
    id: crypto.randomUUID(),
    version_id: version,
    trigger: 'manual',
    status: 'succeeded',
    started_at: '2030-01-01T00:00:00.000Z',
    cold_start: true,
    cold_start_ms: 120,
    method: 'PUT',
    path: '/x?y=1',
    status_code: 201,
  };
}

describe('a function', () => {
  it('is stopped until it is deployed, and has usual limits', async () => {
    const { data, status } = await owner.post('/functions', fields({ exposed_port: 8100 }));
    expect(status).toBe(201);
    expect(data).toMatchObject({
      status: 'stopped',
      runtime: 'node20',
      trigger_type: 'http',
      timeout_seconds: 30,
      min_instances: 0,
      max_instances: 4,
      exposed_port: 8100,
      version_id: null,
      schedule: null,
    });
    expect(data).not.toHaveProperty('code');
    const shown = await owner.get(`/functions/${data.id}`);
    expect(shown.data).toMatchObject({ code, dependencies: null, env: {} });
    // whatever the form that its runtime wants
    for (const none of ['{}', '[]', ' { } '])
      expect((await owner.put(`/functions/${data.id}`, { runtime: 'python3', dependencies: none })).status).toBe(200);
    expect((await owner.get(`/functions/${data.id}`)).data.dependencies).toBeNull();
  });

  it('has a schedule of five fields in a time zone where its trigger is cron', async () => {
    const schedule_config = { timezone: 'Europe/Berlin' };
    const id = await made({ trigger_type: 'cron', schedule: '30 3 * * *', schedule_config });
    expect((await owner.get(`/functions/${id}`)).data).toMatchObject({ schedule: '30 3 * * *', schedule_config });
    await owner.put(`/functions/${id}`, { trigger_type: 'http' });
    expect((await owner.get(`/functions/${id}`)).data).toMatchObject({ schedule: null, schedule_config: null });
  });

  it.each([
    ['schedule', { trigger_type: 'cron' }],
    ['schedule', { trigger_type: 'cron', schedule: 'every day' }],
    ['schedule', { trigger_type: 'cron', schedule: '* * * * * *' }],
    ['schedule', { schedule: '30 3 * * *' }],
    ['schedule_config.timezone', { trigger_type: 'cron', schedule: '@daily', schedule_config: { timezone: 'Moon' } }],
    ['runtime', { runtime: 'ruby' }],
    ['code', { code: '' }],
    ['code', { code: 'x'.repeat(128 * 1024 + 1) }],
    ['timeout_seconds', { timeout_seconds: 901 }],
    ['min_instances', { min_instances: 3, max_instances: 2 }],
    ['memory_limit', { memory_limit: '1m' }],
    ['dependencies', { dependencies: 'left-pad' }],
    ['dependencies', { dependencies: '{"left-pad":"file:/etc"}' }],
    ['dependencies', { runtime: 'python3', dependencies: '["--index-url=http://x"]' }],
    ['dependencies', { runtime: 'go', dependencies: '{"github.com/google/uuid":"latest"}' }],
  ])('is refused with a wrong %s: %j', async (field, more) => {
    const { status, body } = await owner.post('/functions', fields(more));
    expect([status, body.error?.details?.map((one) => one.field)]).toEqual([400, [field]]);
  });

  it('takes the dependencies of its runtime', async () => {
    await made({ dependencies: '{"left-pad":"1.3.0","@scope/name":"^2.0.0"}' });
    await made({ runtime: 'python3', dependencies: '["requests==2.32.3","uvicorn[standard]>=0.30,<1"]' });
    await made({ runtime: 'go', dependencies: '{"github.com/google/uuid":"v1.6.0"}' });
    await made({ runtime: 'deno', dependencies: '{"imports":{"oak":"jsr:@oak/oak@17"}}' });
  });

  it('goes on with the version that is being built when it is started', async () => {
    const id = await made();
    const first = await owner.post(`/functions/${id}/start`);
    const again = await owner.post(`/functions/${id}/start`);
    expect(again.data.version_id).toBe(first.data.version_id);
    const later = await made();
    await deployed(later);
    const { data } = await owner.post(`/functions/${later}/deploy`);
    await owner.post(`/functions/${later}/stop`);
    expect((await owner.post(`/functions/${later}/start`)).data.version_id).toBe(data.version_id);
  });

  it('has a port that no other workload has', async () => {
    await made({ exposed_port: 8123 });
    const id = await made({ exposed_port: 8124 });
    await owner.post(`/functions/${id}/deploy`);
    const other = await owner.post('/functions', fields({ exposed_port: 8124 }));
    expect([other.status, other.body.error?.details?.[0]?.reason]).toEqual([409, 'port_taken']);
    const application = {
      project_id: project,
      server_id: server,
      name: 'web',
      source_type: 'image',
      image_url: 'web:1',
    };
    expect((await owner.post('/applications', { ...application, exposed_port: 8124 })).status).toBe(409);
  });

  it('shows its variables to members, and their names to viewers', async () => {
    const id = await made({ env: { TOKEN: 'open sesame' } });
    const viewer = await world.user();
    await owner.post(`/projects/${project}/members`, { user_id: viewer.id, role: 'viewer' });
    expect((await owner.get(`/functions/${id}`)).data).toMatchObject({ env: { TOKEN: 'open sesame' }, masked: false });
    const masked = await viewer.get(`/functions/${id}`);
    expect(Object.keys(masked.data.env)).toEqual(['TOKEN']);
    expect(masked.data.masked).toBe(true);
    expect(JSON.stringify(masked.body)).not.toContain('open sesame');
    expect((await viewer.post(`/functions/${id}/deploy`)).status).toBe(403);
  });
});

describe('a version', () => {
  it('is made of the function as it is then, and never changes', async () => {
    const id = await made({ runtime: 'python3', code: 'def handler(request): return 1', env: { A: '1' } });
    const { data } = await owner.post(`/functions/${id}/deploy`);
    expect(data).toMatchObject({ status: 'deploying', run: 'running' });
    await owner.put(`/functions/${id}`, { code: 'def handler(request): return 2', env: { A: '2' } });
    const stored = await world.repo.get('function_version', data.version_id);
    expect(stored?.desired).toMatchObject({
      number: 1,
      code: 'def handler(request): return 1',
      base_image: 'registry.example.test/python:3',
    });
    const { data: again } = await owner.post(`/functions/${id}/deploy`);
    const { data: all } = await owner.get(`/functions/${id}/versions`);
    expect(all.map((one: { number: number }) => one.number)).toEqual([2, 1]);
    expect(again.version_id).toBe(all[0].id);
    expect(all[0]).toMatchObject({ status: 'building', is_active: false, function_id: id });
  });

  it('that was built serves again without a build, and one that was not does not', async () => {
    const id = await made();
    const first = await deployed(id);
    const second = await deployed(id);
    const { data } = await owner.post(`/functions/${id}/versions/${first}/deploy`);
    expect(data.version_id).toBe(first);
    expect((await owner.get(`/functions/${id}/versions`)).data).toHaveLength(2);
    await world.observe('function_version', second, {
      phase: 'failed',
      error: { code: 'build_failed', message: 'no' },
    });
    expect((await owner.post(`/functions/${id}/versions/${second}/deploy`)).status).toBe(409);
  });

  it('serves again with what its variables refer to now, by another version of its image', async () => {
    const place = { project_id: project, server_id: server };
    const { id: database } = (await owner.post('/databases', { ...place, name: 'stock', type: 'redis' })).data;
    const id = await made({ code: '// first', env: { DATABASE_URL: '${databases.stock.url}' } });
    const resolved = async () => {
      await world.settled();
      const { config, environment_id } = (await world.repo.get('function', id))!.desired;
      return resolveReferences(world.mirror.tenant('default'), environment_id, config.references ?? []);
    };
    const first = await deployed(id, await resolved());
    await owner.put(`/functions/${id}`, { code: '// second' });
    await deployed(id, await resolved());
    const serve = async () => (await owner.post(`/functions/${id}/versions/${first}/deploy`)).data;
    expect((await serve()).version_id).toBe(first);
    const stored = (await world.repo.get('database', database))!;
    const unit = world.repo.begin();
    unit.change(stored, (draft) => void (draft.password = { ...draft.password, $sealed: 'another' }));
    await commit(unit);
    await world.settled();
    const { version_id, status } = await serve();
    expect([version_id === first, status]).toEqual([false, 'deploying']);
    expect((await world.repo.get('function_version', version_id))?.desired).toMatchObject({
      number: 3,
      code: '// first',
      config: { references: ['${databases.stock.url}'] },
      reuse: { number: 1, image: 'setpoint/hello:1', image_digest: 'sha256:1' },
    });
    // the code that is deployed next stays what was written last
    expect((await owner.get(`/functions/${id}`)).data.code).toBe('// second');
    await owner.post(`/functions/${id}/stop`);
    await world.observe('function', id, { phase: 'stopped', active_version_id: first });
    await world.observe('function_version', version_id, { phase: 'failed', error: { code: 'x', message: 'no' } });
    const started = (await owner.post(`/functions/${id}/start`)).data.version_id;
    expect([first, version_id]).not.toContain(started);
  });

  it('is not found under another function', async () => {
    const [id, other] = [await made(), await made()];
    const version = await deployed(id);
    expect((await owner.post(`/functions/${other}/versions/${version}/deploy`)).status).toBe(404);
    expect((await owner.get(`/functions/${other}/versions/${version}/logs`)).status).toBe(404);
    expect((await owner.get(`/functions/${id}/versions/nonsense/logs`)).status).toBe(400);
  });

  it('is one of five that are built at a time', async () => {
    const id = await made();
    for (let n = 0; n < 5; n++) expect((await owner.post(`/functions/${id}/deploy`)).status).toBe(200);
    const { status, body } = await owner.post(`/functions/${id}/deploy`);
    expect([status, body.error?.details?.[0]?.reason]).toEqual([409, 'limit']);
  });
});

describe('verbs', () => {
  it('start deploys what was never built, and brings back what served', async () => {
    const id = await made();
    const { data } = await owner.post(`/functions/${id}/start`);
    expect(data.version_id).not.toBeNull();
    const version = await deployed(id);
    expect((await owner.post(`/functions/${id}/stop`)).data.run).toBe('stopped');
    await world.observe('function', id, { phase: 'stopped', active_version_id: version });
    expect((await owner.post(`/functions/${id}/invoke`, {})).status).toBe(409);
    expect((await owner.post(`/functions/${id}/start`)).data).toMatchObject({ run: 'running', version_id: version });
    expect((await owner.get(`/functions/${id}/versions`)).data).toHaveLength(2);
    // what was deployed last, also if it did not serve before the stop
    const next = (await owner.post(`/functions/${id}/deploy`)).data.version_id;
    await owner.post(`/functions/${id}/stop`);
    const built = { phase: 'ready' as const, image: 'setpoint/hello:2', image_digest: 'sha256:2' };
    await world.observe('function_version', next, built);
    expect((await owner.post(`/functions/${id}/start`)).data.version_id).toBe(next);
  });

  it('start brings back what served before where the version that a stopped function was deployed with failed', async () => {
    const id = await made();
    const version = await deployed(id);
    await owner.post(`/functions/${id}/stop`);
    const next = (await owner.post(`/functions/${id}/deploy`)).data.version_id;
    await world.observe('function', id, { phase: 'deploying', active_version_id: version, at_rest: true });
    expect((await owner.post(`/functions/${id}/start`)).data.version_id).toBe(next);
    const error = { code: 'build_failed', message: 'no' };
    await world.observe('function_version', next, { phase: 'failed', error });
    await world.observe('function', id, { phase: 'stopped', active_version_id: version, at_rest: true });
    expect((await owner.post(`/functions/${id}/invoke`, {})).status).toBe(409);
    expect((await owner.post(`/functions/${id}/start`)).data).toMatchObject({ run: 'running', version_id: version });
  });

  it('invoke sends a request to the agent, and shows the answer and its record', async () => {
    const id = await made();
    const version = await deployed(id);
    expect((await owner.post(`/functions/${id}/invoke`, {})).status).toBe(503);
    await agentIsThere(world.store, { server }, { capabilities: ['functions'] });
    await world.settled();
    const calls: CallParams[] = [];
    const execution = executionOf(version);
    world.agents.answer = (_, call) => {
      calls.push(call);
      if (call.method === 'function.executions') return { items: [execution], more: false, total: 1 };
      return { execution, answer: { status: 201, headers: { a: 'b' }, body: 'SGVsbG8=', truncated: false } };
    };
    const sent = { method: 'PUT', path: '/x?y=1', headers: { 'x-a': 'b' }, body: 'Grüße' };
    const { status, data } = await owner.post(`/functions/${id}/invoke`, sent);
    expect(status).toBe(200);
    expect(data.answer).toEqual({
      status: 201,
      headers: { a: 'b' },
      body: 'Hello',
      body_base64: 'SGVsbG8=',
      truncated: false,
    });
    expect(data.execution).toMatchObject({
      function_id: id,
      trigger: 'manual',
      cold_start: true,
      http: { method: 'PUT', path: '/x?y=1', status_code: 201 },
      scheduled_at: null,
    });
    const { body, ...same } = sent;
    expect(calls[0]).toMatchObject({
      function_id: id,
      request: { ...same, body: Buffer.from(body).toString('base64') },
    });
    const listed = await owner.get(`/functions/${id}/executions?limit=10&status=succeeded,failed`);
    expect(listed.data).toEqual([data.execution]);
    expect(listed.body.meta).toEqual({ next_cursor: null, limit: 10, total: 1 });
    world.agents.answer = () => ({
      items: [{ ...execution, trigger: 'cron', method: 'POST', path: '/', status_code: 204 }],
      more: false,
    });
    const byCron = await owner.get(`/functions/${id}/executions`);
    expect(byCron.data[0]).toMatchObject({ trigger: 'cron', http: { method: 'POST', path: '/', status_code: 204 } });
    expect(calls[1]).toMatchObject({ limit: 10, status: ['succeeded', 'failed'] });
    expect(byCron.body.meta).toMatchObject({ total: null }); // an agent of an earlier release does not count them
    for (const query of [`projectId=${data.execution.id}`, 'sort=-created_at', 'sort=-started_at'])
      expect((await owner.get(`/functions/${id}/executions?${query}`)).data, query).toHaveLength(
        query.startsWith('sort') ? 1 : 0,
      );
    const ids = Array.from({ length: 450 }, (): string => crypto.randomUUID());
    world.agents.answer = (_, call) => {
      if (call.method !== 'function.executions') return {};
      const from = call.before === undefined ? 0 : ids.indexOf(call.before) + 1;
      const page = ids.slice(from, from + call.limit);
      return { items: page.map((one) => ({ ...execution, id: one })), more: from + page.length < ids.length };
    };
    const most = await owner.get(`/functions/${id}/executions?limit=430`);
    expect([most.data.length, most.body.meta?.next_cursor]).toEqual([430, ids[429]]);
    const rest = await owner.get(`/functions/${id}/executions?limit=500&cursor=${ids[429]}`);
    expect([rest.data.length, rest.body.meta?.next_cursor]).toEqual([20, null]);
    for (const wrong of ['limit=0', 'limit=501', 'status=x', 'cursor=x', 'other=1'])
      expect((await owner.get(`/functions/${id}/executions?${wrong}`)).status, wrong).toBe(400);
    expect((await owner.post(`/functions/${id}/invoke`, { path: 'x' })).status).toBe(400);
    expect((await owner.post(`/functions/${id}/invoke`, { body: 'a', body_base64: 'YQ==' })).status).toBe(400);
  });

  it('is called once by requests with one Idempotency-Key, also when they come at once', async () => {
    const id = await made();
    const execution = executionOf(await deployed(id));
    await agentIsThere(world.store, { server }, { capabilities: ['functions'] });
    await world.settled();
    let calls = 0;
    world.agents.answer = async (_, call) => {
      if (call.method !== 'function.call') return {};
      calls += 1;
      await Promise.resolve();
      return { execution: { ...execution, id: crypto.randomUUID() } };
    };
    const invoke = (path: string) => owner.post(`/functions/${id}/invoke`, { path }, { 'idempotency-key': 'once' });
    const [one, two] = await Promise.all([invoke('/a'), invoke('/a')]);
    const three = await invoke('/a');
    expect([calls, one.status, two.data, three.data]).toEqual([1, 200, one.data, one.data]);
    expect((await invoke('/b')).status).toBe(409);
    world.agents.answer = undefined;
  });

  it('a database to which a function refers is not deleted, and both show each other', async () => {
    const place = { project_id: project, server_id: server };
    const database = await owner.post('/databases', { ...place, name: 'orders', type: 'redis' });
    const id = await made({ env: { DATABASE_URL: '${databases.orders.url}' } });
    const refused = await owner.delete(`/databases/${database.data.id}`);
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('hello-')]);
    const linked = [expect.objectContaining({ id: database.data.id, name: 'orders' })];
    expect((await owner.get(`/functions/${id}/dependencies`)).data.databases).toEqual(linked);
    expect((await owner.get(`/databases/${database.data.id}/dependencies`)).data.functions).toMatchObject([{ id }]);
    const unknown = await owner.post('/functions', fields({ env: { X: '${databases.nowhere.url}' } }));
    expect([unknown.status, unknown.body.error?.details?.[0]?.reason]).toEqual([400, 'invalid_reference']);
  });
});
