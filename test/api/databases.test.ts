import { instanceValues } from '../../agent-protocol/metrics.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { Projection } from '../../controllers/gateway/projection.ts';
import { copiedFrom, copyDesired, copyIdOf, copyRuleOf } from '../../store/copying.ts';
import type { CopyRule } from '../../store/copying.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { resolveReferences } from '../../store/referable.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { agentIsThere, instanceOf } from '../harness/running-instance.ts';
import { desiredState } from '../harness/states.ts';
import { serviceSpec } from '../harness/wire-items.ts';

const unlimited = { perMinute: 0, burst: 1 };
/** What means something to a shell or to statements of SQL. */
const quoted = ['a b', ' a', "o'brien", 'a"b', 'a`b', String.raw`a\b`, 'a;b', 'a$b', 'a\nb'];
const printable = Array.from({ length: 0x7f - 0x20 }, (_, at) => String.fromCharCode(0x20 + at)).join('');

let world: ApiWorld;
let owner: Client;
let project: string;
let environment: string;
let server: string;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, ownPorts: [7070] } });
  owner = await world.owner();
  const made = (await owner.post('/projects', { name: 'shop' })).data;
  [project, environment] = [made.id, made.default_environment_id];
  const fields = { name: 'one', ip_address: '192.0.2.7', direct_ports_enabled: true };
  server = (await owner.post('/servers', fields)).data.id;
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;

const ask = (fields: object = {}): Promise<Answer> =>
  owner.post('/databases', { project_id: project, server_id: server, name: aName(), type: 'postgres', ...fields });

interface Made {
  id: string;
  name: string;
  internal_id: string;
  data_volume_id: string;
}

async function database(fields: object = {}): Promise<Made> {
  const { data, status } = await ask(fields);
  expect(status).toBe(201);
  return data;
}

async function application(fields: object = {}): Promise<Answer> {
  return owner.post('/applications', {
    project_id: project,
    server_id: server,
    name: aName(),
    source_type: 'image',
    image_url: 'example/web:1',
    ...fields,
  });
}

const credentials = async (id: string) => (await owner.get(`/databases/${id}/credentials`)).data;
const reasons = ({ status, body }: Answer) => [status, [...new Set(body.error?.details?.map(({ field }) => field))]];
const message = ({ status, body }: Answer) => [status, body.error?.message];

/** Writes what the controller would have observed. */
async function isIn(phase: 'running' | 'stopped' | 'error', id: string): Promise<void> {
  await world.observe('database', id, { phase });
}

