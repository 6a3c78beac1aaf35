import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { privateRegistry, type PrivateRegistry } from '../harness/private-registry.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const built = 'setpoint-e2e-private:1';
let town: Installation;
let registry: PrivateRegistry;
let kept: ApiObject;
let app: ApiObject;
let image: string;

beforeAll(async () => {
  const { shell } = await ensureTestImages();
  registry = await privateRegistry();
  image = `${registry.address}/team/web:1`;
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-private-'));
  // a layer that the engine has only once it is pulled
  await writeFile(
    join(folder, 'Dockerfile'),
    `FROM ${shell}\nRUN dd if=/dev/urandom of=/payload bs=1M count=4 && echo "read 1" > /words\n`,
  );
  await docker('build', '--no-cache', '--tag', built, folder);
  await rm(folder, { recursive: true });
  await registry.push(built, 'team/web:1');
  await docker('rmi', built);
  town = await Installation.start({ store: 'sqlite' });
  await town.client.request('PUT', '/api/v1/settings', { registries: [registry.address] });
  const { address, username, password } = registry;
  kept = await town.client.object('POST', '/api/v1/settings/registries', { name: 'team', address, username, password });
  app = await town.createApplication({
    name: 'web',
    source_type: 'image',
    image_url: image,
    registry_id: kept.id,
    app_type: 'worker',
    // the shell ends at once when it is asked to
    start_command: `/bin/sh -c "trap 'exit 0' TERM; sleep infinity & wait"`,
    min_healthy_seconds: 1,
    drain_seconds: 0,
  });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});

/** The lines of a stream to its end. */
async function linesOf(path: string): Promise<{ stream: string; message: string }[]> {
  const lines: { stream: string; message: string }[] = [];
  for await (const frame of town.client.stream(path, {}, AbortSignal.timeout(90_000))) {
    if (frame['type'] === 'log') lines.push({ stream: String(frame['stream']), message: String(frame['message']) });
    if (frame['type'] === 'end') break;
  }
  return lines;
}

const begin = () => `Pulling image ${image} from registry ${registry.address}`;
const end = () => new RegExp(`^Pulled image ${image} as sha256:[0-9a-f]{64}: 2 layers, 4\\.[0-9]MB in `);

it('the log of a deployment has the pull of a private image, while it happens and afterwards', async () => {
  const { id } = await town.deploy(app.id);
  const lines = await linesOf(`/ws/deployments/${id}/logs`);
  await town.deployment(id, 'succeeded');
  expect(lines[0]).toEqual({ stream: 'build', message: begin() });
  expect(lines.at(-1)?.message).toMatch(end());
  for (const path of [`/deployments/${id}/logs`, `/deployments/${id}/build-logs`, `/applications/${app.id}/build-logs`])
    expect(await town.client.request('GET', `/api/v1${path}?search=Pulled`)).toMatchObject({
      lines: [{ message: expect.stringMatching(end()) }],
    });
  const ofProgram = await town.client.request('GET', `/api/v1/deployments/${id}/runtime-logs`);
  expect(ofProgram).toMatchObject({ lines: [] });
});

it(
  'a start pulls an image again by its digest that was removed while its application was stopped',
  { tags: [longTag] },
  async () => {
    await town.ensureDeployed(app.id);
    const path = `/api/v1/applications/${app.id}`;
    await town.client.request('POST', `${path}/stop?wait=60`, {});
    await town.until('the containers are gone', async () => (await instancesOf(app.id)).length === 0);
    const serving = String((await town.application(app.id))['current_deployment_id']);
    const { image_digest: pinned } = await town.client.object('GET', `/api/v1/deployments/${serving}`);
    await docker('rmi', await docker('image', 'ls', '--quiet', `${registry.address}/team/web`));
    await town.client.request('POST', `${path}/start`, {});
    await town.until('it runs again', async () => (await town.application(app.id)).status === 'running');
    const digests = await docker('image', 'ls', '--digests', '--format', '{{.Digest}}', `${registry.address}/team/web`);
    expect(String(pinned)).toContain(digests);
  },
);

it(
  'a command pulls the private image with the login of its application, and its log has the pull',
  { tags: [longTag] },
  async () => {
    await town.ensureDeployed(app.id);
    await town.client.request('POST', `/api/v1/applications/${app.id}/stop`, {});
    await town.until('the containers are gone', async () => (await instancesOf(app.id)).length === 0);
    await docker('rmi', await docker('image', 'ls', '--quiet', `${registry.address}/team/web`));
    const { id } = await town.client.object('POST', `/api/v1/applications/${app.id}/run`, {
      command: ['/bin/cat', '/words'],
    });
    const lines = await linesOf(`/ws/runs/${id}/logs`);
    expect(lines.find(({ stream }) => stream === 'stdout')).toEqual({ stream: 'stdout', message: 'read 1' });
    const told = lines.filter(({ stream }) => stream === 'system').map(({ message }) => message);
    expect([told[0], told.at(-1)]).toEqual([expect.stringContaining('Pulling image'), expect.stringContaining('4.')]);
  },
);

it('a pull that fails names registry and image, and what to do, in the log and as the error', async () => {
  const failed = async (fields: object): Promise<{ message: string; last: string | undefined }> => {
    await town.client.request('PUT', `/api/v1/applications/${app.id}`, fields);
    const { id } = await town.deploy(app.id);
    const lines = await linesOf(`/ws/deployments/${id}/logs`);
    const { error } = await town.client.object('GET', `/api/v1/deployments/${id}`);
    return { message: (error as { message: string }).message, last: lines.at(-1)?.message };
  };
  const absent = `${registry.address}/team/web:absent`;
  const missing = `Cannot pull image ${absent}: registry ${registry.address} has no such image: compare its name and tag with those in the registry`;
  expect(await failed({ image_url: absent })).toEqual({ message: expect.stringContaining(missing), last: missing });
  await town.client.request('PUT', `/api/v1/settings/registries/${kept.id}`, {
    password: 'not this one',
    untested: true,
  });
  const other = `${registry.address}/team/other:1`;
  const refused = `Cannot pull image ${other}: registry ${registry.address} refuses the login of ${registry.username}, or has no such image for it: test it by \`setpoint test registry NAME\``;
  expect(await failed({ image_url: other })).toEqual({ message: expect.stringContaining(refused), last: refused });
});
