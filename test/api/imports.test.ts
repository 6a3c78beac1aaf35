import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import type { CallParams, ImportStreamParams } from '../../agent-protocol/messages.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { agentIsThere } from '../harness/running-instance.ts';
import { until } from '../harness/until.ts';

const unlimited = { perMinute: 0, burst: 1 };

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
/** What the agent of the server was sent, and how that ended. */
let sent: { params: ImportStreamParams; bytes: number; end: 'whole' | 'cut' | 'open' }[];

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  await agentIsThere(world.store, { server });
  await world.settled();
  takes();
});
afterEach(() => takes());
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** The agent takes what comes. */
function takes(): void {
  sent = [];
  world.agents.uploaded = async function* (params, incoming) {
    const it: (typeof sent)[number] = { params, bytes: 0, end: 'open' };
    sent.push(it);
    try {
      for await (const chunk of incoming) it.bytes += chunk.length;
      it.end = 'whole';
    } finally {
      if (it.end === 'open') it.end = 'cut';
    }
    yield* [];
  };
}

let count = 0;
async function aDatabase(fields: object = {}): Promise<string> {
  const body = { project_id: project, name: `name-${(count += 1)}`, type: 'postgres', ...fields };
  const { data, status } = await owner.post('/databases', body);
  expect(status).toBe(201);
  await world.observe('database', data.id, { phase: 'running' });
  return data.id;
}

const said = ({ status, body }: Answer) => [status, body.error?.message];
const formOf = (content: string): FormData => {
  const form = new FormData();
  form.append('file', new Blob([content]), 'dump.sql');
  return form;
};