describe('a new database', () => {
  it('is of the usual version, user and database, on the server of its project, with a generated password', async () => {
    const other = (await owner.post('/projects', { name: 'other', default_server_id: server })).data;
    const name = aName();
    const { data, status } = await owner.post('/databases', { project_id: other.id, name, type: 'postgres' });
    expect(status).toBe(201);
    expect(data).toMatchObject({
      project_id: other.id,
      environment_id: other.default_environment_id,
      server_id: server,
      name,
      display_name: null,
      type: 'postgres',
      version: '17',
      image: 'postgres:17',
      image_digest: null,
      database_name: 'app',
      database_user: 'app',
      memory_limit: null,
      cpu_limit: null,
      parameters: {},
      exposed_port: null,
      run: 'running',
      status: 'provisioning',
    });
    expect(data.internal_id).toMatch(new RegExp(`^${name}-[0-9a-f]{6}$`));
    const [one, two] = [await credentials(data.id), await credentials((await database()).id)];
    expect(one.password).toMatch(/^[\w-]{32}$/);
    expect(two.password).not.toBe(one.password);
  });

  it.each([
    ['mysql', '8.4', 'app', 'app'],
    ['mariadb', '11.8', 'app', 'app'],
    ['redis', '8', 'default', '0'],
    ['mongodb', '8', 'app', 'app'],
  ])('of the type %s has version %s', async (type, version, database_user, database_name) => {
    expect((await ask({ type })).data).toMatchObject({ type, version, database_user, database_name });
  });

  it('is what was asked for, and no answer has its password', async () => {
    const password = 'correct horse battery';
    const fields = {
      version: '16',
      database_name: 'orders',
      database_user: 'clerk',
      password,
      display_name: 'Orders',
      memory_limit: '512m',
      cpu_limit: '0.5',
      labels: { tier: 'one' },
    };
    const made = await ask(fields);
    const { password: _, ...shown } = fields;
    expect(made.data).toMatchObject(shown);
    const { id } = made.data;
    const path = `/databases/${id}`;
    const answers = [
      made,
      await owner.get(path),
      await owner.get(`/databases?projectId=${project}`),
      await owner.get(`${path}/events`),
      await owner.get(`${path}/dependencies`),
      await owner.put(path, { display_name: 'All orders' }),
      await owner.post(`${path}/restart`),
      await owner.post(`${path}/stop`),
      await owner.post(`${path}/start`),
      await owner.get('/volumes'),
      await owner.get('/audit'),
      await owner.delete(path),
    ];
    for (const { status, body } of answers) {
      expect([200, 201]).toContain(status);
      expect(JSON.stringify(body)).not.toContain(password);
      expect(JSON.stringify(body)).not.toContain('$sealed');
    }
  });

  it.each([
    ['postgres', { version: '9' }, 'version', 'Must be a version of PostgreSQL: 17, 18, 16, 15'],
    ['mongodb', { version: '17' }, 'version', 'Must be a version of MongoDB: 8, 7'],
  ])('%s is refused with %j', async (type, fields, field, words) => {
    const answer = await ask({ type, ...fields });
    expect(reasons(answer)).toEqual([400, [field]]);
    expect(answer.body.error?.message).toContain(words);
  });

  it.each([
    ['postgres', 'database_user', ['postgres', 'pg_monitor', '1st', ...quoted, 'naïve', '', 'u'.repeat(64)]],
    ['postgres', 'database_name', ['postgres', 'template0', 'template1', 'a/b', ...quoted, 'd'.repeat(64)]],
    ['mysql', 'database_user', ['root', 'mysql.sys', 'a@b', ...quoted, 'u'.repeat(33)]],
    ['mysql', 'database_name', ['mysql', 'sys', 'information_schema', 'performance_schema', ...quoted]],
    ['mariadb', 'database_user', ['root', 'mariadb.sys', ...quoted, 'u'.repeat(33)]],
    ['mariadb', 'database_name', ['mysql', 'performance_schema', ...quoted]],
    ['redis', 'database_user', ['app', 'default2', 'Default', ...quoted]],
    ['redis', 'database_name', ['16', '-1', 'app', '01', '"0"', ' 0']],
    ['mongodb', 'database_user', ['a.b', '$where', ...quoted]],
    ['mongodb', 'database_name', ['admin', 'local', 'config', 'a.b', '$x', ...quoted]],
  ])('of %s has no %s that its engine uses itself or cannot have', async (type, field, values) => {
    for (const value of values)
      expect([value, reasons(await ask({ type, [field]: value }))]).toEqual([value, [400, [field]]]);
  });

  it.each(['short', 'tab\tin it', 'line\nin it', 'nul\u0000in it', 'pässwörter', 'del\u007fin it', 'x'.repeat(129)])(
    'has no password like %j',
    async (password) => {
      expect(reasons(await ask({ password }))).toEqual([400, ['password']]);
    },
  );

  it.each([
    ['type', 'oracle'],
    ['memory_limit', 'much'],
    ['cpu_limit', 'all'],
    ['exposed_port', 0],
    ['name', ''],
    ['colour', 'green'],
    ['run', 'stopped'],
  ])('has no %s %j', async (field, value) => {
    expect(reasons(await ask({ [field]: value }))).toEqual([400, [field]]);
  });

  it('is not where nothing says on which server', async () => {
    const answer = await owner.post('/databases', { project_id: project, name: aName(), type: 'redis' });
    expect(reasons(answer)).toEqual([400, ['server_id']]);
  });

  it('has a name of its own in its environment, whatever its type', async () => {
    const name = aName();
    await database({ name });
    expect((await ask({ name: name.toUpperCase(), type: 'redis' })).status).toBe(409);
    const { id } = await database();
    expect((await owner.put(`/databases/${id}`, { name })).status).toBe(409);
  });

  it('has no port that another workload has, and keeps its own from others', async () => {
    const port = 20_001;
    const app = (await application({ exposed_port: port })).data;
    expect((await owner.post(`/applications/${app.id}/deploy`)).status).toBe(200);
    expect(message(await ask({ exposed_port: port }))).toEqual([
      409,
      `Port ${port} of the server belongs to the application ${app.name}: choose another, or stop that one first`,
    ]);
    const { id, name } = await database({ exposed_port: port + 1 });
    const taken = `Port ${port + 1} of the server belongs to the database ${name}: choose another, or stop that one first`;
    expect(message(await application({ exposed_port: port + 1 }))).toEqual([409, taken]);
    expect(message(await ask({ exposed_port: port + 1 }))).toEqual([409, taken]);
    const other = await database();
    expect(message(await owner.put(`/databases/${other.id}`, { exposed_port: port + 1 }))).toEqual([409, taken]);
    expect(reasons(await ask({ exposed_port: 7070 }))).toEqual([409, ['exposed_port']]);
    expect((await owner.put(`/databases/${id}`, { exposed_port: null })).data.exposed_port).toBeNull();
    expect((await ask({ exposed_port: port + 1 })).status).toBe(201);
  });

  it('that was stopped does not start with a port that another one took meanwhile', async () => {
    const port = 20_010;
    const { id } = await database({ exposed_port: port });
    await owner.post(`/databases/${id}/stop`);
    const other = await database({ exposed_port: port });
    await isIn('stopped', id);
    const refused = await owner.post(`/databases/${id}/start`);
    expect(reasons(refused)).toEqual([409, ['exposed_port']]);
    expect(refused.body.error?.message).toContain(`the database ${other.name}`);
    expect((await owner.get(`/databases/${id}`)).data.run).toBe('stopped');
    await owner.put(`/databases/${other.id}`, { exposed_port: null });
    expect((await owner.post(`/databases/${id}/start`)).data).toMatchObject({ run: 'running', status: 'provisioning' });
  });

  it('answers alone to its DNS name in its environment', async () => {
    const { name, internal_id: host_name } = await database();
    const taken = `Database ${name} of the environment answers to ${host_name} already: choose another host_name`;
    const { id } = (await application()).data;
    expect(message(await owner.put(`/applications/${id}`, { host_name }))).toEqual([409, taken]);
    expect((await application({ name: host_name })).data.host_name).toBe(`${host_name}-2`);
  });

  it('is made once for one Idempotency-Key', async () => {
    const body = { project_id: project, server_id: server, name: aName(), type: 'mysql' };
    const send = () => owner.post('/databases', body, { 'idempotency-key': 'one-database' });
    const [first, second] = [await send(), await send()];
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.data.id).toBe(first.data.id);
    const { data } = await owner.get(`/volumes?projectId=${project}&limit=500`);
    expect(data.filter((it: { database_id: string }) => it.database_id === first.data.id)).toHaveLength(1);
  });
});

describe('the settings of a database', () => {
  it('change alone, and null resets them', async () => {
    const { id } = await database();
    const path = `/databases/${id}`;
    const settings = { display_name: 'Orders', memory_limit: '1g', cpu_limit: '2', exposed_port: 20_020 };
    for (const [field, value] of Object.entries(settings)) {
      const { status, data } = await owner.put(path, { [field]: value });
      expect([status, data[field]]).toEqual([200, value]);
    }
    expect((await owner.get(path)).data).toMatchObject(settings);
    for (const field of Object.keys(settings)) {
      const { status, data } = await owner.put(path, { [field]: null });
      expect([status, data[field]]).toEqual([200, null]);
    }
  });

  it('are the only fields that change: others keep their value or are refused', async () => {
    const { id } = await database();
    const before = (await owner.get(`/databases/${id}`)).data;
    const sent = { ...before, type: 'mysql', version: '16', database_user: 'other', database_name: 'other' };
    expect((await owner.put(`/databases/${id}`, sent)).data).toMatchObject({
      type: 'postgres',
      version: '17',
      database_user: 'app',
      database_name: 'app',
      resource_version: before.resource_version,
    });
    expect(reasons(await owner.put(`/databases/${id}`, { password: 'another password' }))).toEqual([400, ['password']]);
    expect(reasons(await owner.put(`/databases/${id}`, { colour: 'green' }))).toEqual([400, ['colour']]);
    expect(reasons(await owner.put(`/databases/${id}`, { memory_limit: 'much' }))).toEqual([400, ['memory_limit']]);
  });
});

