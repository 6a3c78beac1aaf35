import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

const url = 'https://git.test/shop.git';
const secret = 'a-secret-of-sixteen-or-more';

test('users are notified when calls of a webhook begin to be refused, once a day, by whichever leader', async () => {
  await using world = await World.create(37);
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const fields = { project_id: project.id, name: 'shop', provider: 'github', repository_url: url, secret };
  const { data: hook } = await world.must('POST', '/webhooks/git', fields);
  const call = async (headers: Record<string, string>): Promise<number> =>
    (await world.call('POST', `/webhooks/git/${hook.id}`, { zen: 'Be nice' }, { 'x-github-event': 'ping', ...headers }))
      .status;
  const notified = async (): Promise<string[]> => {
    const { data } = await world.must('GET', '/notifications');
    const all = data as { kind: string; message: string; resource: { id: string } }[];
    return all.flatMap((it) => (it.kind === 'webhook_refused' && it.resource.id === hook.id ? [it.message] : []));
  };
  const sum = createHmac('sha256', secret)
    .update(JSON.stringify({ zen: 'Be nice' }))
    .digest('hex');
  expect(await call({ 'x-hub-signature-256': `sha256=${sum}`, 'x-github-delivery': 'one' })).toBe(200);
  await world.rest();
  expect(await notified()).toEqual([]);

  expect(await call({})).toBe(404);
  await world.until('it is notified', async () => (await notified()).length === 1);
  expect(await notified()).toMatchObject([
    expect.stringContaining('Calls of webhook shop are refused, as they have no'),
  ]);
  await world.pass(20_000);
  expect(await call({ 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` })).toBe(404);
  await world.rest();
  expect(await notified()).toHaveLength(1);

  // what another leader finds was notified already
  for (const plane of world.planes) world.killPlane(plane);
  world.startPlane();
  await world.until('somebody leads again', () => world.leading !== undefined);
  await world.rest();
  expect(await notified()).toHaveLength(1);

  await world.pass(24 * 3_600_000);
  expect(await call({})).toBe(404);
  await world.until('it is notified again', async () => (await notified()).length === 2);
});
