import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const patientMs = 120_000;
let town: Installation;
let image: string;
let folder: string;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  folder = await mkdtemp(join(tmpdir(), 'setpoint-crash-loop-'));
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Fails while there is something in its file. */
const program = `/bin/sh -c '
  if [ -s /tmp/broken ]; then for n in $(seq 80); do echo "line $n"; done; exit 1; fi;
  exec /bin/node /service.mjs'`;

it(
  'notifies of a process that keeps exiting with its last 50 lines, and of its recovery once the cause is gone',
  async () => {
    const app = await town.createApplication({
      source_type: 'image',
      image_url: image,
      start_command: program.replaceAll(/\s+/g, ' '),
      exposed_port: 8080,
      healthcheck_path: '/healthz',
      min_healthy_seconds: 1,
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    const [container = ''] = await instancesOf(app.id);
    const put = async (text: string): Promise<void> => {
      await writeFile(join(folder, 'broken'), text, { mode: 0o644 });
      await docker('cp', join(folder, 'broken'), `${container}:/tmp/broken`);
    };
    const told = async (kind: string) =>
      (await town.client.list('/api/v1/notifications')).filter((it) => it['kind'] === kind);
    await town.until('the engine keeps it up', async () => (await policy(container)) === 'unless-stopped');

    await put('yes');
    await docker('kill', container);
    await town.until('it is in error', async () => (await town.application(app.id)).status === 'error', patientMs);
    const [error] = await town.until('it is notified', async () => {
      const all = await told('application_error');
      return all.length > 0 && all;
    });
    const lines = Array.from({ length: 50 }, (_, n) => `line ${n + 31}`);
    expect(error!['message']).toBe(`Its process keeps exiting: its log shows why\n\n${lines.join('\n')}`);
    // only its agent starts it again, later and later
    expect(await policy(container)).toBe('no');

    await put('');
    await town.until('it serves again', async () => (await town.application(app.id)).status === 'running', patientMs);
    await town.until(
      'its recovery is notified',
      async () => (await told('application_recovered')).length === 1,
      patientMs,
    );
    expect(await instancesOf(app.id)).toEqual([container]);
    expect(await told('application_error')).toHaveLength(1);
  },
  4 * patientMs,
);

const policy = (container: string): Promise<string> =>
  docker('inspect', '--format', '{{.HostConfig.RestartPolicy.Name}}', container);
