import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { valuesLimits } from '../../agent-protocol/survey.ts';
import type { Survey } from '../../agent-protocol/survey.ts';
import { outcomeUnknown, unavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { FailingStore } from '../harness/failing-store.ts';
import { composed, imageOf, mounted, published, surveyed, surveyOf, volumeOf } from '../harness/surveyed.ts';

const secret = 'hunter2-very-secret';

let world: ApiWorld;
let owner: Client;
let server: string;
let project: string;
let environment: string;
/** Name of the project. */
let called: string;
let store: FailingStore;
let survey: Survey;
/** By name of the container; what is not here is gone by the time that its values are asked for. */
let values: Record<string, Record<string, string> | 'too much'>;
let asked: CallParams[];
const answers: Answer[] = [];

beforeEach(async () => {
  world = await startApi({ logLevel: 'trace', wrap: (inner) => (store = new FailingStore(inner)) });
  owner = await world.owner();
  ({ server, project, environment } = await world.place(owner));
  called = (await owner.get(`/projects/${project}`)).data.name;
  asked = [];
  answers.length = 0;
  values = {};
  world.agents.answer = (_, params) => {
    asked.push(params);
    if (params.method !== 'survey.values') return survey;
    return {
      containers: params.containers.flatMap((id) => {
        const { name = '' } = survey.containers.find((one) => one.id === id) ?? {};
        const env = values[name];
        if (env === undefined) return [];
        return env === 'too much' ? [{ id }] : [{ id, env }];
      }),
    };
  };
  await connect();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
  // whatever was done: no value in an answer, in the audit log or in a line of the log
  expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain(secret);
  expect(world.logged.join('\n')).not.toContain(secret);
});

async function connect(
  capabilities: readonly string[] = ['survey', 'survey.values', 'volumes.copy'],
  forbids: readonly string[] = [],
): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', capabilities, forbids });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  await world.settled();
}

async function take(names: readonly string[], body: object = {}): Promise<Answer> {
  const answer = await owner.post(`/servers/${server}/adopt`, { project_id: project, take: names, ...body });
  answers.push(answer, await owner.get('/audit'), await owner.get('/notifications'));
  return answer;
}

async function made(kind: 'applications' | 'volumes') {
  return (await owner.get(`/${kind}`)).data as { id: string; name: string }[];
}

async function nothingIsMade(): Promise<void> {
  expect([...(await made('applications')), ...(await made('volumes'))]).toEqual([]);
}

const reasons = ({ body }: Answer) => body.error?.details?.map(({ field, reason }) => `${field} ${reason}`);