describe('the verbs of a database', () => {
  it('lead from state to state, and do nothing where it is as asked already', async () => {
    const { id } = await database();
    const verb = async (name: string) => (await owner.post(`/databases/${id}/${name}`)).data;
    const before = (await owner.get(`/databases/${id}`)).data;
    expect((await verb('start')).resource_version).toBe(before.resource_version);
    await isIn('running', id);
    const running = await verb('start');
    expect(running).toMatchObject({ run: 'running', status: 'running' });
    expect((await verb('restart')).generation).toBe(running.generation + 1);
    const stopping = await verb('stop');
    expect(stopping).toMatchObject({ run: 'stopped', status: 'running' });
    expect((await verb('stop')).resource_version).toBe(stopping.resource_version);
    expect(message(await owner.post(`/databases/${id}/restart`))).toEqual([
      409,
      'Cannot restart as the database is stopped: start it',
    ]);
    await isIn('stopped', id);
    expect((await owner.get(`/databases/${id}`)).data.status).toBe('stopped');
    expect(message(await owner.post(`/databases/${id}/terminal`, {}))).toEqual([
      409,
      'Cannot open a terminal as the database is stopped: start it first',
    ]);
    expect(await verb('start')).toMatchObject({ run: 'running', status: 'provisioning' });
  });

  it('are refused, as is every change, once it is being deleted', async () => {
    const { id } = await database();
    const deleted = await owner.delete(`/databases/${id}`);
    expect([deleted.status, deleted.data.status]).toEqual([200, 'deleting']);
    for (const name of ['start', 'stop', 'restart', 'terminal'])
      expect([name, (await owner.post(`/databases/${id}/${name}`, {})).status]).toEqual([name, 409]);
    expect((await owner.put(`/databases/${id}`, { display_name: 'x' })).status).toBe(409);
    expect((await owner.delete(`/databases/${id}`)).data.status).toBe('deleting');
  });

  it('wait for their end where that is asked for', async () => {
    const { id } = await database();
    await isIn('running', id);
    const stopping = owner.post(`/databases/${id}/stop?wait=20`);
    await expect.poll(async () => (await owner.get(`/databases/${id}`)).data.run).toBe('stopped');
    await isIn('stopped', id);
    expect((await stopping).data).toMatchObject({ status: 'stopped' });
  });

  it('that ask its engine answer 503 without an agent, and 409 while it does not run', async () => {
    const lone = (await owner.post('/servers', { name: aName() })).data.id;
    const { id } = await database({ server_id: lone });
    expect((await owner.get(`/databases/${id}/metrics`)).status).toBe(503);
    await agentIsThere(world.store, { server: lone });
    await world.settled();
    expect(message(await owner.get(`/databases/${id}/storage`))[1]).toContain('does not run at the moment');
    await owner.post(`/databases/${id}/stop`);
    expect(message(await owner.get(`/databases/${id}/storage`))).toEqual([
      409,
      'The database is stopped: start it, then ask again',
    ]);
    // its history is there all the same
    world.agents.answer = () => ({ since: 0, until: 3_600_000, step_ms: 5000, rows: [], latest: [] });
    expect((await owner.get(`/databases/${id}/metrics`)).data).toMatchObject({
      connections: null,
      uptime_seconds: null,
      series: { points: [] },
    });
    world.agents.answer = undefined;
  });

  it('that ask its engine answer with what its own client wrote, and 409 where that failed or is no answer', async () => {
    const { id, data_volume_id } = await database();
    await instanceOf(world.repo, { application: id, project, environment, server }, { kind: 'database' });
    await agentIsThere(world.store, { server });
    await world.settled();
    const asked: unknown[] = [];
    const answers = (command: object) => {
      world.agents.answer = (_, call) => {
        if (call.method === 'instance.command') asked.push(call.command[0]);
        if (call.method === 'volume.usage') asked.push(call.volume);
        if (call.method === 'instance.command') return command;
        if (call.method === 'volume.usage') return { bytes: 65_536 };
        return { since: 0, until: until ?? world.clock.now().getTime(), step_ms: 5000, rows, latest: [] };
      };
    };
    const rows: number[][] = [];
    let until: number | undefined;
    answers({ exit_code: 0, output: '8192,app\n4096,a,b\n' });
    expect((await owner.get(`/databases/${id}/storage`)).data).toEqual({
      used_bytes: 12_288,
      volume_bytes: 65_536,
      databases: [
        { name: 'app', bytes: 8192 },
        { name: 'a,b', bytes: 4096 },
      ],
    });
    expect(new Set(asked)).toEqual(new Set(['psql', volumeName(data_volume_id)]));
    answers({ exit_code: 0, output: '3,100,60\n' });
    expect((await owner.get(`/databases/${id}/metrics`)).data).toMatchObject({
      connections: 3,
      max_connections: 100,
      uptime_seconds: 60,
      cpu_percent: null,
      memory_limit_bytes: null,
    });
    answers({ exit_code: 2, output: 'connection refused' });
    const at = (ageMs: number): number[] => [
      world.clock.now().getTime() - ageMs,
      ...instanceValues.flatMap(() => [7, 7]),
    ];
    for (const [age, shown] of [
      [40 * 60_000, null],
      [5000, 7],
    ] as const) {
      rows.splice(0, 1, at(age));
      const { data } = await owner.get(`/databases/${id}/metrics`);
      expect([data.cpu_percent, data.memory_used_bytes, data.series.points.length]).toEqual([shown, shown, 1]);
    }
    until = world.clock.now().getTime() - 40_000; // the clock of the server is behind
    rows.splice(0, 1, at(45_000));
    expect((await owner.get(`/databases/${id}/metrics`)).data.cpu_percent).toBe(7);
    until = undefined;
    rows.length = 0;
    const measured = { connections: null, connections_error: expect.stringContaining('does not answer queries') };
    expect((await owner.get(`/databases/${id}/metrics`)).data).toMatchObject({ ...measured, series: { points: [] } });
    answers({ output: '' });
    expect((await owner.get(`/databases/${id}/metrics`)).data.connections_error).toContain('did not answer within');
    world.agents.answer = undefined;
  });
});

