import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { environmentNetwork } from '../../controllers/rollout/environment-network.ts';
import { startAcmeServer } from '../harness/acme-server.ts';
import type { AcmeServer } from '../harness/acme-server.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { ensurePackageImage, type PackageImage } from '../harness/package-image.ts';
import { freePort } from '../harness/program.ts';
import { ensureCaddyImage } from '../harness/test-image.ts';
import { askHost } from '../harness/through-proxy.ts';
import { miniflux } from './products/miniflux.ts';
import { nodeRed } from './products/node-red.ts';
import { ntfy } from './products/ntfy.ts';
import { phpmyadmin } from './products/phpmyadmin.ts';
import { basic, edited, type Credentials, type Product, type Site, type Soon } from './products/product.ts';
import { radicale } from './products/radicale.ts';
import { redisCommander } from './products/redis-commander.ts';
import { registry } from './products/registry.ts';
import { unleash } from './products/unleash.ts';
import { victoriaMetrics } from './products/victoria-metrics.ts';
import { wordpress } from './products/wordpress.ts';

/** Those first of which the image is made soonest: while others are made, they are up. */
const products: readonly Product[] = [
  registry,
  radicale,
  victoriaMetrics,
  ntfy,
  miniflux,
  redisCommander,
  nodeRed,
  phpmyadmin,
  wordpress,
  unleash,
];

const patientMs = 120_000;
/** A product waits for the images of all before it, on the first run of a machine. */
const lifeMs = 20 * 60_000;

const Instance = z.looseObject({
  id: z.string(),
  status: z.string(),
  revision: z.int(),
  children: z.array(z.object({ kind: z.string(), key: z.string(), id: z.string(), state: z.string() })),
});
type Instance = z.infer<typeof Instance>;
const Step = z.object({
  kind: z.string(),
  action: z.string(),
  fields: z.array(z.object({ field: z.string() })),
  loses_data: z.string().nullable(),
});
const Planned = z.object({
  plan: z.object({ dry_run: z.literal(true), steps: z.array(Step), needs_force: z.array(z.string()) }),
});
const Env = z.object({ env: z.record(z.string(), z.string()) });
const Login = z.object({ password: z.string() });
const Urls = z.object({ urls: z.array(z.string()) });

let town: Installation;
let acme: AcmeServer;
let httpPort: number;
let httpsPort: number;

beforeAll(async () => {
  const engines = ['postgres', 'mysql', 'mariadb', 'redis'] as const;
  const images: string[] = [];
  for (const engine of engines) images.push(`${engine}=${await ensureDatabaseImage(engine)}`);
  const flags = ['--ingress-image', await ensureCaddyImage(), '--engine-images', images.join(',')];
  [httpPort, httpsPort] = [await freePort(), await freePort()];
  acme = await startAcmeServer({ http: httpPort, https: httpsPort, validitySeconds: 7 * 24 * 3600 });
  town = await Installation.start({ store: 'sqlite', serverFlags: flags });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
    direct_ports_enabled: false,
    ingress: {
      http_port: httpPort,
      https_port: httpsPort,
      acme_directory: acme.directory,
      acme_ca: acme.ca,
      wildcard_domain: 'apps.example.test',
    },
  });
}, 600_000);
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await acme[Symbol.asyncDispose]();
});

const soon: Soon = (what, probe) => town.until(what, probe, patientMs);

/** The text of the catalogue, to the letter but for the image. */
async function textOf({ name }: Product, image: PackageImage): Promise<string> {
  const folder = join(import.meta.dirname, '../../manifests/templates', name);
  const text = await readFile(join(folder, 'template.yaml'), 'utf8');
  const pinned = /^ +image_url: (\S+)$/m.exec(text)?.[1] ?? '';
  return edited(text, [pinned, await ensurePackageImage(`product-${name}`, image)]);
}

/** The instance after a request that waits until it has settled. */
async function settled(method: string, path: string, body: object, revision: number): Promise<Instance> {
  const instance = Instance.parse(await town.client.request(method, `${path}?wait=240`, body));
  expect(instance, JSON.stringify(instance)).toMatchObject({ status: 'running', revision });
  expect(instance.children.filter(({ state }) => state !== 'up')).toEqual([]);
  return instance;
}

