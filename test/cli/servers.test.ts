import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let viewer: Client;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  const user = await world.user();
  const { data: project } = await owner.post('/projects', { name: 'shop' });
  await owner.post(`/projects/${project.id}/members`, { user_id: user.id, role: 'viewer' });
  await owner.post('/servers', { name: 'one' });
  viewer = user;
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const runAs = ({ token = '' }: Client, ...argv: string[]): Promise<Printed> =>
  cli.run(argv, '', { SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: token });

it.each([[[]], [['--open']]])('who is no admin is told that ports %j are for admins', async (more) => {
  expect(await runAs(viewer, 'ports', 'one', ...more)).toEqual({
    code: 1,
    out: '',
    err: 'The ports of a server are shown to admins of the tenant only, and changed by them\n',
  });
});

it('a server is described to who may not read its events, and says that they are left out', async () => {
  const { code, err, out } = await runAs(viewer, 'describe', 'server', 'one');
  expect([code, err]).toEqual([0, '']);
  expect(out).toMatch(/^name +one$/m);
  expect(out).toMatch(/\nEvents, newest first\nYour role may not read them\n$/);
  const json = await runAs(viewer, 'describe', 'server', 'one', '-o', 'json');
  expect([json.code, json.err]).toEqual([0, 'Left out, as your role may not read it: events\n']);
  expect(Object.keys(JSON.parse(json.out))).toEqual(['id', 'name', 'status', 'agent_status']);
  expect(await runAs(viewer, 'events', 'server', 'one')).toMatchObject({ code: 1, out: '' });
});