describe('the volume of a database', () => {
  it('is listed with it, and cannot be bound, unbound, or deleted by itself', async () => {
    const { id, name, data_volume_id: volume } = await database();
    const { data } = await owner.get(`/volumes?projectId=${project}&limit=500`);
    expect(data.filter((it: { database_id: string }) => it.database_id === id)).toMatchObject([
      { id: volume, server_id: server, environment_id: environment, bindings: [], status: 'pending' },
    ]);
    const words = `The volume has the data of database ${name}: it goes with that one, and nothing else mounts it`;
    const app = (await application()).data.id;
    const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
    expect(message(await owner.post(`/volumes/${volume}/bind`, binding))).toEqual([409, words]);
    expect(message(await owner.delete(`/volumes/${volume}`))).toEqual([409, words]);
    expect(message(await owner.post(`/volumes/${volume}/unbind`, {}))).toEqual([409, words]);
    expect((await owner.get(`/volumes/${volume}`)).data).toMatchObject({ bindings: [], status: 'pending' });
  });

  it('keeps its name from no other volume', async () => {
    const name = aName();
    const place = { project_id: project, server_id: server, name };
    expect((await owner.post('/volumes', place)).status).toBe(201);
    await database({ name });
    const other = aName();
    await database({ name: other });
    expect((await owner.post('/volumes', { ...place, name: other })).status).toBe(201);
  });
});

describe('the parameters of a database', () => {
  const change = (id: string, parameters: unknown, fields: object = {}): Promise<Answer> =>
    owner.put(`/databases/${id}`, { parameters, ...fields });
  const problem = ({ status, body }: Answer) => [status, body.error?.details?.[0]?.field, body.error?.message];

  it('are given to a new one, changed one by one, and taken back', async () => {
    const { id } = await database({ parameters: { max_connections: 50, work_mem: '8m' } });
    const of = async () => (await owner.get(`/databases/${id}`)).data.parameters;
    expect(await of()).toEqual({ max_connections: '50', work_mem: '8m' });
    expect((await change(id, { work_mem: null, shared_buffers: '64m' })).data.parameters).toEqual({
      max_connections: '50',
      shared_buffers: '64m',
    });
    await owner.put(`/databases/${id}`, { display_name: 'Orders' });
    expect(await of()).toEqual({ max_connections: '50', shared_buffers: '64m' });
    expect((await change(id, null)).data.parameters).toEqual({});
    expect((await world.repo.get('database', id))?.desired.parameters).toBeUndefined();
  });

  it.each([
    ['postgres', { archive_command: 'rm -rf /' }, 'parameters.archive_command', 'Must be a parameter of PostgreSQL'],
    ['postgres', { constructor: '1' }, 'parameters.constructor', 'Must be a parameter of PostgreSQL'],
    ['postgres', { max_connections: '1 -c x=y' }, 'parameters.max_connections', 'Must be a whole number, 20 to 5000'],
    ['mysql', { init_file: '/etc/passwd' }, 'parameters.init_file', 'Must be a parameter of MySQL'],
    ['mariadb', { sql_mode: 'TRADITIONAL' }, 'parameters.sql_mode', 'Must have commas between some of'],
    ['mysql', { sql_mode: 'NO_BACKSLASH_ESCAPES' }, 'parameters.sql_mode', 'Must have commas between some of'],
    ['redis', { appendonly: 'no' }, 'parameters.appendonly', 'Must be a parameter of Redis'],
    ['mongodb', { any: '1' }, 'parameters.any', 'The parameters of MongoDB cannot be changed yet'],
  ])('of %s are not %j', async (type, parameters, field, words) => {
    expect(problem(await ask({ type, parameters }))).toEqual([400, field, expect.stringContaining(words)]);
    const { id } = await database({ type });
    expect(problem(await change(id, parameters))).toEqual([400, field, expect.stringContaining(words)]);
  });

  it('do not reserve more memory than it has, whichever of the two changes', async () => {
    const refused = [400, 'parameters.shared_buffers', expect.stringContaining('at most 192m')];
    expect(problem(await ask({ memory_limit: '256m', parameters: { shared_buffers: '200m' } }))).toEqual(refused);
    const { id } = await database({ memory_limit: '512m', parameters: { shared_buffers: '200m' } });
    expect(problem(await owner.put(`/databases/${id}`, { memory_limit: '256m' }))).toEqual(refused);
    expect((await change(id, { shared_buffers: '192m' }, { memory_limit: '256m' })).status).toBe(200);
  });
});

