import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureTestImages } from '../harness/test-image.ts';

/** A compose file on a real engine, from the API to what its services see of each other. */
describe('an application of a compose file', () => {
  let town: Installation;
  let app: string;
  let base: string;
  let url: string;
  let image: string;

  const file = (): string => `
services:
  web:
    image: ${image}
    restart: always
    environment:
      COLOUR: \${COLOUR}
    ports: ['\${WEB_PORT}:8080']
    healthcheck: {test: [CMD, /bin/node, -e, "fetch('http://127.0.0.1:8080/healthz').then((it) => process.exit(it.ok ? 0 : 1), () => process.exit(1))"], interval: 1s}
    depends_on:
      store: {condition: service_healthy}
      setup: {condition: service_completed_successfully}
    networks: [front, default]
  store:
    image: ${image}
    restart: always
    volumes: ['data:/data']
    healthcheck: {test: [CMD, /bin/sh, -c, test -d /data], interval: 1s}
  setup:
    image: ${image}
    restart: 'no'
    command: /bin/sh -c 'echo set up'
    depends_on: [store]
volumes: {data: {}}
networks: {front: {}}
`;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    town = await Installation.start({ store: 'sqlite' });
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const made = await town.createApplication({
      source_type: 'compose',
      compose_file: file(),
      env: { WEB_PORT: String(port), COLOUR: 'red' },
      min_healthy_seconds: 1,
      drain_seconds: 2,
    });
    app = made.id;
    base = `/api/v1/applications/${app}`;
  });
  afterAll(() => town[Symbol.asyncDispose]());

  interface Instance {
    id: string;
    service: string;
    container_id: string;
    status: string;
    ready: boolean;
  }
  const instances = async (service: string): Promise<Instance[]> =>
    (await town.client.list(`${base}/instances`, { service })) as unknown as Instance[];
  const containerOf = async (service: string): Promise<string> => (await instances(service))[0]!.container_id;
  /** Of the instance that a new connection leads to: an older one may lead to an instance that drains. */
  const colour = async (): Promise<string> =>
    (await fetch(`${url}/env/COLOUR`, { headers: { connection: 'close' } })).text();
  const deployed = async (): Promise<void> => {
    await town.deployment((await town.deploy(app)).id, 'succeeded');
  };

  it('starts its services in their order; they reach each other by name, and requests reach one of them', async () => {
    await deployed();
    expect(await colour()).toBe('red');
    const answers = "fetch('http://store:8080/healthz').then((it) => console.log(it.status))";
    expect(await docker('exec', await containerOf('web'), '/bin/node', '-e', answers)).toContain('200');
    await docker('exec', await containerOf('store'), '/bin/sh', '-c', 'echo kept > /data/note');
    expect(await instances('setup')).toMatchObject([{ status: 'succeeded' }]);
  });

  it('is deployed again under requests without a failed one, and what writes to a volume goes on', async () => {
    const store = await containerOf('store');
    const web = await containerOf('web');
    await using load = new SteadyLoad({ url: `${url}/healthz`, perSecond: 100 });
    await deployed();
    await town.client.request('PATCH', `${base}/env`, { COLOUR: 'blue' });
    await town.until('the new value is there', async () => (await colour()) === 'blue', 60_000);
    await town.until('it has settled', async () => {
      const items = await town.client.list(`${base}/deployments`);
      return items.every((it) => it.status === 'succeeded');
    });
    const { sent, failures } = await load.end();
    expect(failures).toEqual({});
    expect(sent).toBeGreaterThan(100);
    expect(await containerOf('store')).toBe(store);
    expect(await containerOf('web')).not.toBe(web);
  });

  it('makes a container again that was removed by hand, with its volume', async () => {
    const store = await containerOf('store');
    await docker('rm', '-f', store);
    const again = await town.until(
      'it is there again',
      async () => {
        const [it] = await instances('store');
        return it?.ready === true && it.container_id !== store && it.container_id;
      },
      60_000,
    );
    expect(await docker('exec', again, '/bin/sh', '-c', 'cat /data/note')).toContain('kept');
  });

  it('returns to the deployment before', async () => {
    const { id } = await town.client.object('POST', `${base}/rollback`, {});
    await town.deployment(id, 'succeeded');
    expect(await colour()).toBe('red');
  });

  it('is stopped, started and deleted without a trace', async () => {
    await town.client.request('POST', `${base}/stop?wait=60`);
    await town.until('nothing runs', async () => (await instancesOf(app)).length === 0, 60_000);
    await town.client.request('POST', `${base}/start?wait=60`);
    expect(await colour()).toBe('red');
    const networks = async (): Promise<string> =>
      docker('network', 'ls', '--filter', `label=${labels.server}=${town.server.id}`, '--format', '{{.Name}}');
    expect((await networks()).trim().split('\n')).toHaveLength(3);
    await town.client.request('DELETE', base);
    await town.until(
      'it is gone',
      async () => !(await town.client.list('/api/v1/applications')).some((it) => it.id === app),
      120_000,
    );
    expect(await instancesOf(app)).toEqual([]);
    expect(
      await docker('volume', 'ls', '--filter', `label=${labels.server}=${town.server.id}`, '--format', '{{.Name}}'),
    ).toBe('');
    await town.until('its networks are gone', async () => (await networks()).trim() === '', 120_000);
  });
});
