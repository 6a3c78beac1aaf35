import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endpoints } from '../../api/routes/endpoints.ts';
import { streams } from '../../api/streams/streams.ts';
import { createTenant } from '../../store/tenants.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { openFrames, Refusal } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';

/**
 * SEC-27, SEC-34: nothing of one tenant is seen, named or guessed from another. That every route with an id answers 404
 * to an id of another tenant, and 401 to its tokens and keys, is in permission-sweep.test.ts.
 */
let world: ApiWorld;
let here: Stage;
let elsewhere: Stage;
const unlimited = { perMinute: 0, burst: 1 };

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  await createTenant(world.store, 'elsewhere', world.clock);
  here = await setStage(world, 'superadmin');
  elsewhere = await setStage(world, 'superadmin', { tenant: 'elsewhere' });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const stages = (): [Stage, Stage][] => [
  [here, elsewhere],
  [elsewhere, here],
];

function send(stage: Stage, method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  return ask(
    world,
    { method, path, tenant: stage.tenant, ...(body !== undefined && { body }) },
    { ...stage.actor.by.token, ...headers },
  );
}

function open(tenant: string, path: string, stage: Stage): Promise<Frames> {
  const token = stage.actor.by.token['authorization']!.split(' ')[1]!;
  const base = `${world.url.replace('http', 'ws')}/${tenant}${path}`;
  return openFrames(`${base}${base.includes('?') ? '&' : '?'}token=${token}`);
}

async function refusal(opening: Promise<Frames>): Promise<{ status: number; body: unknown }> {
  const outcome = await opening.catch((error: unknown) => error);
  if (!(outcome instanceof Refusal)) throw new Error('It was not refused');
  return outcome as unknown as { status: number; body: unknown };
}

/** Everything that has an id of a stage. */
function idsOf({ project, environment, server, application, deployments, actor }: Stage): string[] {
  return [project, environment, server, application, ...Object.values(deployments), actor.id, actor.session];
}

describe('one tenant and another', () => {
  it('have lists of their own, whoever asked for the same page a moment before', async () => {
    const lists = endpoints.filter(({ list, path }) => list && !path.includes(':')).map(({ path }) => path);
    expect(lists).toEqual(expect.arrayContaining(['/projects', '/servers', '/applications', '/audit']));
    for (const path of lists) {
      for (const [own, other] of [...stages(), ...stages()]) {
        const answer = await send(own, 'GET', path);
        expect(answer.status, path).toBe(200);
        const text = JSON.stringify(answer.body);
        for (const id of idsOf(other)) expect(text.includes(id), `${path} of ${own.tenant} shows ${id}`).toBe(false);
      }
    }
    for (const [own, other] of stages()) {
      const filtered = await send(own, 'GET', `/applications?projectId=${other.project}`);
      expect(filtered.status === 404 || (filtered.data as unknown[]).length === 0).toBe(true);
      const searched = await send(own, 'GET', `/applications?q=${other.application}`);
      expect(searched.data).toEqual([]);
    }
  });

  it('have names of their own, and answers of their own to one key for repeated requests', async () => {
    const made = new Set<string>();
    for (const [own] of stages()) {
      const headers = { 'idempotency-key': 'same-for-both' };
      const answer = await send(own, 'POST', '/projects', { name: 'of both' }, headers);
      expect(answer.status).toBe(201);
      made.add((answer.data as { id: string }).id);
      const again = await send(own, 'POST', '/projects', { name: 'of both' }, headers);
      made.add((again.data as { id: string }).id);
    }
    expect(made.size).toBe(2);
  });

  it('do not take a page on with the cursor of the other', async () => {
    const first = await send(here, 'GET', '/projects?limit=1');
    const cursor = encodeURIComponent(String(first.body.meta?.next_cursor));
    const next = await send(elsewhere, 'GET', `/projects?limit=100&cursor=${cursor}`);
    expect(next.status).toBe(200);
    for (const id of idsOf(here)) expect(JSON.stringify(next.body)).not.toContain(id);
  });

  it('count failed logins apart', async () => {
    const client = (tenant: string): Client => world.client(undefined, tenant);
    const login = (tenant: string) =>
      client(tenant).post('/auth/login', { email: 'somebody@example.test', password: 'wrong password' });
    let status = 0;
    for (let n = 0; n < 12 && status !== 429; n++) ({ status } = await login('default'));
    expect(status).toBe(429);
    expect((await login('elsewhere')).status).toBe(401);
  });

  it.each(streams.map((stream) => [stream.path, stream] as const))(
    'do not open the stream %s for each other',
    async (path, stream) => {
      for (const [own, other] of stages()) {
        const of = (stage: Stage): string =>
          path.replace(/:\w+/, path.includes('deployments') ? stage.deployments.current : stage.application);
        expect((await refusal(open(own.tenant, of(own), other))).status).toBe(401);
        if (stream.on === undefined) continue;
        expect((await refusal(open(own.tenant, of(other), own))).status).toBe(404);
      }
    },
  );

  it('do not hear of each other’s changes, live or made up for', async () => {
    const since = (frames: Frames): string => String(frames.all[0]?.['cursor']);
    await using mine = await open('default', '/ws/watch', here);
    await using theirs = await open('elsewhere', '/ws/watch', elsewhere);
    await mine.next('ready');
    await theirs.next('ready');
    const both: [Frames, Stage, string][] = [
      [mine, here, 'changed here'],
      [theirs, elsewhere, 'changed elsewhere'],
    ];
    for (const [, stage, description] of both)
      expect((await send(stage, 'PUT', `/projects/${stage.project}`, { description })).status).toBe(200);
    for (const [frames, , description] of both) {
      await expect.poll(() => JSON.stringify(frames.all)).toContain(description);
      const other = description === 'changed here' ? 'changed elsewhere' : 'changed here';
      expect(JSON.stringify(frames.all)).not.toContain(other);
    }
    await using late = await open('default', `/ws/watch?cursor=${since(theirs)}`, here);
    await expect.poll(() => JSON.stringify(late.all)).toContain('changed here');
    for (const frames of [mine, late])
      for (const id of idsOf(elsewhere)) expect(JSON.stringify(frames.all)).not.toContain(id);
  });

  it('are not distinguished by metrics', async () => {
    const text = await (await fetch(`${world.url}/metrics`)).text();
    expect(text).toContain('setpoint_http_requests_total');
    for (const name of ['elsewhere', ...idsOf(here), ...idsOf(elsewhere)]) expect(text).not.toContain(name);
  });
});

describe('a tenant that is not there', () => {
  it('answers 404 in the envelope, to every method and to streams', async () => {
    for (const name of ['nobody', 'Default', 'default%20', '..', 'x'.repeat(200)]) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const response = await fetch(`${world.url}/${name}/api/v1/projects`, {
          method,
          headers: here.actor.by.token as Record<string, string>,
        });
        expect([name, response.status]).toEqual([name, 404]);
        expect(await response.json()).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
      }
    }
    const refused = await refusal(open('nobody', '/ws/watch', here));
    expect(refused.status).toBe(404);
    expect(refused.body).toMatchObject({ success: false, error: { code: 'NOT_FOUND', message: 'Tenant not found' } });
  });
});
