import { afterEach, expect, it } from 'vitest';
import { startApi } from '../../harness/api.ts';
import type { ApiWorld, Client } from '../../harness/api.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

let world: ApiWorld;
const minute = 60_000;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

interface Built {
  app: string;
  deployment: string;
  status: number;
  message: string;
}

/** Deploys a new application of a git repository. */
async function build(by: Client, place: { project: string; environment: string; server: string }, name: string) {
  const app = await by.post('/applications', {
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    name,
    source_type: 'git',
    repository_url: 'https://git.example/web.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  const { status, body, data } = await by.post(`/applications/${app.data.id}/deploy`);
  await world.settled();
  return { app: app.data.id, deployment: data?.id, status, message: body.error?.message ?? '' } as Built;
}

/** Writes that a build began and, some minutes later, ended. */
async function ends(clock: FakeClock, deployment: string, minutes: number): Promise<void> {
  const started_at = clock.now().toISOString();
  await world.observe('deployment', deployment, { phase: 'building', started_at });
  await clock.advance(minutes * minute);
  await world.observe('deployment', deployment, {
    phase: 'failed',
    started_at,
    finished_at: clock.now().toISOString(),
  });
}

async function minutesOf(client: Client, scope: string): Promise<number> {
  const { scopes } = (await client.get('/limits')).data;
  return scopes.find((it: { scope: string }) => it.scope === scope).used.build_minutes_per_day;
}

it('builds of a day are bounded: those under way count by their deadline, those that ended by their time', async () => {
  const clock = new FakeClock();
  world = await startApi({ clock, config: { buildDeadlineMs: 30 * minute } });
  const root = await world.owner();
  const user = await world.user('user', 'builder@example.test');
  const place = await world.place(user);
  await root.put('/settings', { budgets: { project: { build_minutes_per_day: 60 } } });

  const first = await build(user, place, 'a');
  const second = await build(user, place, 'b');
  expect([first.status, second.status]).toEqual([200, 200]);
  const third = await build(user, place, 'c');
  expect(third.status).toBe(429);
  expect(third.message).toContain('Builds of the project may take 60 minutes in 24 hours');
  expect(third.message).toContain('budgets.project.build_minutes_per_day');

  await ends(clock, first.deployment, 10);
  expect(await minutesOf(user, 'project')).toBe(10);
  expect((await build(user, place, 'd')).status).toBe(200);
  await ends(clock, second.deployment, 25);
  expect([await minutesOf(user, 'user'), await minutesOf(root, 'tenant')]).toEqual([35, 35]);
  expect((await build(user, place, 'e')).status).toBe(429);

  // what was used stays used when its application and its deployments go
  expect((await user.delete(`/applications/${first.app}`)).status).toBe(200);
  expect(await minutesOf(user, 'project')).toBe(35);

  const image = { source_type: 'image', image_url: 'example/web:1', repository_url: null, branch: null };
  const { data } = await user.post('/applications', {
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    name: 'image',
    source_type: image.source_type,
    image_url: image.image_url,
  });
  expect((await user.post(`/applications/${data.id}/deploy`)).status).toBe(200);

  await clock.advance(24.5 * 60 * minute);
  const { token } = (
    await world.client().post('/auth/login', { email: 'builder@example.test', password: 'correct horse battery' })
  ).data;
  expect(await minutesOf(world.client(token), 'user')).toBe(0);
});

it('another replica counts what it finds', async () => {
  const clock = new FakeClock();
  world = await startApi({ clock });
  await world.owner();
  const user = await world.user();
  const place = await world.place(user);
  const { deployment } = await build(user, place, 'a');
  await ends(clock, deployment, 7);
  const other = await world.replica();
  const answer = await fetch(`${other}/default/api/v1/limits`, {
    headers: { authorization: `Bearer ${user.token}` },
  });
  const { data } = (await answer.json()) as { data: { scopes: { used: { build_minutes_per_day: number } }[] } };
  expect(data.scopes.map(({ used }) => used.build_minutes_per_day)).toEqual([7, 7]);
});
