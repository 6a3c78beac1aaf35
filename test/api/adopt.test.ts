import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { PlanEntry } from '../../api/adoption/answer.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { composed, imageOf, mounted, surveyed, surveyOf, volumeOf } from '../harness/surveyed.ts';

let world: ApiWorld;
let owner: Client;
let server: string;
let project: string;

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
  ({ server, project } = await world.place(owner));
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function connect(capabilities: readonly string[] = ['survey']): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', capabilities });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  await world.settled();
}

const adopt = (body: object = {}) => owner.post(`/servers/${server}/adopt`, body);

describe('what runs on a server that no agent made', () => {
  it('is shown with a plan, and nothing is changed or created', async () => {
    await connect();
    const asked: CallParams[] = [];
    world.agents.answer = (_, params) => {
      asked.push(params);
      return surveyOf([surveyed('web', { env: ['TOKEN'] })], [volumeOf('old', { bytes: 5 })]);
    };
    const before = (await owner.get('/applications')).data;
    const { status, data } = await adopt();
    expect(status).toBe(200);
    expect(asked).toEqual([{ method: 'survey' }]);
    expect(data).toMatchObject({
      found: [{ name: 'web', made_by: 'docker', containers: [{ name: 'web', image: 'nginx:1.27' }] }],
      volumes: [{ name: 'old', bytes: 5, used_by: [] }],
      plan: [
        { kind: 'volume', name: 'old', possible: 'yes' },
        { kind: 'application', name: 'web', possible: 'yes', env: ['TOKEN'] },
      ],
      truncated: false,
    });
    expect((await owner.get('/applications')).data).toEqual(before);
  });

  it('has manifests that POST /applications and POST /volumes take, with a project', async () => {
    await connect();
    const db = composed('shop', 'db', {
      image: imageOf('postgres:17'),
      mounts: [mounted('shop_data', '/var/lib/postgresql/data')],
      command: ['postgres', '-c', 'max_connections=50'],
      memory_bytes: 1_000_000_000,
      nano_cpus: 250_000_000,
      health: {},
    });
    world.agents.answer = () => surveyOf([db, composed('shop', 'web')], [volumeOf('shop_data', { project: 'shop' })]);
    const { plan } = (await adopt()).data as { plan: { kind: string; name: string; manifest: object }[] };
    expect(plan.map(({ name }) => name)).toEqual(['data', 'db', 'web']);
    for (const { kind, name, manifest } of plan) {
      const body = { ...manifest, project_id: project };
      const made = await owner.post(kind === 'volume' ? '/volumes' : '/applications', body);
      expect([made.status, made.data], name).toEqual([201, expect.objectContaining(manifest)]);
    }
  });

  it('is judged by the names in the project that it is for, which the steps name', async () => {
    await connect();
    world.agents.answer = () =>
      surveyOf(
        [surveyed('web'), surveyed('other'), surveyed('files', { mounts: [mounted('rows', '/data')] })],
        [volumeOf('rows')],
      );
    const { name } = (await owner.get(`/projects/${project}`)).data;
    const staging = (await owner.post(`/projects/${project}/environments`, { name: 'staging' })).data.id;
    const place = { project_id: project, server_id: server };
    const image = { source_type: 'image', image_url: 'nginx:1' };
    const { id } = (await owner.post('/applications', { ...place, ...image, name: 'Web' })).data;
    await owner.post('/volumes', { ...place, name: 'rows' });
    const planIn = async (environment_id?: string) =>
      (await adopt({ project_id: project, environment_id })).data.plan as PlanEntry[];
    const inShort = (plan: readonly PlanEntry[]) =>
      plan.map(({ kind, name, possible, why }) => `${kind} ${name} ${possible} ${why.map(({ code }) => code).join()}`);
    const plan = await planIn();
    expect(inShort(plan)).toEqual([
      'volume rows no name_taken',
      'application files no name_taken',
      'application other yes ',
      'application web no name_taken',
    ]);
    expect(plan[3]?.why[0]?.message).toBe(
      `Environment production has an application web (${id}) already: if that was not made of this, rename or delete it, or choose another environment or project`,
    );
    expect(plan[2]?.steps[0]).toBe(
      `setpoint adopt ${(await owner.get(`/servers/${server}`)).data.name} --project ${name} --manifests > moving.yaml`,
    );
    const free = await planIn(staging);
    expect(inShort(free)).toEqual([
      'volume rows with_a_stop volume_copied',
      'application files with_a_stop volume_copied',
      'application other yes ',
      'application web yes ',
    ]);
    expect(free.flatMap(({ steps }) => steps).join('\n')).not.toContain('PROJECT');
    expect(free[1]?.steps).toContain(`setpoint deploy files --project ${name}`);
  });

  it('is judged by the registries that the tenant allows', async () => {
    await connect();
    world.agents.answer = () => surveyOf([surveyed('web', { image: imageOf('registry.shop.test/web:1') })]);
    const why = async () => (await adopt()).data.plan[0].why;
    expect(await why()).toMatchObject([{ code: 'registry_not_allowed' }]);
    await owner.put('/settings', { registries: ['registry.shop.test'] });
    expect(await why()).toEqual([]);
  });

  it('is told as not complete if the agent found more', async () => {
    await connect();
    world.agents.answer = () => surveyOf([], [], true);
    expect((await adopt()).data).toEqual({
      found: [],
      volumes: [],
      plan: [],
      truncated: true,
      taken: [],
      remaining: [],
    });
  });

  it('is for admins, and the audit log shows who looked', async () => {
    await connect();
    world.agents.answer = () => surveyOf([]);
    const user = await world.user();
    expect((await user.post(`/servers/${server}/adopt`, {})).status).toBe(403);
    await adopt();
    const [newest] = (await owner.get('/audit')).data;
    expect(newest).toMatchObject({ route: 'POST /servers/:id/adopt', result: 'ok' });
  });

  it('takes no field that it does not know', async () => {
    await connect();
    expect((await adopt({ takes: ['x'] })).status).toBe(400);
  });
});

describe('an agent that cannot be asked', () => {
  it('is away: 503', async () => {
    const { status, body } = await adopt();
    expect([status, body.error?.message]).toEqual([503, expect.stringContaining('runs its agent')]);
  });

  it('is of an earlier release: 409, with what to do', async () => {
    await connect(['diagnose']);
    const { status, body } = await adopt();
    expect([status, body.error?.message]).toEqual([
      409,
      'The agent of the server is of an earlier release, which cannot tell what runs on its machine: upgrade the agent',
    ]);
  });

  it('has an engine that does not answer, or answers with something else', async () => {
    await connect();
    world.agents.answer = () => {
      throw new CallError('runtime_unavailable', 'The container engine did not answer within 15 s: look again');
    };
    const away = await adopt();
    expect([away.status, away.body.error?.message]).toEqual([409, expect.stringContaining('within 15 s')]);
    world.agents.answer = () => ({ containers: [{ id: 1 }] });
    const odd = await adopt();
    expect([odd.status, odd.body.error?.message]).toEqual([
      409,
      expect.stringContaining('is no answer to the request: upgrade'),
    ]);
  });
});
