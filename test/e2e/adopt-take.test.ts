import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const tag = randomUUID().slice(0, 8);
const secret = `hunter2-${randomUUID()}`;

let town: Installation;
let http: string;
const containers: string[] = [];
const volumes: string[] = [];
const images: string[] = [];

/** A container of another hand than Setpoint's, with a port that labels name for a proxy. */
async function run(name: string, port: number, ...rest: readonly string[]): Promise<void> {
  containers.push(name);
  const label = `traefik.http.services.${name}.loadbalancer.server.port=${port}`;
  const env = ['--env', `PORT=${port}`, '--env', `TOKEN=${secret}`];
  await docker('run', '--detach', '--name', name, '--restart', 'unless-stopped', '--label', label, ...env, ...rest);
}

/** As a user who follows what the command prints. */
async function setpoint(...argv: readonly string[]): Promise<{ out: string; err: string }> {
  await using cli = await CommandLine.open();
  const { server, token = '' } = town.client.connection;
  const { code, out, err } = await cli.run(argv, '', { SETPOINT_URL: server, SETPOINT_TOKEN: token });
  if (code !== 0) throw new Error(`${argv.join(' ')} ended with ${code}: ${err}`);
  expect(`${out}${err}`).not.toContain(secret);
  return { out, err };
}

const place = () => ['adopt', 'one', '--project', town.project.name ?? ''];

/** The ids of an application and of its deployment, as the command prints them. */
function madeIn(out: string, name: string): { id: string; deployment: string } {
  const [, id, deployment] = new RegExp(`^application +${name} +(\\S+) +(\\S+)`, 'm').exec(out) ?? [];
  if (id === undefined || deployment === undefined) throw new Error(`Nothing was deployed: ${out}`);
  return { id, deployment };
}

/** Everything that the control plane shows, logs and stores, and what the agent logs. */
async function whereASecretCouldBe(): Promise<Map<string, string>> {
  const paths = ['/audit', '/notifications', '/applications', '/volumes', `/servers/${town.server.id}/events`];
  const applications = await town.client.list('/api/v1/applications');
  for (const { id } of applications) paths.push(`/applications/${id}/events`, `/applications/${id}/deployments`);
  const found = new Map<string, string>();
  for (const path of paths) found.set(path, JSON.stringify(await town.client.request('GET', `/api/v1${path}`)));
  const stored = (await readdir(join(town.dir, 'server'))).filter((file) => file.startsWith('store.db'));
  const files = ['server-0.log', 'agent.log', ...stored.map((file) => join('server', file))];
  for (const file of files) found.set(file, await readFile(join(town.dir, file), 'latin1'));
  return found;
}

/** Asks one after another until it is disposed, and counts. */
function asking(url: string): { failed: string[]; answered: () => number; end: () => Promise<void> } {
  const failed: string[] = [];
  let answered = 0;
  let isOver = false;
  const run = async (): Promise<void> => {
    while (!isOver) {
      try {
        const response = await fetch(url);
        await response.text();
        if (response.status === 200) answered += 1;
        else failed.push(String(response.status));
      } catch (error) {
        failed.push(String(error));
      }
    }
  };
  const running = run();
  return {
    failed,
    answered: () => answered,
    end: async () => {
      isOver = true;
      await running;
    },
  };
}

beforeAll(async () => {
  ({ http } = await ensureTestImages());
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  for (const name of containers) await docker('rm', '--force', '--volumes', name).catch(() => undefined);
  for (const name of volumes) await docker('volume', 'rm', name).catch(() => undefined);
  for (const name of images) await docker('rmi', '--force', name).catch(() => undefined);
});

