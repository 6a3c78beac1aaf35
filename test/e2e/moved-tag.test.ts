import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { privateRegistry } from '../harness/private-registry.ts';
import type { PrivateRegistry } from '../harness/private-registry.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const patientMs = 120_000;

let town: Installation;
let registry: PrivateRegistry;
/** Two images that a tag leads to in turn, as the engine has them. */
const versions: string[] = [];

beforeAll(async () => {
  const { http: image } = await ensureTestImages();
  registry = await privateRegistry();
  const container = await docker('create', image);
  for (const version of ['one', 'two']) {
    const name = `${registry.address}/team/version:${version}`;
    await docker('commit', '--change', `ENV VERSION=${version}`, container, name);
    versions.push(name);
  }
  await docker('rm', container);
  town = await Installation.start({ store: 'sqlite' });
  const { address, username, password } = registry;
  await town.client.request('PUT', '/api/v1/settings', { registries: [address] });
  await town.client.object('POST', '/api/v1/settings/registries', { name: 'own', address, username, password });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  for (const name of versions) await docker('rmi', '--force', name);
  await registry[Symbol.asyncDispose]();
});

async function create(name: string, replicas: number): Promise<ApiObject> {
  const [its] = await town.client.list('/api/v1/settings/registries');
  return town.createApplication({
    source_type: 'image',
    image_url: `${registry.address}/team/${name}:1`,
    registry_id: its!.id,
    healthcheck: { type: 'none' },
    replicas,
    max_surge: 2,
    min_healthy_seconds: 0,
    drain_seconds: 0,
  });
}

/** Deploys it; answers with the digest that the deployment pinned. */
async function deployed(app: ApiObject): Promise<string> {
  const { id } = await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  return String((await town.client.object('GET', `/api/v1/deployments/${id}`))['image_digest']).replace(/^.*@/, '');
}

/** What each running instance was made of, once there are so many of the newest deployment. */
async function madeOf(app: ApiObject, replicas: number, except: readonly string[] = []): Promise<string[]> {
  return town.until(
    'its instances run',
    async () => {
      const it = await town.application(app.id);
      const ids = await instancesOf(app.id);
      if (it['ready_replicas'] !== replicas || ids.length !== replicas) return undefined;
      if (ids.some((id) => except.includes(id))) return undefined;
      const environments = await docker('inspect', '--format', '{{json .Config.Env}}', ...ids);
      return environments.split('\n').map((line) => /VERSION=(\w+)/.exec(line)?.[1] ?? 'none');
    },
    patientMs,
  );
}

it(
  'does not reach a deployment: instances that come later are made of the image that it pinned',
  { tags: [longTag] },
  async () => {
    const first = await registry.push(versions[0]!, 'team/later:1');
    const app = await create('later', 1);
    expect(await deployed(app)).toBe(first);
    const second = await registry.push(versions[1]!, 'team/later:1');
    expect(second).not.toBe(first);
    await town.client.request('POST', `/api/v1/applications/${app.id}/scale`, { replicas: 2 });
    expect(await madeOf(app, 2)).toEqual(['one', 'one']);
    const before = await instancesOf(app.id);
    await town.client.request('POST', `/api/v1/applications/${app.id}/restart`, {});
    expect(await madeOf(app, 2, before)).toEqual(['one', 'one']);
    expect(await deployed(app)).toBe(second);
    expect(await madeOf(app, 2)).toEqual(['two', 'two']);
    await town.deployment(
      (await town.client.object('POST', `/api/v1/applications/${app.id}/rollback`, {})).id,
      'succeeded',
      patientMs,
    );
    expect(await madeOf(app, 2)).toEqual(['one', 'one']);
  },
);

it(
  'that moves all the time gives the instances of a deployment one and the same image',
  { tags: [longTag] },
  async () => {
    const digests = [
      await registry.push(versions[0]!, 'team/moving:1'),
      await registry.push(versions[1]!, 'team/moving:1'),
    ];
    const app = await create('moving', 3);
    let isOver = false;
    const moving = (async () => {
      for (let turn = 0; !isOver; turn++) await registry.move('team/moving:1', digests[turn % 2]!);
    })();
    try {
      for (let round = 0; round < 3; round++) {
        const pinned = await deployed(app);
        expect(digests).toContain(pinned);
        const version = pinned === digests[0] ? 'one' : 'two';
        expect(await madeOf(app, 3)).toEqual([version, version, version]);
      }
    } finally {
      isOver = true;
      await moving;
    }
  },
);
