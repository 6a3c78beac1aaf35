import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { brief, Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

describe('the port of the control plane', { tags: [longTag] }, () => {
  let town: Installation;
  let image: string;
  let port: number;
  beforeAll(async () => {
    image = (await ensureTestImages()).http;
    town = await Installation.start({ store: 'sqlite' });
    port = Number(new URL(town.url()).port);
  }, 180_000);
  afterAll(() => town[Symbol.asyncDispose]());

  const open = (direct_ports_enabled: boolean) =>
    town.client.object('PUT', `/api/v1/servers/${town.server.id}`, { direct_ports_enabled });
  const fields = () => ({ source_type: 'image', image_url: image, exposed_port: port, env: { PORT: String(port) } });

  it('is refused to applications when they ask for it', async () => {
    await expect(town.createApplication(fields())).rejects.toThrow(`Port ${port} is that of the control plane`);
  });

  it('is its own again after it was killed while an application named it', async () => {
    await open(false);
    const app = await town.createApplication({ ...brief, ...fields() });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
    await open(true);
    await town.until('the agent refuses the port', async () => {
      const all = await town.client.list(`/api/v1/applications/${app.id}/instances`);
      return all.length === 1 && all.every((one) => one['ready'] === false);
    });
    const [plane] = town.replicas;
    for (let round = 0; round < 3; round++) {
      await town.deploy(app.id);
      await plane!.program.restart();
      await town.ready();
      const answer = await fetch(`${town.url()}/default/api/v1/auth/setup-status`);
      expect(await answer.json()).toMatchObject({ data: { setup_complete: true } });
    }
    await town.until('the deployment fails', async () => {
      const [newest] = await town.client.list(`/api/v1/applications/${app.id}/deployments`);
      return (
        newest?.status === 'failed' &&
        JSON.stringify(newest['error']).includes(`Port ${port} is that of the control plane`)
      );
    });
    await town.client.request('POST', `/api/v1/applications/${app.id}/stop?wait=60`, {});
  }, 180_000);

  it(
    'is not waited for where an administrator bound it to a project and it is in use',
    { tags: [longTag], timeout: 180_000 },
    async () => {
      const bindings = [{ port, project_id: town.project.id }];
      const server = `/api/v1/servers/${town.server.id}`;
      await town.client.object('PUT', server, { direct_ports: { bindings } });
      const app = await town.createApplication({ ...brief, ...fields() });
      const failed = await town.deployment((await town.deploy(app.id)).id, 'failed', 90_000);
      expect(failed['error']).toMatchObject({ code: 'port_taken' });
      const [plane] = town.replicas;
      await plane!.program.kill();
      // An agent that waited for the port would have it within its next look at the rules.
      const until = performance.now() + 7_000;
      while (performance.now() < until) {
        await expect(fetch(town.url())).rejects.toThrow();
        await delay(100);
      }
      plane!.program.start();
      await town.ready();
    },
  );
});