async function upload(database: string, form: FormData, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${world.url}/default/api/v1/databases/${database}/import`, {
    method: 'POST',
    headers: { authorization: `Bearer ${owner.token ?? ''}`, ...headers },
    body: form,
  });
  const body = (await response.json()) as Answer['body'];
  return { status: response.status, headers: response.headers, body, data: body.data };
}

describe('an import of a file', () => {
  it('goes on to the server as it comes, and into a new volume beside what serves', async () => {
    const id = await aDatabase();
    const before = (await owner.get(`/databases/${id}`)).data;
    const content = 'SELECT 1;\n'.repeat(100_000);
    const { status, data } = await upload(id, formOf(content));
    expect(status).toBe(201);
    expect(data).toMatchObject({
      database_id: id,
      backup_id: null,
      source: { kind: 'upload', url: null, path: null, size_bytes: content.length },
      status: 'pending',
      former_volume_id: null,
    });
    expect(data.volume_id).not.toBe(before.data_volume_id);
    expect((await owner.get(`/databases/${id}`)).data.data_volume_id).toBe(before.data_volume_id);
    expect(sent).toEqual([
      {
        params: { kind: 'import', id: data.id, engine: 'postgres', size_bytes: expect.any(Number) },
        bytes: content.length,
        end: 'whole',
      },
    ]);
    expect(said(await upload(id, formOf('SELECT 1;')))).toEqual([409, expect.stringContaining('has not ended')]);
    expect(sent).toHaveLength(1);
  });

  it('that is cut off changes nothing', async () => {
    const id = await aDatabase();
    const { hostname, port } = new URL(world.url);
    const asking = httpRequest({
      host: hostname,
      port,
      method: 'POST',
      path: `/default/api/v1/databases/${id}/import`,
      headers: {
        authorization: `Bearer ${owner.token ?? ''}`,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': '1000000',
      },
    });
    asking.on('error', () => undefined);
    asking.write('--b\r\ncontent-disposition: form-data; name="file"; filename="d"\r\n\r\nSELECT 1;');
    await until('the agent gets something', async () => sent.length === 1);
    asking.destroy();
    await new Promise((resolve) => {
      asking.once('close', resolve);
    });
    await until('the agent knows that it was cut', async () => sent[0]?.end === 'cut');
    const { data } = await owner.get('/restores?limit=100');
    expect(data.filter((it: { database_id: string }) => it.database_id === id)).toEqual([]);
  });

  it('waits for the server: the control plane holds only what is on its way', async () => {
    const id = await aDatabase();
    const go = Promise.withResolvers<void>();
    let taken = 0;
    world.agents.uploaded = async function* (_, incoming) {
      for await (const chunk of incoming) {
        taken += chunk.length;
        await go.promise;
      }
      yield* [];
    };
    let written = 0;
    const { hostname, port } = new URL(world.url);
    const total = 64 * 1024 * 1024;
    const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="d"\r\n\r\n';
    const tail = '\r\n--b--\r\n';
    const asking = httpRequest({
      host: hostname,
      port,
      method: 'POST',
      path: `/default/api/v1/databases/${id}/import`,
      headers: {
        authorization: `Bearer ${owner.token ?? ''}`,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': String(head.length + total + tail.length),
      },
    });
    const answered = once(asking, 'response');
    asking.write(head);
    const piece = Buffer.alloc(256 * 1024, 0x20);
    let isFull = false;
    const writing = (async () => {
      for (; written < total; written += piece.length)
        if (!asking.write(piece)) {
          const drained = once(asking, 'drain').then(() => 'drained');
          const waited = new Promise((resolve) => setTimeout(resolve, 300, 'full'));
          isFull ||= (await Promise.race([drained, waited])) === 'full';
          if (isFull) go.resolve();
          await drained;
        }
      asking.end(tail);
    })();
    await until('the way is full', async () => isFull);
    expect(written).toBeLessThan(total / 2);
    await writing;
    const [response] = await answered;
    response.resume();
    expect([response.statusCode, taken]).toEqual([201, total]);
  });

  it('that the server refuses is refused with its reason', async () => {
    world.agents.uploaded = () => {
      throw new CallError('invalid_dump', 'The dump cannot be imported: It is a file of Redis');
    };
    const id = await aDatabase();
    expect(said(await upload(id, formOf('REDIS0012')))).toEqual([409, expect.stringContaining('a file of Redis')]);
    takes();
    expect((await upload(id, formOf('SELECT 1;'))).status).toBe(201);
  });

  it('is answered once for a key that is repeated', async () => {
    const id = await aDatabase();
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const first = await upload(id, formOf('SELECT 1;'), headers);
    expect(first.status).toBe(201);
    expect((await upload(id, formOf('SELECT 1;'), headers)).data.id).toBe(first.data.id);
    expect(sent).toHaveLength(1);
  });

  it('needs a form with one file', async () => {
    const id = await aDatabase();
    const empty = new FormData();
    empty.append('name', 'value');
    expect(said(await upload(id, empty))).toEqual([400, expect.stringContaining('has no file')]);
    const two = formOf('SELECT 1;');
    two.append('file', new Blob(['SELECT 2;']), 'other.sql');
    expect(said(await upload(id, two))).toEqual([400, expect.stringContaining('too many parts')]);
    expect((await owner.post(`/databases/${id}/import`, {})).status).toBe(400);
    expect((await owner.post(`/databases/${id}/import`, { file: { sizeBytes: 1 } })).status).toBe(400);
  });
});

describe('an import of an address', () => {
  it('keeps what may be a secret to itself', async () => {
    const id = await aDatabase();
    const url = 'https://dumps.example.test/shop.sql.gz?signature=sesame';
    const { status, data } = await owner.post(`/databases/${id}/import`, { url });
    expect(status).toBe(201);
    expect(data.source).toEqual({
      kind: 'url',
      url: 'https://dumps.example.test/shop.sql.gz',
      path: null,
      size_bytes: null,
    });
    expect(JSON.stringify(await world.repo.get('restore', data.id))).not.toContain('sesame');
    const records = JSON.stringify((await owner.get('/audit?limit=500')).data);
    expect(records).toContain('POST /databases/:id/import');
    expect(records).not.toContain('sesame');
  });

  it.each(['ftp://dumps.example.test/a', 'dump.sql', 'https://user:word@dumps.example.test/a'])(
    'is refused for %s',
    async (url) => {
      expect((await owner.post(`/databases/${await aDatabase()}/import`, { url })).status).toBe(400);
    },
  );
});

describe('a restore from a path', () => {
  it('is asked of the server first', async () => {
    const asked: CallParams[] = [];
    world.agents.answer = (_, call) => {
      asked.push(call);
      return { size_bytes: 4096 };
    };
    const id = await aDatabase({ type: 'mariadb' });
    const { status, data } = await owner.post(`/databases/${id}/restore-from-path`, { path: 'shop.sql' });
    expect(status).toBe(201);
    expect(data.source).toEqual({ kind: 'path', url: null, path: 'shop.sql', size_bytes: 4096 });
    expect(asked).toEqual([{ method: 'import.look', path: 'shop.sql', engine: 'mariadb' }]);
  });

  it('is refused with the reason of the server', async () => {
    const id = await aDatabase();
    const from = () => owner.post(`/databases/${id}/restore-from-path`, { path: '../etc/passwd' });
    world.agents.answer = () => {
      throw new CallError('invalid_path', 'Only files below /imports are imported');
    };
    expect(said(await from())).toEqual([400, expect.stringContaining('Only files below')]);
    world.agents.answer = () => {
      throw new CallError('invalid_dump', 'The dump cannot be imported: It is empty');
    };
    expect(said(await from())).toEqual([409, expect.stringContaining('It is empty')]);
  });

  it('is for admins of the tenant alone', async () => {
    const id = await aDatabase();
    const user = await world.user();
    const { data } = await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'admin' });
    expect(data.role).toBe('admin');
    expect((await user.post(`/databases/${id}/restore-from-path`, { path: 'shop.sql' })).status).toBe(403);
  });
});

describe('no import', () => {
  it('goes into MongoDB', async () => {
    const id = await aDatabase({ type: 'mongodb' });
    const refused = [409, expect.stringContaining('mongorestore')];
    expect(said(await owner.post(`/databases/${id}/import`, { url: 'https://dumps.example.test/a' }))).toEqual(refused);
    expect(said(await owner.post(`/databases/${id}/restore-from-path`, { path: 'a' }))).toEqual(refused);
    expect(said(await upload(id, formOf('SELECT 1;')))).toEqual(refused);
    expect(sent).toEqual([]);
  });

  it('is asked of an agent of an earlier release', async () => {
    const id = await aDatabase();
    const capabilities = agentCapabilities.filter((it) => it !== 'tasks.import');
    await agentIsThere(world.store, { server }, { capabilities });
    await world.settled();
    expect(said(await upload(id, formOf('SELECT 1;')))).toEqual([409, expect.stringContaining('upgrade the agent')]);
    expect(sent).toEqual([]);
    await agentIsThere(world.store, { server });
    await world.settled();
  });
});
