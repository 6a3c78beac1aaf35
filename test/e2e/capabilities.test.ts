import { afterAll, beforeAll, expect, it } from 'vitest';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { ensureCapableImage } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

let town: Installation;
let image: string;

beforeAll(async () => {
  image = await ensureCapableImage();
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(() => town[Symbol.asyncDispose]());

/** What a program whose file has NET_RAW says in the container: what it was given, or why it did not start. */
async function raw(app: string): Promise<string> {
  const [container = ''] = await instancesOf(app);
  return docker('exec', container, '/bin/sh', '-c', '/bin/raw /proc/self/status 2>&1; true');
}

/** Bit 13 of the set of capabilities that a process uses is NET_RAW. */
function hasNetRaw(status: string): boolean {
  const [, bits = ''] = /^CapEff:\s*([0-9a-f]+)$/m.exec(status) ?? [];
  return ((BigInt(`0x${bits}`) >> 13n) & 1n) === 1n;
}

it(
  'a program whose file has a capability runs once that is granted, and no more when it is taken away',
  { tags: [longTag] },
  async () => {
    const { id } = await town.createApplication({ ...brief, source_type: 'image', image_url: image });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    expect(await raw(id)).toContain('not permitted');

    const path = `/api/v1/applications/${id}/capabilities?wait=60`;
    await town.client.request('PUT', path, { capabilities: ['NET_RAW'] });
    await town.until('the program starts', async () => /^CapEff/m.test(await raw(id)), 60_000);
    expect(hasNetRaw(await raw(id))).toBe(true);

    await town.client.request('PUT', path, { capabilities: [] });
    await town.until('it does not start any more', async () => (await raw(id)).includes('not permitted'), 60_000);
  },
);

it(
  'a deployment whose first program needs one fails with the command that grants it',
  { tags: [longTag] },
  async () => {
    const { id } = await town.createApplication({
      ...brief,
      source_type: 'image',
      image_url: image,
      start_command: '/bin/raw /proc/self/status',
    });
    const { error } = await town.deployment((await town.deploy(id)).id, 'failed');
    expect(JSON.stringify(error)).toContain('setpoint grant');
  },
);
