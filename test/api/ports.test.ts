import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
beforeAll(async () => {
  world = await startApi({ config: { ownPorts: [7070] } });
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const application = { name: 'web', source_type: 'image', image_url: 'example/web:1' } as const;
let names = 0;

async function place(ports?: object) {
  const at = await world.place(owner);
  const sent = { direct_ports_enabled: true, ...(ports !== undefined && { direct_ports: ports }) };
  expect((await owner.put(`/servers/${at.server}`, sent)).status).toBe(200);
  return at;
}

type Place = Awaited<ReturnType<typeof place>>;

function create(at: Pick<Place, 'project' | 'server'>, exposed_port: number, name = `web-${(names += 1)}`) {
  const fields = { ...application, name, project_id: at.project, server_id: at.server, exposed_port };
  return owner.post('/applications', fields);
}

async function running(at: Pick<Place, 'project' | 'server'>, port: number): Promise<string> {
  const { id } = (await create(at, port)).data;
  expect((await owner.post(`/applications/${id}/deploy`)).status).toBe(200);
  return id;
}

describe('ports of a server', () => {
  it('are the usual ones until somebody says otherwise, and change by what is sent', async () => {
    const { server, project } = await world.place(owner);
    const usual = { from: 1024, to: 65_535, reserved: [], bindings: [] };
    const fresh = (await owner.get(`/servers/${server}`)).data;
    expect(fresh.direct_ports).toEqual(usual);
    expect((await owner.put(`/servers/${server}`, fresh)).data.resource_version).toBe(fresh.resource_version);
    const bindings = [{ port: 80, project_id: project }];
    await owner.put(`/servers/${server}`, { direct_ports: { from: 8000, bindings } });
    await owner.put(`/servers/${server}`, { direct_ports: { reserved: [9000] } });
    const changed = (await owner.get(`/servers/${server}`)).data;
    expect(changed.direct_ports).toEqual({ from: 8000, to: 65_535, reserved: [9000], bindings });
    expect((await owner.put(`/servers/${server}`, changed)).data.resource_version).toBe(changed.resource_version);
    expect((await owner.put(`/servers/${server}`, { direct_ports: null })).data.direct_ports).toEqual(usual);
    const made = await owner.post('/servers', { name: 'ports-of-its-own', direct_ports: { to: 9000 } });
    expect(made.data.direct_ports).toEqual({ ...usual, to: 9000 });
  });

  it.each([
    [{ from: 0 }, 400, 'direct_ports.from'],
    [{ from: 9000, to: 8000 }, 400, 'direct_ports.from'],
    [{ reserved: [70_000] }, 400, 'direct_ports.reserved.0'],
    [{ own: [80] }, 400, 'direct_ports.own'],
    [{ bindings: [{ port: 80, project_id: crypto.randomUUID() }] }, 404, 'direct_ports.bindings'],
  ])('are not %j', async (ports, status, field) => {
    const { server } = await world.place(owner);
    const answer = await owner.put(`/servers/${server}`, { direct_ports: ports });
    expect(answer.status).toBe(status);
    expect(answer.body.error?.details?.[0]?.field).toBe(field);
  });

  it('are bound to one project each', async () => {
    const { server, project } = await world.place(owner);
    const other = await world.place(owner);
    const bindings = [project, other.project].map((id) => ({ port: 80, project_id: id }));
    expect((await owner.put(`/servers/${server}`, { direct_ports: { bindings } })).status).toBe(400);
  });
});

describe('a port that an application names', () => {
  it.each([
    ['below the range', 80],
    ['above the range', 20_001],
    ['that is reserved', 9000],
    ['of the control plane', 7070],
  ])('is refused %s, at its creation and at a change', async (_which, port) => {
    const at = await place({ to: 20_000, reserved: [9000] });
    const refused = await create(at, port);
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details?.[0]).toMatchObject({ field: 'exposed_port', reason: 'port_not_allowed' });
    const { id } = (await create(at, 8080)).data;
    expect((await owner.put(`/applications/${id}`, { exposed_port: port })).status).toBe(409);
    expect((await owner.put(`/applications/${id}`, { exposed_port: 8081 })).status).toBe(200);
  });

  it('is any where ports are not open on the server', async () => {
    const at = await world.place(owner);
    const made = await create(at, 80);
    expect(made.status).toBe(201);
    expect((await owner.post(`/applications/${made.data.id}/deploy`)).status).toBe(200);
  });

  it('is for the applications of the project that it is bound to, also outside of the range', async () => {
    const at = await place();
    const stranger = await world.place(owner);
    const bindings = [{ port: 80, project_id: at.project }];
    await owner.put(`/servers/${at.server}`, { direct_ports: { bindings } });
    expect((await create({ ...stranger, server: at.server }, 80)).status).toBe(409);
    expect((await create(at, 80)).status).toBe(201);
  });

  it('belongs to the application that runs with it, until that is stopped', async () => {
    const at = await place();
    const { id: waiting } = (await create(at, 8080)).data;
    const first = await running(at, 8080);
    const taken = await create(at, 8080);
    expect(taken.status).toBe(409);
    expect(taken.body.error?.details?.[0]).toMatchObject({ field: 'exposed_port', reason: 'port_taken' });
    for (const verb of ['deploy', 'start'])
      expect((await owner.post(`/applications/${waiting}/${verb}`)).status).toBe(409);
    expect((await owner.post(`/applications/${first}/deploy`)).status).toBe(200);
    expect((await owner.post(`/applications/${first}/stop`)).status).toBe(200);
    expect((await owner.post(`/applications/${waiting}/deploy`)).status).toBe(200);
    expect((await owner.post(`/applications/${first}/start`)).status).toBe(409);
  });

  it('is named with its application to its own project alone', async () => {
    const at = await place();
    const stranger = { ...(await world.place(owner)), server: at.server };
    await running(at, 8080);
    const own = (await create(at, 8080)).body.error?.message;
    expect(own).toMatch(/^Port 8080 of the server belongs to the application web-\d+: /);
    const others = (await create(stranger, 8080)).body.error?.message;
    expect(others).toMatch(/^Port 8080 of the server belongs to another application: /);
  });

  it('stays with the application that serves with it when the range changes, until it is stopped', async () => {
    const at = await place();
    const id = await running(at, 8080);
    const deployment = (await owner.get(`/applications/${id}/deployments`)).data[0].id;
    await world.observe('deployment', deployment, { phase: 'succeeded', image: 'web:1', image_digest: 'sha256:1' });
    await world.observe('application', id, {
      phase: 'running',
      current_deployment_id: deployment,
      consecutive_failures: 0,
      ready_replicas: 1,
      crash_loop_counted: false,
    });
    await owner.put(`/servers/${at.server}`, { direct_ports: { from: 9000 } });
    expect((await owner.post(`/applications/${id}/deploy`)).status).toBe(200);
    await owner.put(`/servers/${at.server}`, { direct_ports: { from: 1024, reserved: [8080] } });
    expect((await owner.put(`/applications/${id}/env`, { COLOUR: 'blue' })).status).toBe(409);
    await owner.put(`/servers/${at.server}`, { direct_ports: { from: 9000, reserved: [] } });
    await owner.post(`/applications/${id}/stop`);
    expect((await owner.post(`/applications/${id}/start`)).status).toBe(409);
  });
});