/** Asks for the plan of a change, which changes its application alone, and loses nothing. */
async function plan(method: string, path: string, body: object, fields: readonly string[]): Promise<void> {
  const planned = await town.client.request(method, path, { ...body, dry_run: true });
  const { steps, needs_force } = Planned.parse(planned).plan;
  const changed = steps.filter(({ action }) => action !== 'unchanged');
  expect(changed.map(({ kind, action }) => [kind, action])).toEqual([['application', 'update']]);
  expect(changed.flatMap((step) => step.fields.map(({ field }) => field)).toSorted()).toEqual(fields.toSorted());
  expect([needs_force, changed[0]?.loses_data]).toEqual([[], null]);
}

async function siteOf(application: string, database: Credentials): Promise<Site> {
  const { urls } = Urls.parse(await town.application(application));
  const host = new URL(urls.at(-1) ?? '').hostname;
  const { env } = Env.parse(await town.client.request('GET', `/api/v1/applications/${application}/env`));
  // a product without a login has one at its domain
  const login = env['WEB_USERNAME'] === undefined ? {} : basic(env['WEB_USERNAME'], env['WEB_PASSWORD']);
  const site: Site = {
    host,
    env,
    database,
    ask: (path, { json, form, headers = {}, ...asking } = {}) => {
      const type = json === undefined ? 'application/x-www-form-urlencoded' : 'application/json';
      const body = json === undefined ? new URLSearchParams(form).toString() : JSON.stringify(json);
      const written = json !== undefined || form !== undefined;
      return askHost(`https://${host}${path}`, httpsPort, {
        ...asking,
        headers: { ...(written && { 'content-type': type }), ...login, ...headers },
        ...(written && { body }),
      });
    },
    inside: async (...command) => docker('exec', (await instancesOf(application))[0] ?? '', ...command),
  };
  await soon(`${host} answers`, async () => (await site.ask('/')).status < 500);
  return site;
}

/** A database in an environment, and how it is reached there. */
async function databaseIn(place: object, type: string): Promise<Credentials & { id: string }> {
  const { id } = await town.client.object('POST', '/api/v1/databases', { ...place, name: 'beside', type });
  const running = await town.client.object('POST', `/api/v1/databases/${id}/start?wait=240`);
  expect(running.status).toBe('running');
  const { internal_id: host, database_user: user } = running;
  const { password } = Login.parse(await town.client.request('GET', `/api/v1/databases/${id}/credentials`));
  return { id, host: String(host), user: String(user), password };
}

const isGone = (path: string): Promise<boolean> =>
  town.client.request('GET', path).then(
    () => false,
    () => true,
  );

/** Volumes of the engine that containers mount, with those that an image declares. */
async function mountedBy(containers: readonly string[]): Promise<string[]> {
  const format = '{{range .Mounts}}{{.Name}} {{end}}';
  return (await docker('inspect', '--format', format, ...containers)).split(/\s+/).filter((name) => name !== '');
}

