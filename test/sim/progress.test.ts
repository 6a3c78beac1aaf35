import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

const steps = 1000;

/** Deploys from a repository. Resolves with the transactions until it has succeeded, when the build takes so long. */
async function built(lines: readonly string[]) {
  const takesMs = 300_000;
  await using world = await World.create(1);
  world.startPlane();
  await world.until('a leader is there', () => world.leading !== undefined);
  const machine = await world.addServer('one');
  machine.engine.onBuild(() => ({ lines, takesMs, runs: { listenAfterMs: 0 } }));
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'git',
    repository_url: 'https://git.test/shop.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  await world.pass(10_000);
  const before = world.store.transactions;
  const { data: deployment } = await world.must('POST', `/applications/${app.id}/deploy`);
  const shown = async () => (await world.must('GET', `/deployments/${deployment.id}`)).data;
  await world.pass(10_000);
  const during = await shown();
  const running = world.store.transactions;
  await world.pass(takesMs - 60_000);
  const atRest = world.store.transactions - running;
  await world.pass(120_000);
  const ended = await shown();
  expect(world.faults).toEqual([]);
  return { during, ended, atRest, transactions: world.store.transactions - before };
}

test('a build writes only a few times, however often it reports its progress, and nothing while that stays', async () => {
  const quiet = await built([]);
  const chatty = await built(Array.from({ length: steps }, (_, n) => `Step ${n + 1}/${steps} : RUN make`));
  expect(quiet.during).toMatchObject({ status: 'building', progress: { step: 'cloning', done: null } });
  const progress = { step: 'building', done: steps - 1, total: steps, unit: 'steps' };
  expect(chatty.during).toMatchObject({ status: 'building', progress });
  for (const { atRest, ended } of [quiet, chatty]) {
    expect(atRest).toBe(0);
    expect(ended).toMatchObject({ status: 'succeeded', progress: null });
  }
  expect(chatty.transactions - quiet.transactions).toBe(1);
});
