import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
async function anApplication(fields: Record<string, unknown> = {}): Promise<string> {
  const answer = await owner.post('/applications', {
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    name: `app-${(count += 1)}`,
    source_type: 'image',
    image_url: 'example/web:1',
    ...fields,
  });
  expect(answer.body).toMatchObject({ success: true });
  expect(answer.status).toBe(201);
  return answer.data.id;
}

describe('an application', () => {
  it('is stopped after its creation', async () => {
    const id = await anApplication();
    const answer = await owner.get(`/applications/${id}`);
    expect(answer.data).toMatchObject({ id, status: 'stopped', replicas: 1, source_type: 'image', app_type: 'web' });
    expect(answer.headers.get('etag')).toBe(`"${answer.data.resource_version}"`);
  });
});