describe('a product of the catalogue', () => {
  it.concurrent.each(products.map((product) => [product.name, product] as const))(
    '%s is brought up, upgraded, rolled back and deleted without a trace',
    async (name, product) => {
      const { upgrade } = product;
      const text = await textOf(product, product.image);
      const newText = await textOf(product, upgrade.image ?? product.image);
      const seconds: string[] = [];
      let begun = performance.now();
      const took = (what: string): void => {
        seconds.push(`${what} ${((performance.now() - begun) / 1000).toFixed(1)} s`);
        begun = performance.now();
      };

      const environment = await town.client.object('POST', `/api/v1/projects/${town.project.id}/environments`, {
        name,
        type: 'staging',
      });
      const place = { project_id: town.project.id, environment_id: environment.id, server_id: town.server.id };
      const none = { id: '', host: '', user: '', password: '' };
      const database = product.database === undefined ? none : await databaseIn(place, product.database);
      const template = await town.client.object('POST', '/api/v1/templates', { content: text });
      const first = { ...place, name, variables: product.variables(database) };
      begun = performance.now();
      const instance = await settled('POST', `/api/v1/templates/${template.id}/instantiate`, first, 1);
      const path = `/api/v1/template-instances/${instance.id}`;
      const application = instance.children.find(({ kind }) => kind === 'application')?.id ?? '';
      const before = await siteOf(application, database);
      took('up');
      await product.setUp(before, soon);
      await product.look(before, false, soon);
      const secretsOf = ({ env }: Site): string[] => product.secrets.map((one) => env[one] ?? '');
      for (const secret of secretsOf(before)) expect(secret).toMatch(/^.{20,}$/);

      begun = performance.now();
      const isNewText = upgrade.text !== undefined || upgrade.image !== undefined;
      const content = upgrade.text?.(newText) ?? newText;
      if (isNewText) await town.client.object('PUT', `/api/v1/templates/${template.id}`, { content });
      const change = {
        ...(isNewText && { template_id: template.id }),
        ...(upgrade.variables !== undefined && { variables: upgrade.variables }),
      };
      await plan('PUT', path, change, upgrade.fields);
      await settled('PUT', path, change, 2);
      const upgraded = await siteOf(application, database);
      took('upgraded');
      await product.look(upgraded, true, soon);
      expect(secretsOf(upgraded)).toEqual(secretsOf(before));

      begun = performance.now();
      await plan('POST', `${path}/rollback`, {}, upgrade.fields);
      await settled('POST', `${path}/rollback`, {}, 3);
      const after = await siteOf(application, database);
      took('rolled back');
      await product.look(after, false, soon);
      expect(after.env).toEqual(before.env);
      // the name that only the upgrade had leads nowhere
      if (upgraded.host !== after.host) await leadsNowhere(upgraded.host);

      const children = instance.children.map(({ id }) => id);
      const containers = (await Promise.all(children.map(instancesOf))).flat();
      const volumes = await mountedBy(containers);
      begun = performance.now();
      await town.client.request('DELETE', `${path}?wait=240`);
      await soon(`${name} is gone`, () => isGone(path));
      took('deleted');
      if (database.id !== '') {
        await town.client.request('DELETE', `/api/v1/databases/${database.id}?wait=240`);
        await soon('the database beside it is gone', () => isGone(`/api/v1/databases/${database.id}`));
      }
      await nothingIsLeft({ environment, children, containers, volumes, hosts: [before.host, upgraded.host] });
      console.log(`${name}: ${seconds.join(', ')}`);
    },
    lifeMs,
  );
});

interface Left {
  environment: ApiObject;
  children: readonly string[];
  containers: readonly string[];
  volumes: readonly string[];
  hosts: readonly string[];
}

async function nothingIsLeft({ environment, children, containers, volumes, hosts }: Left): Promise<void> {
  expect(containers.length).toBeGreaterThan(0);
  const present = (await docker('ps', '--all', '--quiet', '--no-trunc')).split('\n');
  expect(present.filter((one) => containers.includes(one))).toEqual([]);
  expect((await Promise.all(children.map(instancesOf))).flat()).toEqual([]);
  const stored = (await docker('volume', 'ls', '--quiet')).split('\n');
  const own = children.map((id) => `sp-vol-${id}`);
  expect(stored.filter((one) => volumes.includes(one) || own.includes(one))).toEqual([]);
  for (const kind of ['applications', 'databases', 'volumes', 'template-instances']) {
    const objects = await town.client.list(`/api/v1/${kind}`);
    expect(objects.filter((it) => it['environment_id'] === environment.id)).toEqual([]);
  }
  // once the agent has nothing to do for some seconds, it removes networks
  await soon('its network is gone', async () => {
    const networks = await docker('network', 'ls', '--format', '{{.Name}}');
    return !networks.split('\n').includes(environmentNetwork(environment.id));
  });
  for (const host of hosts) await leadsNowhere(host);
}

/** No application answers by that name any more. Its certificate may be shown for a while. */
async function leadsNowhere(host: string): Promise<void> {
  await soon(`nothing leads to ${host}`, async () => (await askHost(`http://${host}/`, httpPort)).status === 404);
  const answer = await askHost(`https://${host}/`, httpsPort).catch((error: unknown) => error);
  if (answer instanceof Error) expect(answer.message).toMatch(/alert/);
  else expect(answer).toMatchObject({ status: 421 });
}
