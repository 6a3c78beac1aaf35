import { afterEach, describe, expect, it } from 'vitest';
import { createClient, startApi } from '../../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../../harness/api.ts';
import { formOf, png } from '../../harness/images.ts';

let world: ApiWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const KiB = 1024;

interface Place {
  project: string;
  environment: string;
  server: string;
}

/** An application with so many bytes of variables. */
function application({ project, environment, server }: Place, name: string, bytes = 0) {
  const env = bytes === 0 ? {} : { env: { DATA: 'x'.repeat(bytes) } };
  const ids = { project_id: project, environment_id: environment, server_id: server };
  return { ...ids, name, source_type: 'image', image_url: 'example/api:1', ...env };
}

function reasonOf({ status, body }: Answer): [number, string | undefined] {
  return [status, body?.error?.details?.[0]?.reason];
}

async function limitsOf(client: Client, scope: string, id?: string) {
  const { data } = await client.get('/limits');
  return data.scopes.find((it: { scope: string; id: string }) => it.scope === scope && (id ?? it.id) === it.id);
}

describe('what is stored', () => {
  it('is bounded for a project: one more is refused by name, what makes room and what is small goes on', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    const place = await world.place(user);
    await root.put('/settings', { budgets: { project: { stored_bytes: 100 * KiB } } });
    const large = await user.post('/applications', application(place, 'large', 30 * KiB));
    expect(large.status).toBe(201);
    expect((await user.post('/applications', application(place, 'small', 10 * KiB))).status).toBe(201);
    expect((await user.post('/applications', application(place, 'third', 10 * KiB))).status).toBe(201);
    const refused = await user.post('/applications', application(place, 'fourth', 25 * KiB));
    expect(reasonOf(refused)).toEqual([409, 'stored_budget']);
    expect(refused.body.error?.message).toMatch(
      /^The project would store 1\d\d(\.\d)? KiB and may store 100 KiB\. Most is of the application large with its deployments \(4\d(\.\d)? KiB\)\. Delete what is not needed, or ask a superadmin to raise budgets\.project\.stored_bytes in the settings$/,
    );
    const { id } = large.data;
    expect((await user.put(`/applications/${id}/env`, { DATA: 'x'.repeat(20 * KiB) })).status).toBe(200);
    expect(
      reasonOf(await user.put(`/applications/${id}/env`, { A: 'x'.repeat(30 * KiB), B: 'x'.repeat(30 * KiB) })),
    ).toEqual([409, 'stored_budget']);
    expect((await user.put(`/applications/${id}`, { name: 'other name' })).status).toBe(200);
    expect((await user.delete(`/projects/${place.project}`)).status).toBe(200);
    const other = await world.place(user);
    expect((await user.post('/applications', application(other, 'elsewhere', 25 * KiB))).status).toBe(201);
  });

  it('counts all that lies in a project: icons, deployments and what controllers wrote', async () => {
    world = await startApi();
    await world.owner();
    const user = await world.user();
    const place = await world.place(user);
    const stored = async () => (await limitsOf(user, 'project', place.project)).used.stored_bytes;
    const { data } = await user.post('/applications', application(place, 'web', 10 * KiB));
    const before = await stored();
    expect(before).toBeGreaterThan(13 * KiB);
    expect((await user.post(`/applications/${data.id}/deploy`)).status).toBe(200);
    const deployed = await stored();
    expect(deployed).toBeGreaterThan(before);
    // a form is not JSON, which is all that the client sends
    const sent = await fetch(`${world.url}/default/api/v1/projects/${place.project}/icon`, {
      method: 'POST',
      headers: { authorization: `Bearer ${user.token}` },
      body: formOf(png()),
    });
    expect(sent.status).toBe(200);
    expect(await stored()).toBeGreaterThan(deployed + png().length);
    const withIcon = await stored();
    await world.observe('application', data.id, {
      phase: 'stopped',
      consecutive_failures: 0,
      ready_replicas: 0,
      crash_loop_counted: false,
    });
    expect(await stored()).toBeGreaterThan(withIcon);
  });

  it('is bounded for a user over all own projects, and answers that are kept count', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    await root.put('/settings', { budgets: { user: { stored_bytes: 64 * KiB } } });
    const places = [await world.place(user), await world.place(user)] as const;
    for (const place of places)
      expect((await user.post('/applications', application(place, 'web', 12 * KiB))).status).toBe(201);
    const refused = await user.post('/applications', application(places[1], 'more', 20 * KiB));
    expect(reasonOf(refused)).toEqual([409, 'stored_budget']);
    expect(refused.body.error?.message).toMatch(
      /^The owner of the project would store .* Most is of the project project-/,
    );
    const used = async () => (await limitsOf(user, 'user')).used.stored_bytes;
    const before = await used();
    const key = { 'idempotency-key': 'once' };
    expect((await user.post('/settings/service-keys', { name: 'ci' }, key)).status).toBe(201);
    const keyAlone = await used();
    expect(keyAlone).toBeGreaterThan(before + 1024 + 300);
    const other = await world.user();
    const elsewhere = await world.place(other);
    expect((await other.post('/applications', application(elsewhere, 'web', 20 * KiB))).status).toBe(201);
  });

  it('of many requests at once does not go above the bound', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    const place = await world.place(user);
    await root.put('/settings', { budgets: { project: { stored_bytes: 200 * KiB } } });
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => user.post('/applications', application(place, `app ${n}`, 10 * KiB))),
    );
    const made = answers.filter(({ status }) => status === 201).length;
    expect(made).toBeGreaterThan(8);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 409]));
    await world.settled();
    expect((await limitsOf(user, 'project', place.project)).used.stored_bytes).toBeLessThanOrEqual(200 * KiB);
  });

  it('counts what a clone is going to copy when it is asked for', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    const place = await world.place(user);
    for (const name of ['a', 'b', 'c']) await user.post('/applications', application(place, name, 20 * KiB));
    await root.put('/settings', { budgets: { project: { stored_bytes: 190 * KiB } } });
    const clone = (name: string) =>
      user.post(`/projects/${place.project}/environments/${place.environment}/clone`, { name });
    // nothing is copied here: no controller runs
    const answers = await Promise.all([clone('staging'), clone('at once')]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409]);
    expect(reasonOf(await clone('later'))).toEqual([409, 'stored_budget']);
  });

  it('counts what a clone is going to copy in every replica, until it is complete or given up', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    const place = await world.place(user);
    for (const name of ['a', 'b', 'c']) await user.post('/applications', application(place, name, 20 * KiB));
    await root.put('/settings', { budgets: { project: { stored_bytes: 190 * KiB } } });
    const path = `/projects/${place.project}/environments`;
    const clone = (name: string, by: Client) => by.post(`${path}/${place.environment}/clone`, { name });
    const there = createClient(`${await world.replica()}/default/api/v1`, user.token);
    const first = await clone('first', user);
    expect(first.status).toBe(201);
    const started = createClient(`${await world.replica()}/default/api/v1`, user.token);
    for (const by of [user, there, started]) expect(reasonOf(await clone('more', by))).toEqual([409, 'stored_budget']);
    await world.repo.change('environment', first.data.id, (draft) => {
      if (draft.clone_of) draft.clone_of.complete = true;
    });
    const second = await clone('second', there);
    expect(second.status).toBe(201);
    for (const by of [user, there, started]) expect(reasonOf(await clone('more', by))).toEqual([409, 'stored_budget']);
    expect((await user.delete(`${path}/${second.data.id}`)).status).toBe(200);
    expect((await clone('third', started)).status).toBe(201);
  });

  it('moves with a project to whom it is given, who must have room for it', async () => {
    world = await startApi();
    const root = await world.owner();
    const [user, heir] = [await world.user(), await world.user()];
    const place = await world.place(user);
    await user.post('/applications', application(place, 'web', 30 * KiB));
    const own = await world.place(heir);
    await heir.post('/applications', application(own, 'web', 30 * KiB));
    await user.post(`/projects/${place.project}/members`, { user_id: heir.id, role: 'admin' });
    await root.put('/settings', { budgets: { user: { stored_bytes: 60 * KiB } } });
    const give = () => user.post(`/projects/${place.project}/transfer`, { new_owner_id: heir.id });
    expect(reasonOf(await give())).toEqual([409, 'stored_budget']);
    await root.put('/settings', { budgets: { user: { stored_bytes: null } } });
    expect((await give()).status).toBe(200);
  });
});

