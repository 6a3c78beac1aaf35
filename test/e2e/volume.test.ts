import { stat } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** Data on a real engine, from the API to the file system of the containers. */
describe('a volume', () => {
  let town: Installation;
  let app: string;
  let volume: string;
  let port: number;

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite' });
    port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    app = (await town.createApplication({ ...brief, source_type: 'image', image_url: http, ...web })).id;
    const place = { project_id: town.project.id, server_id: town.server.id };
    volume = (await town.client.object('POST', '/api/v1/volumes', { ...place, name: 'data' })).id;
    const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${volume}/bind`, binding);
  });
  afterAll(() => town[Symbol.asyncDispose]());

  const deployed = async (): Promise<string> => {
    await town.deployment((await town.deploy(app)).id, 'succeeded');
    const [instance] = await instancesOf(app);
    return instance ?? '';
  };
  /** As the user of the image, who is not root. */
  const shell = (container: string, script: string) => docker('exec', container, '/bin/sh', '-c', script);
  const isIn = (status: string) =>
    town.until(
      `the volume is ${status}`,
      async () => {
        const it = await town.client.object('GET', `/api/v1/volumes/${volume}`);
        return it.status === status && it;
      },
      120_000, // the agent looks every minute whether it is there
    );

  it('keeps what was written when the container is replaced by another one', async () => {
    const first = await deployed();
    await isIn('bound');
    await shell(first, 'echo kept > /data/note');
    const second = await deployed();
    expect(second).not.toBe(first);
    expect(await shell(second, 'cat /data/note')).toContain('kept');
  });

  it(
    'is mounted by several instances one after another, and no request fails meanwhile',
    { tags: [longTag] },
    async () => {
      await shell(await deployed(), 'echo kept > /data/note');
      const base = `/api/v1/applications/${app}`;
      const binding = { workload_type: 'application', workload_id: app, mount_path: '/data', read_only: true };
      await town.client.request('POST', `/api/v1/volumes/${volume}/unbind`, {});
      await town.client.request('POST', `${base}/scale?wait=60`, { replicas: 3 });
      await town.until('what drained has ended', async () => (await instancesOf(app)).length === 3, 60_000);
      const before = await instancesOf(app);
      let after: string[] = [];
      const outcomes: boolean[] = [];
      const isDone = new AbortController();
      const asking = (async () => {
        while (!isDone.signal.aborted) outcomes.push(await isAnswered(port));
      })();
      try {
        await town.client.request('POST', `/api/v1/volumes/${volume}/bind`, binding);
        const settled = await town.client.object('POST', `${base}/scale?wait=120`, { replicas: 3 });
        expect(settled).toMatchObject({ status: 'running', ready_replicas: 3 });
        await town.until(
          'those without the volume have drained',
          async () => {
            after = await instancesOf(app);
            return after.length === 3 && after.every((it) => !before.includes(it));
          },
          60_000,
        );
      } finally {
        isDone.abort();
        await asking;
      }
      for (const one of after) expect(await shell(one, 'cat /data/note')).toContain('kept');
      expect(outcomes.length).toBeGreaterThan(100);
      expect(outcomes.filter((isOk) => !isOk)).toEqual([]);
    },
  );

  it('that was removed from outside is in error, and nothing starts with an empty one in its place', async () => {
    await town.client.request('POST', `/api/v1/applications/${app}/stop?wait=60`);
    await docker('volume', 'rm', `sp-vol-${volume}`);
    const { conditions } = await isIn('error');
    expect(conditions?.find(({ type }) => type === 'Ready')?.reason).toBe('DataLost');
    await town.client.request('POST', `/api/v1/applications/${app}/start`);
    const { conditions: shown } = await town.until('the application shows it', async () => {
      const it = await town.client.object('GET', `/api/v1/applications/${app}`);
      return it.status === 'error' && it;
    });
    const ready = shown?.find(({ type }) => type === 'Ready');
    expect(ready?.reason).toBe('VolumeLost');
    expect(ready?.message).toContain('volume data does not exist (put it back');
    expect(await docker('volume', 'ls', '--quiet')).not.toContain(volume);
  });

  it('that was put back by hand is open to its users, and the application comes up with it', async () => {
    await docker('volume', 'create', `sp-vol-${volume}`);
    await isIn('bound');
    await town.until('the application runs', async () => (await town.application(app)).status === 'running');
    const folder = await docker('volume', 'inspect', '--format', '{{.Mountpoint}}', `sp-vol-${volume}`);
    expect((await stat(folder.trim())).mode & 0o777).toBe(0o777);
  });

  it('is removed with its data when it is deleted', async () => {
    await town.client.request('DELETE', `/api/v1/applications/${app}`);
    await town.client.request('POST', `/api/v1/volumes/${volume}/unbind`, {});
    const place = { project_id: town.project.id, server_id: town.server.id };
    const { id } = await town.client.object('POST', '/api/v1/volumes?wait=60', { ...place, name: 'other' });
    expect(await docker('volume', 'ls', '--quiet')).toContain(`sp-vol-${id}`);
    for (const one of [id, volume]) await town.client.request('DELETE', `/api/v1/volumes/${one}?wait=60`);
    const left = await docker('volume', 'ls', '--quiet');
    for (const one of [id, volume]) expect(left).not.toContain(one);
  });
});

/** Whether the application answers a request on a connection of its own. */
async function isAnswered(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { headers: { connection: 'close' } }).catch(
    () => undefined,
  );
  await answer?.text();
  return answer?.ok === true;
}
