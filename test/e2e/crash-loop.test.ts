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
    expect(error!['message']).toBe(
      `Its process keeps exiting, last with code 1: its log shows why\n\n${lines.join('\n')}`,
    );
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

it(
  'is stopped as completed after an end that is meant, runs once more when asked to, and fails with another code',
  async () => {
    const worker = (start_command: string) =>
      town.createApplication({
        source_type: 'image',
        image_url: image,
        app_type: 'worker',
        restart_policy: 'never',
        start_command,
      });
    const readyOf = async (id: string) => {
      const { status, conditions } = await town.application(id);
      const ready = conditions?.find(({ type }) => type === 'Ready');
      return [status, ready?.reason, ready?.message];
    };
    const codesOf = async (id: string) =>
      (await town.client.list(`/api/v1/applications/${id}/instances`)).map((it) => [it['status'], it['exit_code']]);
    const well = await worker('/bin/sh -c "exit 0"');
    await town.deployment((await town.deploy(well.id)).id, 'succeeded', patientMs);
    const end = 'Its process ended with code 0, after which restart_policy never does not start it again';
    const isCompleted = async (): Promise<boolean> => (await readyOf(well.id))[1] === 'Completed';
    await town.until('it is completed', isCompleted, patientMs);
    expect(await readyOf(well.id)).toEqual(['stopped', 'Completed', end]);
    expect(await codesOf(well.id)).toEqual([['succeeded', 0]]);
    const [before] = await instancesOf(well.id);
    await town.client.object('POST', `/api/v1/applications/${well.id}/restart`, {});
    const another = async (): Promise<boolean> => {
      const [now] = await instancesOf(well.id);
      return now !== undefined && now !== before && (await isCompleted());
    };
    await town.until('it has run once more', another, patientMs);

    const badly = await worker(`/bin/sh -c "echo no queue; exit 7"`);
    const failed = await town.deployment((await town.deploy(badly.id)).id, 'failed', patientMs);
    expect(failed['error']).toMatchObject({ message: 'The process exited with code 7: no queue' });
    await town.until('the application says so, too', async () => (await readyOf(badly.id))[0] === 'failed', patientMs);
    expect((await readyOf(badly.id))[1]).toBe('DeploymentFailed');
  },
  4 * patientMs,
);

const policy = (container: string): Promise<string> =>
  docker('inspect', '--format', '{{.HostConfig.RestartPolicy.Name}}', container);
