import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

interface Event {
  reason: string;
  message: string;
  last_at: string;
}

test('what happens to a deployment is shown once, and the newest first', async () => {
  await using world = await World.create(5);
  world.startPlane();
  const machine = await world.addServer('one');
  machine.engine.addImage('web:1');
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'image',
    image_url: 'web:none',
  });
  const path = `/applications/${app.id}`;
  expect((await world.must('POST', `${path}/deploy?wait=120`)).data.status).toBe('failed');
  await world.must('PUT', path, { image_url: 'web:1' });
  expect((await world.must('POST', `${path}/deploy?wait=120`)).data.status).toBe('succeeded');
  await world.rest();
  const { data: events } = (await world.must('GET', `${path}/events`)) as { data: Event[] };
  const messages = events.map(({ message }) => message);
  expect(new Set(messages).size).toBe(messages.length);
  expect(messages.filter((text) => text.startsWith('Deployment 1 failed'))).toHaveLength(1);
  expect(events.map(({ last_at }) => last_at)).toEqual(
    events
      .map(({ last_at }) => last_at)
      .toSorted()
      .toReversed(),
  );
  const reasons = events.map(({ reason }) => reason);
  expect(reasons.indexOf('DeploymentDeploying')).toBeLessThan(reasons.indexOf('DeploymentFailed'));
});