describe('pooled connections to a database', () => {
  const pool = (id: string, connection_pooling: unknown): Promise<Answer> =>
    owner.put(`/databases/${id}`, { connection_pooling });

  it('are asked for when it is made or later, by itself, and given up again', async () => {
    expect((await database()) as object).toMatchObject({ connection_pooling: false });
    const { id, internal_id } = await database({ connection_pooling: true });
    const shown = async () => (await owner.get(`/databases/${id}`)).data.connection_pooling;
    expect(await shown()).toBe(true);
    const { password, ...of } = await credentials(id);
    expect(of).toMatchObject({
      internal_host: internal_id,
      internal_port: 5432,
      pooled_host: `${internal_id}-pooler`,
      pooled_port: 6432,
      pooled_connection_string: `postgresql://app:${password}@${internal_id}-pooler:6432/app`,
    });
    await owner.put(`/databases/${id}`, { display_name: 'Orders' });
    expect(await shown()).toBe(true);
    for (const off of [false, null]) {
      await pool(id, true);
      expect((await pool(id, off)).data.connection_pooling).toBe(false);
      expect((await world.repo.get('database', id))?.desired).not.toHaveProperty('connection_pooling');
      expect(await credentials(id)).toMatchObject({ pooled_host: null, pooled_connection_string: null });
    }
    expect(reasons(await pool(id, 'yes'))).toEqual([400, ['connection_pooling']]);
  });

  it.each(['mysql', 'mariadb', 'redis', 'mongodb'])('are refused of %s', async (type) => {
    const words = [400, expect.stringMatching(/^Connections to \w+ cannot be pooled: those to PostgreSQL alone can$/)];
    const refused = await ask({ type, connection_pooling: true });
    expect([message(refused), reasons(refused)]).toEqual([words, [400, ['connection_pooling']]]);
    const { id } = await database({ type, connection_pooling: false });
    expect(message(await pool(id, true))).toEqual(words);
    expect((await pool(id, null)).status).toBe(200);
  });

  it('are what variables take, and stay as long as one does', async () => {
    const name = aName();
    const { id, internal_id } = await database({ name, password: 'p@ss word' });
    const env = (attribute: string) => ({ env: { URL: `\${databases.${name}.${attribute}}` } });
    expect(message(await application(env('pooled_url')))).toEqual([
      400,
      `Variable URL cannot refer to \${databases.${name}.pooled_url} as connections to database ${name} are not pooled: set connection_pooling`,
    ]);
    await pool(id, true);
    const app = (await application(env('pooled_url'))).data;
    const texts = ['pooled_host', 'pooled_port', 'pooled_url'].map((it) => `\${databases.${name}.${it}}`);
    expect(resolveReferences(world.mirror.tenant('default'), environment, texts)).toMatchObject({
      values: {
        [texts[0]!]: `${internal_id}-pooler`,
        [texts[1]!]: '6432',
        [texts[2]!]: {
          before: 'postgresql://app:',
          after: `@${internal_id}-pooler:6432/app`,
          isInUrl: true,
        },
      },
    });
    expect(message(await pool(id, false))).toEqual([
      409,
      `Variables of ${app.name} refer to the database by its pooler: change them first`,
    ]);
    expect((await owner.put(`/databases/${id}`, { display_name: 'x' })).status).toBe(200);
    await owner.put(`/applications/${app.id}`, env('url'));
    expect((await pool(id, false)).status).toBe(200);
  });

  it('are had by a configuration of their own, which follows the password of the database', async () => {
    const { id, internal_id } = await database({ connection_pooling: true, password: printable });
    const holder = (await world.repo.get('database', id))!;
    const view = world.mirror.tenant('default');
    const projection = new Projection({ view, unsealer: world.keyring, capabilities: new Set(agentCapabilities) });
    const { id: configuration, env, files = {} } = projection.configuration(holder, 'pooler/1');
    expect(configuration).toBe(`${id}/pooler/1`);
    expect(env).toMatchObject({ PGUSER: 'app', PGPASSWORD: printable, PGHOST: '127.0.0.1' });
    const texts = Object.values(files).map((text) => Buffer.from(text, 'base64').toString());
    expect(texts[0]).toContain(`host=${internal_id} port=5432`);
    expect(texts[1]).toBe(`"app" "${printable.replaceAll('"', '""')}"\n`);
    expect(projection.configuration(holder, '1').files).toEqual({});
  });

  it('are those of a copy, too', () => {
    const pooled = desiredState('database', { connection_pooling: true });
    const rule: CopyRule<DesiredOf<'database'>> | undefined = copyRuleOf('database');
    rule?.reset?.(pooled, crypto.randomUUID());
    expect(pooled.connection_pooling).toBe(true);
  });
});

describe('TLS of a database', () => {
  const place = (id: string) => ({ tenant: 'default', kind: 'database', id, path: 'tls.key' });
  /** Writes the certificate that the controller would have issued. */
  const certified = (id: string) =>
    world.repo.change('database', id, (draft) => {
      draft.tls = {
        revision: 1,
        certificate: 'of the engine',
        authority: 'of the authority',
        key: world.keyring.seal('secret key', place(id)),
        names: [draft.internal_id],
        expires_at: '2032-01-01T00:00:00.000Z',
      };
    });

  it.each([
    ['postgres', '?sslmode=require'],
    ['mysql', '?ssl-mode=REQUIRED'],
    ['mariadb', '?ssl-mode=REQUIRED'],
  ])(
    'is required of %s where that is asked for, when it is made or later, and its addresses say so',
    async (type, words) => {
      const { id, internal_id } = await database({ type, require_tls: true });
      const shown = async () => (await owner.get(`/databases/${id}`)).data.require_tls;
      const address = async () => (await credentials(id)).internal_connection_string;
      expect([await shown(), new URL(await address()).search]).toEqual([true, words]);
      await owner.put(`/databases/${id}`, { display_name: 'Orders' });
      expect(await shown()).toBe(true);
      for (const off of [false, null]) {
        await owner.put(`/databases/${id}`, { require_tls: true });
        expect((await owner.put(`/databases/${id}`, { require_tls: off })).data.require_tls).toBe(false);
        expect((await world.repo.get('database', id))?.desired).not.toHaveProperty('require_tls');
      }
      expect(await address()).toMatch(new RegExp(`@${internal_id}:\\d+/app$`));
      expect(reasons(await owner.put(`/databases/${id}`, { require_tls: 'yes' }))).toEqual([400, ['require_tls']]);
    },
  );

  it.each(['redis', 'mongodb'])('is refused of %s', async (type) => {
    const words = [400, expect.stringMatching(/^TLS is not offered for \w+: PostgreSQL, MySQL and MariaDB speak it$/)];
    const refused = await ask({ type, require_tls: true });
    expect([message(refused), reasons(refused)]).toEqual([words, [400, ['require_tls']]]);
    const { id } = await database({ type, require_tls: false });
    expect(message(await owner.put(`/databases/${id}`, { require_tls: true }))).toEqual(words);
  });

  it('is known by the authority of its environment, once that has issued its certificate', async () => {
    const name = aName();
    const { id } = await database({ name });
    expect(await credentials(id)).toMatchObject({ ca: null, require_tls: false });
    const texts = [`\${databases.${name}.ca}`];
    const resolved = () => resolveReferences(world.mirror.tenant('default'), environment, texts);
    expect(resolved()).toEqual({ comes: `the certificate of database ${name} to be made` });
    const app = await application({ env: { CA: texts[0] } });
    expect([app.status, app.body.error]).toEqual([201, undefined]);
    await certified(id);
    expect(await credentials(id)).toMatchObject({ ca: 'of the authority' });
    expect(resolved()).toEqual({ values: { [texts[0]!]: 'of the authority' } });
    expect(JSON.stringify((await owner.get(`/databases/${id}`)).data)).not.toContain('of the');
  });

  it('is no reference of a database that runs without it, or whose engine speaks none', async () => {
    const [name, other] = [aName(), aName()];
    const { id } = await database({ name });
    await world.observe('database', id, { phase: 'running', initialised: true });
    await database({ name: other, type: 'redis' });
    expect(message(await application({ env: { CA: `\${databases.${name}.ca}` } }))).toEqual([
      400,
      `Variable CA cannot refer to \${databases.${name}.ca} as database ${name} speaks TLS from its next start on only: restart it`,
    ]);
    expect(message(await application({ env: { CA: `\${databases.${other}.ca}` } }))).toEqual([
      400,
      `Variable CA cannot refer to \${databases.${other}.ca} as TLS is not offered for Redis`,
    ]);
  });

  it('has its key in the configuration of the instances that speak it alone', async () => {
    const { id } = await database({ type: 'mariadb', password: printable });
    await certified(id);
    const pooled = await database({ connection_pooling: true });
    await certified(pooled.id);
    const view = world.mirror.tenant('default');
    const projection = new Projection({ view, unsealer: world.keyring, capabilities: new Set(agentCapabilities) });
    const filesOf = async (of: string, part: string) => {
      const { files = {} } = projection.configuration((await world.repo.get('database', of))!, part);
      return Object.fromEntries(
        Object.entries(files).map(([path, text]) => [path, Buffer.from(text, 'base64').toString()]),
      );
    };
    expect(Object.keys(await filesOf(id, '1'))).toEqual(['/etc/setpoint/client.cnf']);
    const files = await filesOf(id, '1/tls-1');
    expect(files).toMatchObject({
      '/etc/setpoint/tls.key': 'secret key',
      '/etc/setpoint/tls.crt': 'of the engineof the authority',
      '/etc/setpoint/tls-authority.crt': 'of the authority',
    });
    expect(files['/etc/setpoint/client.cnf']).toContain('\nssl="1"\n');
    expect(await filesOf(pooled.id, '1')).toEqual({});
    expect(await filesOf(pooled.id, '1/tls-1')).toHaveProperty(['/etc/setpoint/pg_hba.conf']);
    const settings = async (part: string) => (await filesOf(pooled.id, part))['/etc/setpoint/pgbouncer.ini'];
    expect(await settings('pooler/1')).not.toContain('tls');
    expect(await settings('pooler/1/tls-1')).toMatch(
      /server_tls_sslmode = verify-full\n[^]*client_tls_sslmode = allow\n/,
    );
    expect(await settings('pooler/1/tls-1-alone')).toContain('client_tls_sslmode = require\n');
    expect(await filesOf(pooled.id, 'pooler/1/tls-1')).toHaveProperty(['/etc/setpoint/tls.key'], 'secret key');
  });

  it('is had by a copy by a certificate of its own', () => {
    const tls = desiredState('database', { require_tls: true });
    tls.tls = {
      revision: 1,
      certificate: '',
      authority: '',
      key: { $sealed: '', for: '' },
      names: [],
      expires_at: '2032-01-01T00:00:00.000Z',
    };
    const rule: CopyRule<DesiredOf<'database'>> | undefined = copyRuleOf('database');
    rule?.reset?.(tls, crypto.randomUUID());
    expect([tls.require_tls, tls.tls]).toEqual([true, undefined]);
  });
});

