import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { PlanEntry } from '../../api/adoption/answer.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const tag = randomUUID().slice(0, 8);
const project = `shop-${tag}`;
const secret = `hunter2-${tag}`;
const Adoption = z.object({
  found: z.array(
    z.object({ name: z.string(), made_by: z.string(), containers: z.array(z.looseObject({ name: z.string() })) }),
  ),
  volumes: z.array(z.looseObject({ name: z.string(), bytes: z.number().nullable() })),
  plan: z.array(PlanEntry),
});

let town: Installation;
let http: string;
let shell: string;
let port: number;
const removed: string[] = [];

/** A container of another hand than Setpoint's. */
async function run(name: string, ...flags: string[]): Promise<void> {
  removed.push(name);
  await docker('run', '--detach', '--name', name, ...flags);
}

/** As compose labels what it makes. */
const composeLabels = (service: string): string[] =>
  [`com.docker.compose.project=${project}`, `com.docker.compose.service=${service}`].flatMap((one) => ['--label', one]);

/** What is found and planned of what this test made: others use the same engine. */
async function adopt() {
  const answer = Adoption.parse(await town.client.request('POST', `/api/v1/servers/${town.server.id}/adopt`, {}));
  const isOurs = (text: string | null): boolean => text?.includes(tag) === true;
  return {
    whole: JSON.stringify(answer),
    found: answer.found.filter((group) => group.containers.some(({ name }) => isOurs(name))),
    volumes: answer.volumes.filter(({ name }) => isOurs(name)),
    plan: answer.plan.filter(({ from }) => isOurs(from.volume) || from.containers.some(isOurs)),
  };
}

const startedAt = (name: string) => docker('inspect', '--format', '{{.State.StartedAt}} {{.State.Running}}', name);

beforeAll(async () => {
  ({ http, shell } = await ensureTestImages());
  town = await Installation.start({ store: 'sqlite' });
  port = await freePort();
  await docker('network', 'create', `${project}_default`);
  await docker('volume', 'create', '--label', `com.docker.compose.project=${project}`, `${project}_data`);
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  for (const name of removed) await docker('rm', '--force', '--volumes', name).catch(() => undefined);
  await docker('volume', 'rm', `${project}_data`).catch(() => undefined);
  await docker('network', 'rm', `${project}_default`).catch(() => undefined);
});

describe('containers that others made on a real engine', { tags: [longTag] }, () => {
  it('are found with a plan, without the value of any variable, and nothing of them changes', async () => {
    const limits = ['--memory', '64m', '--cpus', '0.5', '--restart', 'unless-stopped'];
    await run(`web-${tag}`, ...limits, '--env', `PORT=${port}`, '--env', `TOKEN=${secret}`, http);
    const own = ['--network', `${project}_default`];
    const data = ['--volume', `${project}_data:/data`];
    const serving = ['/bin/sh', '-c', `echo rows > /data/table; API_TOKEN=${secret} sleep infinity`];
    await run(`${project}-db-1`, ...own, ...data, ...composeLabels('db'), shell, ...serving);
    await run(`${project}-front-1`, ...own, ...composeLabels('front'), '--publish', `127.0.0.1::8080`, http);
    // not every machine can start it
    removed.push(`root-${tag}`);
    const rights = ['--privileged', '--network', 'host', '--restart', 'always'];
    await docker('create', '--name', `root-${tag}`, ...rights, shell);
    await run(`engine-${tag}`, '--volume', '/var/run/docker.sock:/var/run/docker.sock', shell);
    const before = await Promise.all(removed.map(startedAt));

    const { found, volumes, plan, whole } = await adopt();
    expect(whole).not.toContain(secret);
    expect(await Promise.all(removed.map(startedAt))).toEqual(before);
    expect(found.map(({ made_by: maker, name, containers }) => [maker, name, containers.length])).toEqual([
      ['compose', project, 2],
      ['docker', `engine-${tag}`, 1],
      ['docker', `root-${tag}`, 1],
      ['docker', `web-${tag}`, 1],
    ]);
    expect(volumes).toMatchObject([{ name: `${project}_data`, bytes: expect.any(Number) }]);
    const inShort = plan.map(({ kind, from, possible, why }) => [
      `${kind} ${from.volume ?? from.containers.join(' ')}: ${possible}`,
      why.map(({ code }) => code).join(' '),
    ]);
    expect(inShort).toEqual([
      [`volume ${project}_data: with_a_stop`, 'volume_copied'],
      [`application ${project}-db-1: no`, 'secret_in_command'],
      [`application ${project}-front-1: with_a_stop`, 'port_changes shared_network'],
      [`application engine-${tag}: no`, 'engine_socket'],
      [`application root-${tag}: no`, expect.stringMatching(/privileged.*network_mode|network_mode.*privileged/)],
      [`application web-${tag}: yes`, ''],
    ]);
    const web = plan.at(-1);
    expect(web?.env.toSorted()).toEqual(['PORT', 'TOKEN']);
    expect(web?.manifest).toMatchObject({ image_url: http, memory_limit: '64m', cpu_limit: '0.5', exposed_port: 8080 });
  });

  it('become applications by their manifests, beside what runs', async () => {
    const { plan } = await adopt();
    const web = plan.find(({ name }) => name === `web-${tag}`);
    const before = await startedAt(`web-${tag}`);
    const values = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port), TOKEN: secret } };
    const app = await town.createApplication({ ...web?.manifest, ...values });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded');
    expect(await (await fetch(`http://127.0.0.1:${port}/env/TOKEN`)).text()).toBe(secret);
    expect(await startedAt(`web-${tag}`)).toBe(before);
    expect(await instancesOf(app.id)).toHaveLength(1);
    expect((await adopt()).plan.map(({ name }) => name)).toContain(`web-${tag}`);
    const containers = (await adopt()).found.flatMap((group) => group.containers.map(({ name }) => name));
    expect(containers.toSorted()).toEqual(removed.toSorted());
  });

  it('move with their data as the plan says, and find it there', async () => {
    const name = `keeper-${tag}`;
    const looking = ['/bin/sh', '-c', 'cat /data/table; exec sleep infinity'];
    await docker('rm', '--force', `${project}-db-1`);
    await run(name, '--volume', `${project}_data:/data`, shell, ...looking);
    const { plan } = await adopt();
    const [volume, keeper] = plan.filter(({ from }) => from.volume !== null || from.containers.includes(name));
    expect(volume).toMatchObject({ kind: 'volume', possible: 'with_a_stop' });
    expect(keeper).toMatchObject({ possible: 'with_a_stop', mounts: [{ volume: volume?.name, path: '/data' }] });
    const place = { project_id: town.project.id };
    const made = await town.client.object('POST', '/api/v1/volumes?wait=60', { ...volume?.manifest, ...place });
    const app = await town.createApplication({ ...keeper?.manifest });
    const binding = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${made.id}/bind?wait=60`, binding);
    await docker('stop', '--time', '1', name);
    const mounts = ['--volume', `${project}_data:/from:ro`, '--volume', `sp-vol-${made.id}:/to`];
    await docker('run', '--rm', ...mounts, shell, '/bin/cp', '-a', '/from/.', '/to/');
    await town.deployment((await town.deploy(app.id)).id, 'succeeded');
    const [instance = ''] = await instancesOf(app.id);
    expect(await docker('exec', instance, '/bin/cat', '/data/table')).toBe('rows');
    expect(await docker('logs', name)).toBe('rows');
  });
});
