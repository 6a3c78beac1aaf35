import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

let world: ApiWorld;
beforeAll(async () => void (world = await startApi()));
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const content = `services:
  web:
    image: nginx:1.27
    restart: always
    environment: {TOKEN: "$TOKEN"}
    ports: ["127.0.0.1:80:80"]
`;

it('shows what a compose file declares, without the values of variables', async () => {
  const user = await world.user();
  const { status, data } = await user.post('/compose/validate', { content, env: { TOKEN: 'hidden' } });
  expect(status).toBe(200);
  expect(data).toMatchObject({
    valid: true,
    errors: [],
    warnings: [{ path: 'services.web.ports.0', line: 6, column: 13 }],
    services: [{ name: 'web', image: 'nginx:1.27', env: ['TOKEN'], ports: [{ port: 80, publish: null }] }],
    networks: ['default'],
  });
  expect(JSON.stringify(data)).not.toContain('hidden');
});

it('names what is refused, and shows no services then', async () => {
  const user = await world.user();
  const { status, data } = await user.post('/compose/validate', { content: `${content}    privileged: true\n` });
  expect(status).toBe(200);
  expect(data).toMatchObject({
    valid: false,
    errors: [{ path: 'services.web.privileged', key: 'privileged' }],
    services: [],
  });
});

it('reads no variable of its own process', async () => {
  const user = await world.user();
  const sent = { content: content.replace('$TOKEN', '${PATH:?is not there}') };
  expect((await user.post('/compose/validate', sent)).data).toMatchObject({
    errors: [{ path: 'services.web.environment.TOKEN', message: expect.stringContaining('needs the variable PATH') }],
  });
});

it('builds only where the file is in a repository', async () => {
  const user = await world.user();
  const built = { content: 'services: {web: {build: .}}' };
  expect((await user.post('/compose/validate', built)).data).toMatchObject({ valid: false });
  expect((await user.post('/compose/validate', { ...built, in_repository: true })).data).toMatchObject({
    valid: true,
    services: [{ image: null, build: { context: '.', dockerfile_path: 'Dockerfile', target: null } }],
  });
});