describe('the password of a database', () => {
  const rotate = (id: string, body: object = {}): Promise<Answer> =>
    owner.post(`/databases/${id}/rotate-password`, body);
  const stored = async (id: string) => (await world.repo.get('database', id))!;
  /** Writes what the controller observes once the engine was started with the configuration. */
  const applied = async (id: string): Promise<void> => {
    const { desired } = await stored(id);
    await world.observe('database', id, {
      phase: 'running',
      initialised: true,
      config_revision: desired.config.revision,
    });
  };
  const ready = async (fields: object = {}): Promise<string> => {
    const { id } = await database(fields);
    await applied(id);
    return id;
  };
  const first = 'correct horse battery';

  it('is another one, generated or given, and the credentials show it once the engine has it', async () => {
    const id = await ready({ password: first });
    const { status, data } = await rotate(id);
    expect([status, data.applications]).toEqual([200, []]);
    expect(await credentials(id)).toMatchObject({ password: first, password_pending: true });
    await applied(id);
    const { password: second, ...rest } = await credentials(id);
    expect([second, rest.password_pending]).toEqual([expect.stringMatching(/^[\w-]{32}$/), false]);
    expect(second).not.toBe(first);
    expect((await rotate(id, { password: printable })).status).toBe(200);
    expect((await credentials(id)).password).toBe(second);
    await applied(id);
    expect((await credentials(id)).password).toBe(printable);
  });

  it('stays the one that the engine has when it is changed again before it had the other one', async () => {
    const id = await ready({ password: first });
    await rotate(id, { password: 'second password' });
    await rotate(id, { password: 'third password' });
    expect(await credentials(id)).toMatchObject({ password: first, password_pending: true });
    await applied(id);
    expect(await credentials(id)).toMatchObject({ password: 'third password', password_pending: false });
  });

  it.each(['postgres', 'mysql', 'mariadb', 'redis'])(
    'of %s is in its configuration, and nowhere in plain text',
    async (type) => {
      const id = await ready({ type });
      const before = (await stored(id)).desired;
      const answer = await rotate(id, { password: printable });
      const { desired } = await stored(id);
      expect(desired.config.revision).toBe(before.config.revision + 1);
      expect(desired.rotation?.revision).toBe(desired.config.revision);
      const opened = Object.entries(desired.config.env).map(([name, value]) =>
        world.keyring.unseal(value, { tenant: 'default', kind: 'database', id, path: `config.env.${name}` }),
      );
      expect(opened).toContain(printable);
      const texts = [
        answer.body,
        desired,
        (await owner.get('/audit?limit=500')).data,
        (await owner.get(`/databases/${id}`)).body,
      ];
      for (const text of texts) expect(JSON.stringify(text)).not.toContain(JSON.stringify(printable).slice(1, -1));
    },
  );

  it('is named with the applications and functions that have the former one until they are deployed', async () => {
    const name = aName();
    const id = await ready({ name });
    const env = { DATABASE_URL: `\${databases.${name}.url}` };
    const app = (await application({ env })).data;
    const { project_id, server_id } = app;
    const fields = { project_id, server_id, name: aName(), runtime: 'node20', code: 'export default () => 1', env };
    const fn = (await owner.post('/functions', fields)).data;
    const { data } = await rotate(id);
    expect(data.applications).toEqual([{ id: app.id, name: app.name }]);
    expect(data.functions).toEqual([{ id: fn.id, name: fn.name }]);
  });

  it('is not changed before it was ready, while a volume is restored, of MongoDB, or to what no client takes', async () => {
    const { id: fresh } = await database();
    expect(message(await rotate(fresh))).toEqual([
      409,
      'The database has not been ready yet: change its password once it was',
    ]);
    const mongo = await ready({ type: 'mongodb' });
    expect(message(await rotate(mongo))).toEqual([
      409,
      'The password of MongoDB cannot be changed yet: change it by its own tools',
    ]);
    const id = await ready();
    for (const password of ['short', 'line\nin it', 'x'.repeat(129)])
      expect(reasons(await rotate(id, { password }))).toEqual([400, ['password']]);
    const restore = crypto.randomUUID();
    const unit = world.repo.begin();
    unit.create('restore', restore, desiredState('restore', { of: { kind: 'database', id }, project_id: project }));
    await commit(unit);
    await world.settled();
    expect(message(await rotate(id))).toEqual([
      409,
      `Restore ${restore} of the database has not ended: wait for it, or cancel it`,
    ]);
    await world.observe('restore', restore, { phase: 'failed' });
    expect((await rotate(id)).status).toBe(200);
  });

  it('of a copy is that of its own new volume', () => {
    const rotated = desiredState('database', { rotation: { former: { $sealed: 'x', for: 'database' }, revision: 2 } });
    const rule: CopyRule<DesiredOf<'database'>> | undefined = copyRuleOf('database');
    rule?.reset?.(rotated, crypto.randomUUID());
    expect(rotated.rotation).toBeUndefined();
  });
});