describe('what is taken over', () => {
  it('becomes an application with the values of its variables, which are in no answer', async () => {
    survey = surveyOf([surveyed('web', { env: ['TOKEN', 'EMPTY'], command: ['serve', 'a b'] })]);
    values = { web: { TOKEN: secret, EMPTY: '' } };
    const { status, data } = await take(['web']);
    expect([status, data.taken]).toEqual([
      200,
      [{ kind: 'application', name: 'web', id: expect.any(String), deployment_id: null }],
    ]);
    expect(data.plan).toHaveLength(1);
    const { id } = data.taken[0];
    expect((await owner.get(`/applications/${id}`)).data).toMatchObject({
      name: 'web',
      server_id: server,
      environment_id: environment,
      image_url: expect.stringContaining('nginx:1.27@sha256:'),
      start_command: "serve 'a b'",
      run: 'stopped',
    });
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ TOKEN: secret, EMPTY: '' });
    const stored = await world.store.get(keys.desired('default', 'application', id));
    expect(stored?.value).not.toContain(secret);
    expect((await owner.get(`/applications/${id}/deployments`)).data).toEqual([]);
    expect(data.remaining).toEqual([
      `setpoint deploy web --project ${called}`,
      'Once web serves: On the server: docker update --restart no web && docker stop web',
    ]);
  });

  it('keeps capabilities that an admin may grant, which the plan says', async () => {
    const settings = [{ name: 'capabilities', value: 'IPC_LOCK, NET_RAW' }];
    survey = surveyOf([surveyed('web', { settings })]);
    const { data } = await take(['web']);
    const { capabilities } = (await owner.get(`/applications/${data.taken[0].id}`)).data;
    expect(capabilities).toEqual(['IPC_LOCK', 'NET_RAW']);
  });

  it('is deployed by the id of an image that no registry has, whose name may be that of another one since', async () => {
    const local = imageOf('shop-web:1', { digests: [], is_shared: true });
    survey = surveyOf([
      surveyed('web', { image: local }),
      surveyed('known', { image: { ...imageOf('nginx:1.27'), is_shared: true } }),
    ]);
    const { data } = await take(['web', 'known'], { deploy: true });
    const deployments = await Promise.all(
      data.taken.map(
        async (one: { deployment_id: string }) => (await owner.get(`/deployments/${one.deployment_id}`)).data,
      ),
    );
    expect(deployments.map(({ image, image_digest }) => [image, image_digest])).toEqual([
      ['shop-web:1', local.id],
      [expect.stringContaining('nginx:1.27@sha256:'), null],
    ]);
    const { id } = data.taken[0];
    expect((await owner.get(`/applications/${id}`)).data.image_url).toBe('shop-web:1');
  });

  it('is deployed by that id later, too, unless it was given another image', async () => {
    const local = imageOf('shop-web:1', { digests: [], is_shared: true });
    survey = surveyOf([surveyed('web', { image: local }), surveyed('other', { image: local })]);
    const { data } = await take(['web', 'other']);
    const [web, other] = data.taken;
    await owner.put(`/applications/${other.id}`, { image_url: 'shop-web:2' });
    const deployed = async ({ id }: { id: string }) =>
      (await owner.get(`/deployments/${(await owner.post(`/applications/${id}/deploy`, {})).data.id}`)).data;
    expect((await deployed(web)).image_digest).toBe(local.id);
    expect((await deployed(other)).image_digest).toBeNull();
  });

  it('is in the audit log by name, with who took it', async () => {
    survey = surveyOf(
      [surveyed('web', { env: ['TOKEN'], mounts: [mounted('web_data', '/data')] })],
      [volumeOf('web_data')],
    );
    values = { web: { TOKEN: secret } };
    await take(['web']);
    const [newest] = (await owner.get('/audit')).data;
    expect(newest).toMatchObject({ route: 'POST /servers/:id/adopt', result: 'ok', project_id: project });
    const names = newest.objects.map(({ kind, name, action }: Record<string, string>) => `${action} ${kind} ${name}`);
    expect(names).toEqual(expect.arrayContaining(['create volume web_data', 'create application web']));
  });

  it('mounts volumes that begin as copies of those of Docker, and is deployed if that is asked for', async () => {
    survey = surveyOf(
      [
        composed('shop', 'db', { image: imageOf('postgres:17'), env: ['P'], mounts: [mounted('shop_data', '/data')] }),
        composed('shop', 'web'),
      ],
      [volumeOf('shop_data', { project: 'shop' })],
    );
    values = { 'shop-db-1': { P: secret } };
    const { status, data } = await take(['web', 'db', 'data'], { deploy: true });
    expect(status).toBe(200);
    expect(data.taken).toEqual([
      { kind: 'volume', name: 'data', id: expect.any(String), deployment_id: null },
      { kind: 'database', name: 'db', id: expect.any(String), deployment_id: expect.any(String) },
      { kind: 'application', name: 'web', id: expect.any(String), deployment_id: expect.any(String) },
    ]);
    const [volume, db, web] = data.taken;
    expect((await owner.get(`/volumes/${volume.id}`)).data).toMatchObject({
      server_id: server,
      copy_from: { docker_volume: 'shop_data', containers: ['shop-db-1'] },
      bindings: [{ workload_id: db.id, mount_path: '/data', read_only: false }],
    });
    const { data: deployment } = await owner.get(`/deployments/${db.deployment_id}`);
    expect(deployment).toMatchObject({ application_id: db.id, number: 1, trigger: 'manual', status: 'queued' });
    expect((await owner.get(`/applications/${web.id}`)).data).toMatchObject({
      run: 'running',
      deployment_id: web.deployment_id,
    });
    expect(data.remaining).toEqual([
      'On the server: docker update --restart no shop-db-1 && docker stop shop-db-1: its data is copied then, and db starts by itself once that is done',
      'Once web serves: On the server: docker update --restart no shop-web-1 && docker stop shop-web-1',
    ]);
  });

  it('is not deployed while a port of the server or a name of its network stands against it', async () => {
    await owner.put(`/servers/${server}`, { direct_ports_enabled: true });
    survey = surveyOf(
      [
        surveyed('front', { ports: [published(8080, 8080)] }),
        surveyed('files', { ports: [published(8090, 8090)], mounts: [mounted('files', '/f')] }),
        composed('shop', 'db', { image: imageOf('redis:8') }),
        composed('shop', 'web', { env: ['URL', 'OTHER'], exposed: [8081] }),
      ],
      [volumeOf('files')],
    );
    values = { 'shop-web-1': { URL: `redis://:${secret}@db:6379/0`, OTHER: 'mydb db-2 x.db.y' } };
    // a database without a volume is not possible: the name is its neighbour's all the same
    const { status, data } = await take(['front', 'files', 'web'], { deploy: true });
    expect(status).toBe(200);
    const taken = data.taken.map(({ kind, name, deployment_id: id }: Record<string, string | null>) => [
      kind,
      name,
      id,
    ]);
    // its port is free once its data is copied
    expect(taken).toEqual([
      ['volume', 'files', null],
      ['application', 'front', null],
      ['application', 'files', expect.any(String)],
      ['application', 'web', null],
    ]);
    expect(data.remaining).toEqual([
      'On the server: docker update --restart no front && docker stop front',
      `setpoint deploy front --project ${called}`,
      'On the server: docker update --restart no files && docker stop files: its data is copied then, and files starts by itself once that is done',
      `Change URL of web, which has the name db: in Setpoint that is the internal_id of what db becomes (setpoint env set web NAME=VALUE --project ${called})`,
      'On the server: docker update --restart no shop-web-1 && docker stop shop-web-1',
      `setpoint deploy web --project ${called}`,
    ]);
  });

  it('is found again if its container was made anew, and a name with both spellings of the place is the same', async () => {
    survey = surveyOf([surveyed('web', { env: ['A'] })]);
    values = { web: { A: '1' } };
    await owner.post(`/servers/${server}/adopt`, {});
    survey = surveyOf([{ ...surveyed('web', { env: ['A'] }), id: 'f'.repeat(64) }]);
    const body = { projectId: project, environmentId: environment, take: ['web'] };
    const { status, data } = await owner.post(`/servers/${server}/adopt`, body);
    expect([status, data.taken.length]).toEqual([200, 1]);
    expect(asked.at(-1)).toEqual({ method: 'survey.values', containers: ['f'.repeat(64)] });
  });

  it('is a volume alone, if that is what has the name', async () => {
    survey = surveyOf([surveyed('web', { mounts: [mounted('rows', '/data')] })], [volumeOf('rows')]);
    const { data } = await take(['rows']);
    expect(data.taken).toMatchObject([{ kind: 'volume', name: 'rows' }]);
    expect(await made('applications')).toEqual([]);
    expect(asked.map(({ method }) => method)).toEqual(['survey']);
    expect(data.remaining).toEqual([
      'On the server: docker update --restart no web && docker stop web: what is in volume rows is copied then',
      `setpoint bind rows APPLICATION PATH --project ${called}`,
    ]);
  });

  it('has its values masked for those who may read the application and not its secrets', async () => {
    survey = surveyOf([surveyed('web', { env: ['TOKEN'] })]);
    values = { web: { TOKEN: secret } };
    const { data } = await take(['web']);
    const viewer = await world.user();
    await owner.post(`/projects/${project}/members`, { user_id: viewer.id, role: 'viewer' });
    const shown = await viewer.get(`/applications/${data.taken[0].id}/env`);
    answers.push(shown, await viewer.get('/applications'));
    expect(shown.data).toMatchObject({ masked: true, env: { TOKEN: expect.stringMatching(/^\*+$/) } });
  });

  it('is whole or not there where the control plane ends in the middle, and a retry makes it once', async () => {
    survey = surveyOf(
      [surveyed('web', { env: ['TOKEN'], mounts: [mounted('rows', '/data')] }), surveyed('worker', { env: ['TOKEN'] })],
      [volumeOf('rows')],
    );
    values = { web: { TOKEN: secret }, worker: { TOKEN: secret } };
    const body = { project_id: project, take: ['web', 'worker'], deploy: true };
    const ask = async (key?: string) => {
      const answer = await owner.post(
        `/servers/${server}/adopt`,
        body,
        key === undefined ? {} : { 'idempotency-key': key },
      );
      answers.push(answer);
      return answer;
    };
    const namesMade = async () => [...(await made('volumes')), ...(await made('applications'))].map(({ name }) => name);
    store.setFault(() => ({ before: unavailable('down') }));
    expect((await ask('once')).status).toBe(503);
    store.heal();
    expect(await namesMade()).toEqual([]);
    // it is written, and the answer is lost
    store.setFault(() => ({ after: outcomeUnknown('cut') }));
    expect((await ask('once')).status).toBe(503);
    store.heal();
    const whole = ['rows', 'web', 'worker'];
    expect((await namesMade()).toSorted()).toEqual(whole);
    const again = await ask('once');
    expect([again.status, again.data.taken.map(({ name }: { name: string }) => name)]).toEqual([200, whole]);
    const ids = again.data.taken.slice(1).map(({ id }: { id: string }) => id);
    const other = await ask();
    expect([other.status, reasons(other)]).toEqual([
      409,
      ['take.0 name_taken', 'take.0 name_taken', 'take.1 name_taken'],
    ]);
    for (const id of ids) expect(JSON.stringify(other.body.error)).toContain(id);
    expect((await namesMade()).toSorted()).toEqual(whole);
  });

  it('is answered once more, and made once, for the same Idempotency-Key', async () => {
    survey = surveyOf([surveyed('web', { env: ['TOKEN'] })]);
    values = { web: { TOKEN: secret } };
    const body = { project_id: project, take: ['web'] };
    const ask = () => owner.post(`/servers/${server}/adopt`, body, { 'idempotency-key': 'once' });
    const first = await ask();
    const again = await ask();
    answers.push(first, again);
    expect([again.status, again.data.taken]).toEqual([200, first.data.taken]);
    expect(await made('applications')).toHaveLength(1);
  });
});