it('objects are bounded for project, user and tenant; a part of the tenant is for its admins', async () => {
  world = await startApi();
  const root = await world.owner();
  const user = await world.user();
  const place = await world.place(user);
  const make = (by: Client, name: string) => by.post('/applications', application(place, name));
  const set = (budgets: object) => root.put('/settings', { budgets });
  await set({ project: { objects: 3 } });
  expect((await make(user, 'a')).status).toBe(201);
  const refused = await make(user, 'b');
  expect(reasonOf(refused)).toEqual([409, 'objects_budget']);
  expect(refused.body.error?.message).toMatch(
    /^The project has 3 objects and may have 3\. Most is of the application a /,
  );
  await set({ project: { objects: 0 }, user: { objects: 4 } });
  expect(reasonOf(await make(user, 'b'))).toEqual([409, 'objects_budget']);
  await set({ user: { objects: null }, tenant: { objects: (await limitsOf(root, 'tenant')).used.objects + 1 } });
  expect(reasonOf(await make(user, 'b'))).toEqual([409, 'objects_budget']);
  await set({ tenant: { objects: null } });
  expect((await make(user, 'b')).status).toBe(201);
});

describe('what is written in a minute', () => {
  it('is bounded: 429 says when to try again, and logins, deletions and others go on', async () => {
    world = await startApi();
    const root = await world.owner();
    const [user, other] = [await world.user('user', 'writer@example.test'), await world.user()];
    const [place, elsewhere] = [await world.place(user), await world.place(other)];
    const { data } = await user.post('/applications', application(place, 'web'));
    await root.put('/settings', { budgets: { project: { written_bytes_per_minute: 64 * KiB } } });
    let refused: Answer | undefined;
    for (let n = 0; n < 20 && refused === undefined; n++) {
      const answer = await user.put(`/applications/${data.id}/env`, { DATA: `${n}${'x'.repeat(20 * KiB)}` });
      if (answer.status !== 200) refused = answer;
    }
    expect(refused?.status).toBe(429);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused?.body.error?.message).toContain('budgets.project.written_bytes_per_minute');
    expect((await other.post('/applications', application(elsewhere, 'web', 20 * KiB))).status).toBe(201);
    expect(
      (await world.client().post('/auth/login', { email: 'writer@example.test', password: 'correct horse battery' }))
        .status,
    ).toBe(200);
    expect((await user.delete(`/applications/${data.id}`)).status).toBe(200);
  });

  it('of a user counts in all projects', async () => {
    world = await startApi();
    const root = await world.owner();
    const user = await world.user();
    const places = [await world.place(user), await world.place(user), await world.place(user)] as const;
    await root.put('/settings', { budgets: { user: { written_bytes_per_minute: 64 * KiB } } });
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++)
      for (const place of places)
        statuses.push((await user.post('/applications', application(place, `app ${n}`, 8 * KiB))).status);
    expect(new Set(statuses)).toEqual(new Set([201, 429]));
  });
});

it('limits show what is used and allowed: of oneself and own projects, for admins of the tenant and all', async () => {
  world = await startApi();
  const root = await world.owner();
  const [user, other] = [await world.user(), await world.user()];
  const place = await world.place(user);
  await world.place(other);
  await user.post('/applications', application(place, 'web', KiB));
  await root.put('/settings', { budgets: { project: { objects: 0, stored_bytes: 1_000_000 } } });
  const { data } = await user.get('/limits');
  expect(data.scopes.map(({ scope, id }: { scope: string; id: string }) => [scope, id])).toEqual([
    ['user', user.id],
    ['project', place.project],
  ]);
  expect(data.scopes[1]).toMatchObject({
    used: { objects: 3, build_minutes_per_day: 0, stored_bytes: expect.any(Number) },
    allowed: { objects: null, stored_bytes: 1_000_000, build_minutes_per_day: 1440 },
  });
  const all = (await root.get('/limits')).data.scopes.map(({ scope }: { scope: string }) => scope);
  expect(all).toEqual(['installation', 'tenant', 'user', 'project', 'project']);
});
