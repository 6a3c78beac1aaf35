import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

let town: Installation;
let image: string;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  town = await Installation.start({ store: 'sqlite' });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, { direct_ports_enabled: false });
});
afterAll(() => town[Symbol.asyncDispose]());

async function running(fields: Record<string, unknown>): Promise<ApiObject> {
  const app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    ...fields,
  });
  const { id } = await town.deploy(app.id);
  await town.deployment(id, 'succeeded');
  return app;
}

/** What a process in a container of the application gets at the address; `undefined` if it does not get there. */
async function asked(app: ApiObject, url: string): Promise<{ host: string; env: Record<string, string> } | undefined> {
  const [container = ''] = await instancesOf(app.id);
  const script = `fetch(process.argv[1], { signal: AbortSignal.timeout(3000) })
    .then((answer) => answer.text()).then(console.log, () => console.log('null'))`;
  return JSON.parse(await docker('exec', container, '/bin/node', '-e', script, url)) ?? undefined;
}

it('workloads of an environment reach each other by name, and those of another one neither by name nor by address', async () => {
  const staging = await town.client.object('POST', `/api/v1/projects/${town.project.id}/environments`, {
    name: 'staging',
  });
  const api = await running({ name: 'Api', replicas: 2, env: { IN: 'production' } });
  const [shop, copy, stranger] = await Promise.all([
    running({ name: 'shop', env: { API: '${applications.Api.url}/from-env' } }),
    running({ name: 'Api', environment_id: staging.id, env: { IN: 'staging' } }),
    running({ name: 'shop', environment_id: staging.id }),
  ]);
  expect(api).toMatchObject({ host_name: 'api' });

  // every replica answers to the name, and no one of the other environment
  const answering = new Set<string>();
  for (let n = 0; n < 40 && answering.size < 2; n += 1) {
    const answer = await asked(shop, 'http://api:8080/');
    expect(answer?.env['IN']).toBe('production');
    answering.add(answer?.host ?? '');
  }
  expect(answering.size).toBe(2);
  expect((await asked(stranger, 'http://api:8080/'))?.env['IN']).toBe('staging');
  expect((await asked(shop, `http://${String(api['internal_id'])}:8080/`))?.env['IN']).toBe('production');
  const [own = ''] = await instancesOf(shop.id);
  expect(await docker('exec', own, '/bin/node', '-e', 'console.log(process.env.API)')).toBe(
    `http://${String(api['internal_id'])}:8080/from-env`,
  );

  expect(await asked(stranger, `http://${String(api['internal_id'])}:8080/`)).toBeUndefined();
  const [container = ''] = await instancesOf(api.id);
  const address = await docker(
    'inspect',
    '--format',
    '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}',
    container,
  );
  expect((await asked(shop, `http://${address}:8080/`))?.env['IN']).toBe('production');
  expect(await asked(stranger, `http://${address}:8080/`)).toBeUndefined();
  expect(await asked(copy, `http://${address}:8080/`)).toBeUndefined();
});

it(
  'applications whose names make the same DNS name do not answer for each other, and a rename changes none',
  { tags: [longTag] },
  async () => {
    const [one, other] = [
      await running({ name: 'Two words' }),
      await running({ name: 'two-words', env: { IS: 'other' } }),
    ];
    expect([one['host_name'], other['host_name']]).toEqual(['two-words', 'two-words-2']);
    for (let n = 0; n < 5; n += 1) {
      expect((await asked(other, 'http://two-words:8080/'))?.env['IS']).toBeUndefined();
      expect((await asked(one, 'http://two-words-2:8080/'))?.env['IS']).toBe('other');
    }
    const before = await instancesOf(one.id);
    const renamed = await town.client.object('PUT', `/api/v1/applications/${one.id}`, { name: 'renamed' });
    expect(renamed).toMatchObject({ name: 'renamed', host_name: 'two-words' });
    expect(await instancesOf(one.id)).toEqual(before);
  },
);

it('a value reaches the process byte for byte, whatever it has', { tags: [longTag] }, async () => {
  const all = Array.from({ length: 0x17f }, (_, code) => String.fromCodePoint(code + 1)).join('');
  const value = `${all}\u2028\ud7ff\ue000\uffff\u{10ffff}${'$'.repeat(3)}{HOME}\${applications`;
  const app = await running({ name: 'bytes', env: { BYTES: value, EMPTY: '' } });
  const env = (await asked(app, 'http://127.0.0.1:8080/'))?.env;
  expect(env).toMatchObject({ BYTES: value, EMPTY: '' });
});