describe('nothing is taken over', () => {
  it('with every reason for every name, before a value leaves the server', async () => {
    survey = surveyOf(
      [
        surveyed('web', { env: ['TOKEN'] }),
        surveyed('agent', { settings: [{ name: 'privileged', value: '' }], restart: 'always', networks: ['host'] }),
        surveyed('data', { mounts: [mounted('deep', '/a b'), mounted('deeper', '/a b/c')] }),
        surveyed('busy', { mounts: [mounted('used', '/data')] }),
      ],
      [volumeOf('deep'), volumeOf('deeper'), volumeOf('used')],
    );
    values = { web: { TOKEN: secret } };
    const place = { project_id: project, server_id: server };
    await owner.post('/volumes', { ...place, name: 'used' });
    await owner.post('/applications', { ...place, name: 'Web', source_type: 'image', image_url: 'nginx:1' });
    const answer = await take(['gone', 'agent', 'data', 'web', 'busy']);
    expect([answer.status, answer.body.error?.code]).toEqual([409, 'CONFLICT']);
    expect(answer.body.error?.message).toContain('gone, agent, data, web, busy');
    expect(reasons(answer)).toEqual([
      'take.0 unknown',
      'take.1 privileged',
      'take.2 mount',
      'take.2 mount',
      'take.2 mount',
      'take.3 name_taken',
      'take.4 name_taken',
    ]);
    expect(asked.map(({ method }) => method)).toEqual(['survey']);
    expect([(await made('applications')).length, (await made('volumes')).length]).toEqual([1, 1]);
  });

  it('where another request takes one of the names meanwhile', async () => {
    survey = surveyOf(
      [surveyed('web', { env: ['TOKEN'] }), surveyed('files', { env: ['TOKEN'], mounts: [mounted('rows', '/data')] })],
      [volumeOf('rows')],
    );
    const place = { project_id: project, server_id: server };
    const others = {
      web: () => owner.post('/applications', { ...place, name: 'WEB', source_type: 'image', image_url: 'nginx:1' }),
      files: () => owner.post('/volumes', { ...place, name: 'Rows' }),
    };
    for (const [name, other] of Object.entries(others)) {
      world.agents.answer = async (_, { method }) => {
        if (method === 'survey') return survey;
        expect((await other()).status).toBe(201);
        return { containers: survey.containers.map(({ id }) => ({ id, env: { TOKEN: secret } })) };
      };
      const answer = await take([name]);
      expect([answer.status, reasons(answer)]).toEqual([409, ['take.0 name_taken']]);
      expect(JSON.stringify(answer.body.error?.details)).toContain(
        'rename or delete it, or choose another environment',
      );
    }
    expect([(await made('applications')).length, (await made('volumes')).length]).toEqual([1, 1]);
  });

  it('of a container that is gone, or whose variables no application can have', async () => {
    survey = surveyOf([
      surveyed('web', { env: ['TOKEN'] }),
      surveyed('gone', { env: ['A'] }),
      surveyed('big', { env: ['A'] }),
      surveyed('unset', { env: ['A', 'B'] }),
      surveyed('odd', { env: ['A'] }),
      surveyed('long', { env: ['A'] }),
    ]);
    values = {
      web: { TOKEN: secret },
      big: 'too much',
      unset: { A: secret },
      odd: { A: `${secret}\uFFFD` },
      long: { A: secret.repeat(10_000) },
    };
    const answer = await take(['web', 'gone', 'big', 'unset', 'odd', 'long']);
    expect(answer.status).toBe(409);
    expect(reasons(answer)).toEqual([
      'take.1 unknown',
      'take.2 too_large',
      'take.3 variables',
      'take.4 variables',
      'take.5 variables',
    ]);
    await nothingIsMade();
  });

  it('whose variables or ports have no room', async () => {
    await owner.put(`/servers/${server}`, { direct_ports_enabled: true });
    const many = Array.from({ length: 20 }, (_, n) => `V${n}`);
    survey = surveyOf([
      surveyed('much', { env: many, exposed: [] }),
      surveyed('a', { ports: [published(80, 80)] }),
      surveyed('b', { ports: [published(9000, 9000)] }),
      surveyed('c', { ports: [published(9001, 9000)] }),
    ]);
    values = { much: Object.fromEntries(many.map((name) => [name, 'x'.repeat(20 * 1024)])) };
    const full = await take(['much']);
    expect([full.status, reasons(full)]).toEqual([409, ['take.0 limit']]);
    const ports = await take(['a', 'b', 'c'], { deploy: true });
    expect([ports.status, reasons(ports)]).toEqual([409, ['take.0 port_not_allowed', 'take.2 port_taken']]);
    await nothingIsMade();
  });

  it('if it is more than one transaction has room for, with what to do', async () => {
    const names = Array.from({ length: 16 }, (_, n) => `web-${n}`);
    survey = surveyOf(names.map((name) => surveyed(name)));
    const answer = await take(names);
    expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining('take fewer')]);
    await nothingIsMade();
    expect((await take(names.slice(0, 7), { deploy: true })).data.taken).toHaveLength(7);
  });

  it('into a project or an environment that is not there, or by a body that contradicts itself', async () => {
    survey = surveyOf([surveyed('web')]);
    const unknown = crypto.randomUUID();
    const post = (body: object) => owner.post(`/servers/${server}/adopt`, body);
    const cases: [object, number][] = [
      [{ take: ['web'] }, 400],
      [{ environment_id: environment }, 400],
      [{ project_id: project, deploy: true }, 400],
      [{ project_id: project, take: [] }, 400],
      [{ project_id: project, take: ['web', 'web'] }, 400],
      [{ project_id: project, take: Array.from({ length: valuesLimits.containers + 1 }, (_, n) => `a${n}`) }, 400],
      [{ project_id: unknown, take: ['web'] }, 404],
      [{ project_id: project, environment_id: unknown, take: ['web'] }, 404],
    ];
    for (const [body, status] of cases) expect((await post(body)).status, JSON.stringify(body)).toBe(status);
    await owner.put(`/servers/${server}`, { allowed_projects: [] });
    expect((await post({ project_id: project, take: ['web'] })).status).toBe(403);
    expect(asked).toEqual([]);
    await nothingIsMade();
  });

  it('by a user who is no admin', async () => {
    const user = await world.user();
    expect((await user.post(`/servers/${server}/adopt`, { project_id: project, take: ['web'] })).status).toBe(403);
    expect(asked).toEqual([]);
  });

  it('from a machine whose operator allows no terminals of it', async () => {
    survey = surveyOf([surveyed('web')]);
    await connect(undefined, ['terminals.server']);
    const answer = await take(['web']);
    expect([answer.status, answer.body.error?.message]).toEqual([
      409,
      expect.stringContaining('--no-server-terminals'),
    ]);
    expect(asked).toEqual([]);
  });

  it('from an agent of an earlier release, or one that answers with something else', async () => {
    survey = surveyOf([surveyed('web', { env: ['A'] })]);
    const upgrade = [409, expect.stringContaining('upgrade the agent')];
    await connect(['survey']);
    const earlier = await take(['web']);
    expect([earlier.status, earlier.body.error?.message]).toEqual(upgrade);
    await connect(['survey', 'survey.values']);
    survey = surveyOf([surveyed('web', { mounts: [mounted('rows', '/data')] })], [volumeOf('rows')]);
    const empty = await take(['web']);
    expect([empty.status, empty.body.error?.message]).toEqual(upgrade);
    await connect();
    survey = surveyOf([surveyed('web', { env: ['A'] })]);
    world.agents.answer = (_, { method }) => (method === 'survey' ? survey : { containers: [{ id: 1, env: secret }] });
    const odd = await take(['web']);
    expect([odd.status, odd.body.error?.message]).toEqual([
      409,
      expect.stringContaining('is no answer to the request: upgrade'),
    ]);
    await nothingIsMade();
  });
});
