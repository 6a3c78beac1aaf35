import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { keys } from '../../store/keys.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { containersWith, docker } from '../harness/engine.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const execute = promisify(execFile);
const command = new URL('../../cli/setpoint', import.meta.url).pathname;

test('a deleted tenant leaves nothing in the store and nothing on its server', { tags: [longTag] }, async () => {
  const { http: image } = await ensureTestImages();
  await using town = await Installation.start({ store: 'etcd', replicas: 2 });
  const tenant = async (...argv: string[]): Promise<string> => {
    const run = await execute(command, ['tenant', ...argv, '--data', join(town.dir, 'server')], {
      env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
      timeout: 60_000,
    });
    return run.stdout;
  };
  const port = await freePort();
  const app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port), TOKEN: 'secret' },
    replicas: 2,
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded');
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  const serverId = town.server.id;
  const networks = () => docker('network', 'ls', '--quiet', '--filter', `label=${labels.server}=${serverId}`);
  expect(await networks()).not.toBe('');

  await tenant('create', 'second');
  await expect(tenant('delete', 'default', '--confirm', 'second')).rejects.toThrow('was not confirmed');
  expect(await tenant('delete', 'default', '--confirm', 'default')).toContain('is being deleted');
  expect((await fetch(`${town.url(1)}/default/api/v1/auth/setup-status`)).status).toBe(404);
  await town.until('the tenant is gone', async () => !(await tenant('list')).includes('default'), 120_000);
  expect(await containersWith(labels.server, serverId)).toEqual([]);
  await town.until('its networks are gone', async () => (await networks()) === '', 60_000);
  await town.until('its port is free', () => isClosed(port));

  await using store = await openEtcd({ hosts: [town.etcd!.host] });
  const left = (await entriesOf(store)).map(({ key }) => key).filter((key) => key.includes('default'));
  expect(left).toEqual([]);

  await tenant('create', 'default');
  const fresh = await fetch(`${town.url()}/default/api/v1/auth/setup-status`);
  expect(await fresh.json()).toMatchObject({ data: { setup_complete: false } });
  const below = (await entriesOf(store)).filter(({ key }) => key.startsWith(keys.ofTenant('default').prefix));
  expect(below).toEqual([]);
});

function isClosed(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => resolve(true));
  });
}
