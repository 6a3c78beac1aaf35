import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const Instance = z.looseObject({
  id: z.string(),
  status: z.string(),
  children: z.array(z.object({ kind: z.string(), id: z.string(), wave: z.int(), state: z.string() })),
});

/** A template on a real engine, from its text to the last trace of what was made of it. */
describe('a template', () => {
  let town: Installation;
  let port: number;
  let instance: z.infer<typeof Instance>;

  beforeAll(async () => {
    const image = await ensureDatabaseImage('redis');
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--engine-images', `redis=${image}`] });
    port = await freePort();
  });
  afterAll(() => town[Symbol.asyncDispose]());

  const childOf = (kind: string): string => instance.children.find((it) => it.kind === kind)?.id ?? '';
  const read = async (): Promise<z.infer<typeof Instance>> =>
    Instance.parse(await town.client.object('GET', `/api/v1/template-instances/${instance.id}`));

  it('is brought up in three waves, and its page answers with what the others gave it', async () => {
    const { http } = await ensureTestImages();
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'metadata: {name: counter}',
      'variables:',
      '  - {name: PORT, type: port}',
      '  - {name: TOKEN, type: secret, generate: {length: 20, alphabet: hex, prefix: t-}}',
      'databases: [{name: db, type: redis}]',
      'volumes: [{name: files}]',
      'applications:',
      '  - name: web',
      `    image_url: ${http}`,
      '    exposed_port: ${PORT}',
      '    healthcheck_path: /healthz',
      ...Object.entries(brief).map(([name, value]) => `    ${name}: ${value}`),
      '    env:',
      '      TOKEN: ${TOKEN}',
      '      DATABASE_URL: ${databases.db.url}',
      '      COUNT_FILE: /files/count',
      '    volumes: [{volume: files, path: /files}]',
      '',
    ].join('\n');
    const template = await town.client.object('POST', '/api/v1/templates', { content });
    const made = await town.client.request('POST', `/api/v1/templates/${template.id}/instantiate?wait=120`, {
      project_id: town.project.id,
      server_id: town.server.id,
      variables: { PORT: String(port) },
    });
    instance = Instance.parse(made);
    expect(instance.status, JSON.stringify(instance)).toBe('running');
    expect(instance.children.map(({ kind, wave, state }) => [kind, wave, state])).toEqual([
      ['volume', 0, 'up'],
      ['database', 1, 'up'],
      ['application', 2, 'up'],
    ]);
    const ask = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
    expect(await ask('/env/TOKEN')).toMatch(/^t-[0-9a-f]{20}$/);
    expect(await ask('/env/DATABASE_URL')).toMatch(/^redis:\/\/.*@counter-db-[0-9a-f]{6}:6379/);
    expect(await ask('/count')).toBe('1');
    const [container] = await instancesOf(childOf('application'));
    expect(await docker('exec', container ?? '', 'cat', '/files/count')).toContain('1');
  });

  it('is deleted without a trace', async () => {
    const [application, database, volume] = [childOf('application'), childOf('database'), childOf('volume')];
    const { data_volume_id: data } = await town.client.object('GET', `/api/v1/databases/${database}`);
    await town.client.request('DELETE', `/api/v1/template-instances/${instance.id}`);
    await town.until(
      'the instance is gone',
      () =>
        read().then(
          () => false,
          () => true,
        ),
      60_000,
    );
    expect([await instancesOf(application), await instancesOf(database)]).toEqual([[], []]);
    const names = (await docker('volume', 'ls', '--format', '{{.Name}}')).split('\n');
    for (const id of [volume, String(data)]) expect(names).not.toContain(`sp-vol-${id}`);
    const left = await Promise.all(
      ['applications', 'databases', 'volumes'].map((kind) => town.client.list(`/api/v1/${kind}`)),
    );
    expect(left.flat()).toEqual([]);
  });
});
