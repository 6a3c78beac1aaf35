import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { room } from '../../store/server-room.ts';
import { plainBytes } from '../../store/seal.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
  place = await world.place(owner);
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const limit = expect.objectContaining({ reason: 'limit' });
/** Variables of so many bytes, names included. */
function variables(bytes: number): Record<string, string> {
  const count = Math.ceil(bytes / (32 * 1024));
  return Object.fromEntries(
    Array.from({ length: count }, (_, n) => {
      const name = `V${String(n).padStart(3, '0')}`;
      const size = Math.floor(bytes / count) + Number(n < bytes % count) - name.length;
      return [name, 'ü'.repeat(Math.floor(size / 2)) + 'x'.repeat(size % 2)];
    }),
  );
}

async function anApplication(fields: object): Promise<{ status: number; id: string; error: unknown }> {
  const answer = await owner.post('/applications', {
    name: crypto.randomUUID(),
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    source_type: 'image',
    image_url: 'example/web:1',
    ...fields,
  });
  return { status: answer.status, id: answer.data?.id ?? '', error: answer.body.error };
}

/** Puts applications into the store, as an earlier release may have left them there. */
async function stored(count: number, overrides: object, bytes = 0): Promise<string[]> {
  const ids = Array.from({ length: count }, () => crypto.randomUUID());
  for (const id of ids) {
    const env = Object.fromEntries(
      Object.entries(variables(bytes)).map(([name, value]) => [
        name,
        world.keyring.seal(value, { tenant: 'default', kind: 'application', id, path: `config.env.${name}` }),
      ]),
    );
    await world.create(
      'application',
      id,
      desiredState('application', {
        project_id: place.project,
        environment_id: place.environment,
        server_id: place.server,
        config: { env, restart_policy: 'always' },
        ...overrides,
      }),
    );
  }
  await world.settled();
  return ids;
}

describe('the variables of an application', () => {
  it('may have 256 KiB in all with their names, and not a byte more', async () => {
    const exact = variables(room.env);
    const { status, id } = await anApplication({ env: exact });
    expect(status).toBe(201);
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual(exact);
    expect(await anApplication({ env: variables(room.env + 1) })).toMatchObject({
      status: 400,
      error: {
        message:
          'The variables have 257 KiB in all and at most 256 KiB are allowed: remove some, or put large values into the image or fetch them when the process starts',
        details: [{ field: 'env', reason: 'limit' }],
      },
    });
    for (const refused of [
      await owner.patch(`/applications/${id}/env`, { A: 'x' }),
      await owner.put(`/applications/${id}/env`, variables(room.env + 1)),
      await owner.put(`/applications/${id}`, { env: variables(room.env + 1) }),
    ]) {
      expect(refused.status).toBe(400);
      expect(refused.body.error?.details).toEqual([limit]);
    }
  });

  it('that an earlier release took are read, and may become less, but not more', async () => {
    const [id] = await stored(1, {}, 2 * room.env);
    const path = `/applications/${id}/env`;
    const before = (await owner.get(path)).data.env;
    expect(before).toEqual(variables(2 * room.env));
    const [name = ''] = Object.keys(before);
    expect((await owner.patch(path, { [name]: `${before[name]}x` })).status).toBe(400);
    expect((await owner.put(`/applications/${id}`, { replicas: 2 })).status).toBe(200);
    expect((await owner.patch(path, { [name]: null })).status).toBe(200);
    expect((await owner.put(path, variables(room.env))).status).toBe(200);
    expect((await owner.put(path, variables(room.env + 1))).status).toBe(400);
  });

  it('are measured without being opened', () => {
    const at = { tenant: 'default', kind: 'application', id: 'a', path: 'config.env.A' };
    for (const text of ['', 'a', 'ab', 'abc', 'ü'.repeat(1001)])
      expect(plainBytes(world.keyring.seal(text, at))).toBe(Buffer.byteLength(text));
  });
});

describe('what is on a server', () => {
  /** Leaves room for so many more instances. */
  const fill = (left: number) => {
    const instances = room.server / room.instance - left;
    return stored(1, { replicas: instances % 100 }).then(() => stored(Math.floor(instances / 100), { replicas: 100 }));
  };

  it('has bounds, which creating, changing and scaling observe, and says how much there is', async () => {
    await fill(5);
    const { id, status } = await anApplication({ replicas: 3 });
    expect(status).toBe(201);
    expect(await anApplication({ replicas: 3 })).toMatchObject({
      status: 409,
      error: {
        message: expect.stringMatching(
          /^Server .+ would have 64\.1 MiB of variables and instances and at most 64 MiB are allowed \(8 KiB for each replica\): reduce /,
        ),
        details: [{ field: 'server_id', reason: 'limit' }],
      },
    });
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 6 })).status).toBe(409);
    expect((await owner.put(`/applications/${id}`, { replicas: 6 })).status).toBe(409);
    expect((await owner.put(`/applications/${id}/env`, variables(3 * room.instance))).status).toBe(409);
    expect((await owner.put(`/applications/${id}/env`, variables(room.instance))).status).toBe(200);
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 4 })).status).toBe(200);
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 5 })).status).toBe(409);
  });

  it('counts what was scaled to nothing, since a start brings it back', async () => {
    await fill(5);
    const { id } = await anApplication({ replicas: 3 });
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 0 })).status).toBe(200);
    expect((await anApplication({ replicas: 3 })).status).toBe(409);
    expect((await anApplication({ replicas: 2 })).status).toBe(201);
    expect((await owner.post(`/applications/${id}/deploy`)).status).toBe(200);
    expect((await owner.get(`/applications/${id}`)).data.replicas).toBe(3);
  });

  it('that an earlier release took may become less, and be deployed', async () => {
    await fill(-10);
    const [id] = await stored(1, { replicas: 5 });
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 6 })).status).toBe(409);
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 4 })).status).toBe(200);
    expect((await owner.post(`/applications/${id}/deploy`)).status).toBe(200);
  });

  it('is counted with the copies of an environment', async () => {
    await fill(3);
    const path = `/projects/${place.project}/environments/${place.environment}/clone`;
    const refused = await owner.post(path, { name: 'copy' });
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toEqual([limit]);
    const server_map = { [place.server]: (await owner.post('/servers', { name: 'another' })).data.id };
    expect((await owner.post(path, { name: 'copy', server_map })).status).toBe(201);
  });
});