describe('a container that was made by docker run', () => {
  it('is taken over beside the old one, which misses no request, and its secret is nowhere but in the container', async () => {
    const name = `web-${tag}`;
    const port = await freePort();
    await run(name, port, http);
    const address = await docker('inspect', '--format', '{{.NetworkSettings.IPAddress}}', name);
    await town.until('the old one answers', async () => (await fetch(`http://${address}:${port}/`)).ok);
    const old = asking(`http://${address}:${port}/`);
    const { out } = await setpoint(...place(), '--take', name, '--deploy', '--wait');
    expect(out).toContain(
      `  1. Once ${name} serves: On the server: docker update --restart no ${name} && docker stop ${name}\n`,
    );
    expect(out).toMatch(/^succeeded$/m);
    const { id, deployment } = madeIn(out, name);
    await town.deployment(deployment, 'succeeded');
    await old.end();
    expect(old.failed).toEqual([]);
    expect(old.answered()).toBeGreaterThan(10);
    expect(await (await fetch(`http://127.0.0.1:${port}/env/TOKEN`)).text()).toBe(secret);
    expect(await instancesOf(id)).toHaveLength(1);
    for (const [place, text] of await whereASecretCouldBe()) expect(text.includes(secret), place).toBe(false);
  });

  it(
    'runs on with the image that it ran, though its name is that of another one since',
    { tags: [longTag] },
    async () => {
      const name = `moved-${tag}`;
      const image = `setpoint-test/${name}:1`;
      const port = await freePort();
      images.push(image);
      const source = await docker('create', http);
      const commit = (version: string) => docker('commit', '--change', `ENV VERSION=${version}`, source, image);
      await commit('one');
      await run(name, port, image);
      await commit('two');
      await docker('rm', source);
      const { out } = await setpoint(...place(), '--take', name, '--deploy', '--wait');
      await town.deployment(madeIn(out, name).deployment, 'succeeded');
      expect(await (await fetch(`http://127.0.0.1:${port}/env/VERSION`)).text()).toBe('one');
    },
  );

  it(
    'is taken over with its volume by the steps that the command prints, with all that it wrote before its stop',
    { tags: [longTag] },
    async () => {
      const [name, rows] = [`files-${tag}`, `rows-${tag}`];
      const port = await freePort();
      volumes.push(rows);
      await run(name, port, '--volume', `${rows}:/data`, http);
      const write = (text: string) =>
        docker('exec', '--user', '0', name, '/bin/sh', '-c', `echo ${text} > /data/table; echo old > /data/old`);
      await write('first');
      const looked = await setpoint(...place());
      expect(looked.out).toMatch(new RegExp(`^application +${name} +${name} +with_a_stop +volume_copied$`, 'm'));
      expect(looked.out).not.toContain('PROJECT');

      const { out } = await setpoint(...place(), '--take', name, '--deploy');
      const { id, deployment } = madeIn(out, name);
      const [, step = ''] = /^ {2}1\. On the server: (.*): its data is copied then, and/m.exec(out) ?? [];
      expect(step).toBe(`docker update --restart no ${name} && docker stop ${name}`);
      await town.until('it waits for the copy', async () => {
        const { conditions } = await town.client.object('GET', `/api/v1/deployments/${deployment}`);
        return conditions?.some(({ reason }) => reason === 'WaitingForVolume');
      });
      expect(await instancesOf(id)).toEqual([]);
      await write('last');
      for (const line of step.split(' && ')) await docker(...line.split(' ').slice(1));
      await town.deployment(deployment, 'succeeded', 120_000);

      const [instance = ''] = await instancesOf(id);
      const read = (container: string, file: string) => docker('exec', container, '/bin/cat', `/data/${file}`);
      expect([await read(instance, 'table'), await read(instance, 'old')]).toEqual(['last', 'old']);
      expect(await (await fetch(`http://127.0.0.1:${port}/env/TOKEN`)).text()).toBe(secret);
      // the old one is the way back
      await docker('exec', '--user', '0', instance, '/bin/sh', '-c', 'echo new > /data/table');
      await docker('start', name);
      expect(await read(name, 'table')).toBe('last');
      await docker('stop', '--time', '1', name);
      const again = await setpoint(...place());
      expect(again.out).toMatch(new RegExp(`^volume +${rows} +${rows} +no +name_taken$`, 'm'));
      for (const [where, text] of await whereASecretCouldBe()) expect(text.includes(secret), where).toBe(false);
    },
  );
});