describe('the credentials of a database', () => {
  it('lead to it from its environment and, by its port, from outside', async () => {
    const password = 'p@ss/w:rd?#[]% &=+';
    const { id, internal_id: host } = await database({ password, exposed_port: 20_030 });
    const encoded = 'p%40ss%2Fw%3Ard%3F%23%5B%5D%25%20%26%3D%2B';
    expect(await credentials(id)).toEqual({
      host: '192.0.2.7',
      port: 20_030,
      username: 'app',
      password,
      password_pending: false,
      database: 'app',
      connection_string: `postgresql://app:${encoded}@192.0.2.7:20030/app`,
      internal_host: host,
      internal_port: 5432,
      internal_connection_string: `postgresql://app:${encoded}@${host}:5432/app`,
      pooled_host: null,
      pooled_port: null,
      pooled_connection_string: null,
      require_tls: false,
      ca: null,
    });
    await owner.put(`/databases/${id}`, { exposed_port: null });
    expect(await credentials(id)).toMatchObject({ host: null, port: null, connection_string: null });
  });

  it('are for who may change it: viewers and strangers get none, and each reading is recorded', async () => {
    const password = 'correct horse battery';
    const { id } = await database({ password });
    const [member, viewer, stranger] = [await world.user(), await world.user(), await world.user()];
    for (const [user, role] of [
      [member, 'member'],
      [viewer, 'viewer'],
    ] as const)
      expect((await owner.post(`/projects/${project}/members`, { user_id: user.id, role })).status).toBe(201);
    const path = `/databases/${id}/credentials`;
    const readings = async () =>
      (await owner.get('/audit?limit=500')).data.filter(
        (it: { route: string; result: string }) => it.route === 'GET /databases/:id/credentials' && it.result === 'ok',
      ).length;
    const before = await readings();
    expect((await member.get(path)).data.password).toBe(password);
    expect(await readings()).toBe(before + 1);
    for (const [user, status] of [
      [viewer, 403],
      [stranger, 403],
    ] as const) {
      const answer = await user.get(path);
      expect(answer.status).toBe(status);
      expect(JSON.stringify(answer.body)).not.toContain(password);
    }
    expect(await readings()).toBe(before + 1);
    const seen = await viewer.get(`/databases/${id}`);
    expect([seen.status, JSON.stringify(seen.body).includes(password)]).toEqual([200, false]);
    expect((await stranger.get(`/databases/${id}`)).status).toBe(403);
  });
});

