import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { controllers } from './deployed.ts';

const head = 'a'.repeat(40);
const git = {
  type: 'git',
  repository_url: 'https://git.example/shop.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
} as const;

/** An application that serves what was built at a commit, and whose image is then removed from its server. */
async function pruned(rig: Rig, source: DesiredOf<'application'>['source']) {
  const server = aServer();
  const app = anApplication({ server_id: server.meta.id, source });
  const deployment = aDeployment(app);
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, {
    ...app.desired,
    deployment_id: deployment.meta.id,
    next_deployment_number: 2,
  });
  made.create('deployment', deployment.meta.id, deployment.desired);
  await commit(made);
  const end = async (id: string, observed: Partial<ObservedOf<'deployment'>>): Promise<void> => {
    const it = await rig.repo.get('deployment', id);
    if (it === undefined) throw new Error(`There is no deployment ${id}`);
    const full = kinds.deployment.observed.parse({ finished_at: rig.clock.now().toISOString(), ...observed });
    await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
  await end(deployment.meta.id, {
    phase: 'succeeded',
    image: 'setpoint/shop:1',
    image_digest: 'sha256:1',
    ...(source.type === 'git' && { commit: head }),
  });
  const lose = async (id: string): Promise<void> => {
    const it = await rig.repo.get('assignment', assignmentId.slot(id, 0));
    if (it === undefined) throw new Error('The application has no instance');
    const error = { code: 'image_not_found', message: 'It is not on this server any more' };
    const full = kinds.assignment.observed.parse({ phase: 'failed', error });
    await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
  await lose(deployment.meta.id);
  const run = async (wanted: 'stopped' | 'running'): Promise<void> => {
    const it = await rig.repo.get('application', app.meta.id);
    if (it === undefined) throw new Error('There is no application');
    const unit = rig.repo.begin();
    unit.change(it, (draft) => void (draft.run = wanted));
    await commit(unit);
    await rig.rest();
  };
  const view = rig.mirror.tenant(tenant);
  return {
    first: deployment.meta.id,
    end,
    lose,
    run,
    state: () => view.get('application', app.meta.id),
    newest: () => view.get('deployment', view.get('application', app.meta.id)?.desired.deployment_id ?? ''),
  };
}

test('an image that was removed from the server is built again, at the commit that served', async () => {
  await using rig = await openRig({ controllers });
  const { first, newest } = await pruned(rig, git);
  const it = newest();
  expect(it?.meta.id).not.toBe(first);
  expect(it?.desired).toMatchObject({ trigger: 'config', commit: head, number: 2, source: git });
  expect(it?.desired.reuse).toBeUndefined();
});

test('a build that fails is not tried again by itself, and its reason is that of the application', async () => {
  await using rig = await openRig({ controllers });
  const { end, newest, state } = await pruned(rig, git);
  const again = newest()?.meta.id ?? '';
  await end(again, {
    phase: 'failed',
    error: { code: 'repository_unreachable', message: 'git.example does not answer' },
  });
  await rig.rest();
  expect(newest()?.meta.id).toBe(again);
  expect(state()?.observed?.conditions.find(({ type }) => type === 'Ready')?.message).toMatch(
    /not on this server.*git\.example does not answer|git\.example does not answer.*not on this server/s,
  );
});

test('one that is cancelled is not tried again, until the application was stopped and started', async () => {
  await using rig = await openRig({ controllers });
  const { end, lose, run, first, newest } = await pruned(rig, git);
  const again = newest()?.meta.id ?? '';
  await end(again, { phase: 'cancelled' });
  expect(newest()?.meta.id).toBe(again);
  await rig.clock.advance(1000);
  await run('stopped');
  await run('running');
  await lose(first);
  expect([first, again]).not.toContain(newest()?.meta.id);
  expect(newest()?.desired).toMatchObject({ number: 3, commit: head });
});

test('nothing is fetched by a credential that the project may not use any more', async () => {
  await using rig = await openRig({ controllers });
  const id = randomUUID();
  const made = rig.repo.begin();
  made.create('git_credential', id, { ...desiredState('git_credential'), allowed_projects: [randomUUID()] });
  await commit(made);
  const { first, newest } = await pruned(rig, { ...git, git_credential_id: id });
  expect(newest()?.meta.id).toBe(first);
});

test('an image that nothing is built from stays lost, as only its registry can bring it back', async () => {
  await using rig = await openRig({ controllers });
  const { first, newest } = await pruned(rig, { type: 'image', image_url: 'example/web:1' });
  expect(newest()?.meta.id).toBe(first);
});