describe('a variable that refers to a database', () => {
  /** Deploys an application as its controllers do, and answers the variables that its agent would get, also for a run. */
  async function received(env: Record<string, string>): Promise<Record<string, string>> {
    const app = (await application({ env })).data.id;
    const { id } = (await owner.post(`/applications/${app}/deploy`)).data;
    const deployment = (await world.repo.get('deployment', id))!;
    const view = world.mirror.tenant('default');
    const found = resolveReferences(view, environment, deployment.desired.config.references ?? []);
    if (!('values' in found)) throw new Error(JSON.stringify(found));
    await world.observe('deployment', id, { phase: 'deploying', references: found.values });
    const assignment = await world.create('assignment', crypto.randomUUID(), {
      ...desiredState('assignment', { server_id: server, workload_kind: 'application', workload_id: app, version: id }),
      spec: serviceSpec({ config: { kind: 'deployment', id } }),
    });
    const projection = new Projection({
      view,
      unsealer: world.keyring,
      capabilities: new Set(agentCapabilities),
    });
    const sendable = projection.check(assignment);
    if (!('it' in sendable)) throw new Error(sendable.message);
    const { env: opened } = projection.configuration(sendable.holder!, sendable.part);
    const run = crypto.randomUUID();
    const once = await world.create('assignment', crypto.randomUUID(), {
      ...desiredState('assignment', { server_id: server, workload_kind: 'run', workload_id: run, version: run }),
      spec: {
        type: 'run',
        application_id: app,
        command: ['true'],
        image: 'example/web:1',
        env: { ...deployment.desired.config.env },
        references: found.values,
        network: 'sp-test',
        mounts: [],
        limits: {},
        deadline_seconds: 60,
        attempt: 1,
      },
    });
    expect(projection.item({ it: once, holder: undefined }).spec).toMatchObject({ env: opened });
    return opened;
  }

  it.each([
    ['postgres', 'postgresql', 'app', 5432, 'app', ''],
    ['mysql', 'mysql', 'app', 3306, 'app', ''],
    ['mariadb', 'mysql', 'app', 3306, 'app', ''],
    ['redis', 'redis', '', 6379, '0', ''],
    ['mongodb', 'mongodb', 'app', 27_017, 'app', '?authSource=admin'],
  ])(
    'of type %s has each byte of its password, percent-encoded in its URL',
    async (type, scheme, user, port, name, more) => {
      const { name: db, internal_id: host } = await database({ type, password: printable });
      const of = (attribute: string) => `\${databases.${db}.${attribute}}`;
      const env = await received({
        HOST: of('host'),
        PORT: of('port'),
        USER: of('user'),
        PASSWORD: of('password'),
        NAME: of('name'),
        URL: of('url'),
        BOTH: `<${of('password')}|${of('url')}>`,
        LITERAL: '$${databases.x.url}',
      });
      const encoded = printable
        .split('')
        .map((it) => (/[\w.~-]/.test(it) ? it : `%${it.charCodeAt(0).toString(16).toUpperCase()}`))
        .join('');
      const url = `${scheme}://${user}:${encoded}@${host}:${port}/${name}${more}`;
      expect(env).toEqual({
        HOST: host,
        PORT: String(port),
        USER: type === 'redis' ? 'default' : 'app',
        PASSWORD: printable,
        NAME: name,
        URL: url,
        BOTH: `<${printable}|${url}>`,
        LITERAL: '${databases.x.url}',
      });
      expect(decodeURIComponent(new URL(url).password)).toBe(printable);
      expect(decodeURIComponent(new URL((await credentialsOf(db)).internal_connection_string).password)).toBe(
        printable,
      );
    },
  );

  async function credentialsOf(name: string) {
    const { data } = await owner.get(`/databases?projectId=${project}&q=${name}&limit=500`);
    return credentials(data.find((it: Made) => it.name === name).id);
  }

  it('leaves no password in the store, as it is or in a form that programs read', async () => {
    const password = 'needle"in\\a $haystack';
    for (const type of ['postgres', 'mysql', 'mariadb', 'redis', 'mongodb']) {
      const { name } = await database({ type, password });
      await received({ A: `\${databases.${name}.url}`, B: `\${databases.${name}.password}` });
    }
    const all = (await entriesOf(world.store)).map(({ value }) => value).join('\n');
    const forms = ['needle', 'haystack', Buffer.from('needle').toString('base64').slice(0, 8)];
    for (const form of [...forms, encodeURIComponent(password)]) expect(all).not.toContain(form);
    expect(all).toContain('$sealed');
  });

  it('is refused where there is no such database or attribute, and in another environment', async () => {
    const { name } = await database();
    const refused = async (env: object, fields: object = {}) => {
      const answer = await application({ env, ...fields });
      expect(answer.status).toBe(400);
      return answer.body.error?.message;
    };
    expect(await refused({ URL: '${databases.nowhere.url}' })).toContain(
      'its environment has no database named nowhere',
    );
    expect(await refused({ URL: `\${databases.${name}.secret}` })).toContain(
      'of a database one can refer to host, port, user, password, name, url',
    );
    const staging = (await owner.post(`/projects/${project}/environments`, { name: aName() })).data.id;
    expect(await refused({ URL: `\${databases.${name}.url}` }, { environment_id: staging })).toContain(
      `its environment has no database named ${name}`,
    );
  });

  it('links both, and keeps the database from being deleted or renamed until it is gone', async () => {
    const { id, name, data_volume_id: volume } = await database();
    const env = { URL: `\${databases.${name}.url}`, HOST: `\${databases.${name.toUpperCase()}.host}` };
    const app = (await application({ env })).data;
    const linked = (await owner.get(`/databases/${id}/dependencies`)).data;
    expect(linked).toEqual({
      applications: [{ id: app.id, name: app.name }],
      databases: [],
      volumes: [{ id: volume, name }],
      functions: [],
      template_instance: null,
    });
    const { data } = await owner.get(`/applications/${app.id}/dependencies`);
    expect(data.databases).toEqual([{ id, name }]);
    const words = `Variables of ${app.name} refer to the database`;
    const refused = await owner.delete(`/databases/${id}`);
    expect(message(refused)).toEqual([409, `${words}: change them, or send force=true`]);
    expect(refused.body.error?.details?.[0]?.reason).toBe('force_needed');
    expect(message(await owner.put(`/databases/${id}`, { name: aName() }))).toEqual([
      409,
      `${words}: change them first`,
    ]);
    expect((await owner.put(`/databases/${id}`, { name, memory_limit: '1g' })).status).toBe(200);
    expect((await owner.put(`/applications/${app.id}/env`, { env: { URL: 'none' } })).status).toBe(200);
    expect((await owner.get(`/databases/${id}/dependencies`)).data.applications).toEqual([]);
    expect((await owner.put(`/databases/${id}`, { name: aName() })).status).toBe(200);
    expect((await owner.delete(`/databases/${id}`)).data.status).toBe('deleting');
  });

  it('does not keep the database from being deleted by force', async () => {
    const { id, name } = await database();
    await application({ env: { URL: `\${databases.${name}.url}` } });
    expect((await owner.delete(`/databases/${id}?force=true`)).data.status).toBe('deleting');
  });
});

describe('the copy of a database in a clone of its environment', () => {
  let port = 20_040;

  it.each(['postgres', 'mysql', 'redis', 'mongodb'])(
    'of type %s has a name, a volume and secrets of its own',
    async (type) => {
      const made = await database({ type, password: printable, exposed_port: (port += 1) });
      const clone = crypto.randomUUID();
      await world.create('environment', clone, { project_id: project, name: aName(), type: 'staging' });
      const view = world.mirror.tenant('default');
      const ids = new Map(copiedFrom(view, environment).map(({ meta }) => [meta.id, copyIdOf(clone, meta.id)]));
      ids.set(environment, clone);
      const copyOf = async <K extends 'database' | 'volume'>(kind: K, id: string): Promise<DesiredOf<K>> => {
        const source = (await world.repo.get(kind, id))!;
        const rule = copyRuleOf(kind) as unknown as CopyRule<DesiredOf<K>>;
        const of = { tenant: 'default', kind, id, copyId: ids.get(id)!, idOf: (one: string) => ids.get(one) };
        return copyDesired(rule, { ...of, desired: source.desired as never }, world.keyring);
      };
      const [id, volume] = [ids.get(made.id)!, ids.get(made.data_volume_id)!];
      const copy = await copyOf('database', made.id);
      await world.create('database', id, copy);
      await world.create('volume', volume, await copyOf('volume', made.data_volume_id));
      const shown = (await owner.get(`/databases/${id}`)).data;
      expect(shown).toMatchObject({
        name: made.name,
        environment_id: clone,
        data_volume_id: volume,
        exposed_port: null,
      });
      expect(shown.internal_id).not.toBe(made.internal_id);
      expect((await owner.get(`/volumes/${volume}`)).data).toMatchObject({ database_id: id, environment_id: clone });
      expect((await credentials(id)).password).toBe(printable);
      expect((await credentials(id)).internal_host).toBe(shown.internal_id);
      const seals = JSON.stringify(copy).match(/"for":"[^"]*"/g)!;
      expect(seals.length).toBeGreaterThan(1);
      for (const seal of seals) expect(seal).toContain(`database/${id}/`);
    },
  );
});
