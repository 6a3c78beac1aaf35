import { describe, expect, it } from 'vitest';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { environmentController } from '../../../controllers/environment/reconcile.ts';
import { projectController } from '../../../controllers/project/reconcile.ts';
import type { ServerPhase } from '../../../store/kinds/server.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import { commit } from '../../../store/unit.ts';
import { uuidv5 } from '../../../store/uuid.ts';
import { createProject, id, openRig } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { serviceSpec } from '../../harness/wire-items.ts';
import { desiredState } from '../../harness/states.ts';

const noCopies = {
  transplant: () => {
    throw new Error('Nothing is copied here');
  },
};
const controllers = [
  projectController,
  environmentController(noCopies),
  applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 }),
  deploymentController({ queueDeadlineMs: 1e9, buildDeadlineMs: 1e9, rolloutDeadlineMs: 1e9 }),
];

async function write(rig: Rig, change: (unit: Unit) => void): Promise<void> {
  const unit = rig.repo.begin();
  change(unit);
  await commit(unit);
  await rig.rest();
}

async function remove(rig: Rig, project: string): Promise<void> {
  const it = (await rig.repo.get('project', project))!;
  await write(rig, (unit) => unit.requestDelete(it));
}

const ready = async (rig: Rig, project: string) =>
  (await rig.repo.get('project', project))?.observed?.conditions.find(({ type }) => type === 'Ready');

async function see(rig: Rig, server: string, phase: ServerPhase): Promise<void> {
  const it = (await rig.repo.get('server', id(server)))!;
  await rig.repo.observe(it, { phase, observedGeneration: 1, conditions: [] }, []);
  await rig.rest();
}

function server(unit: Unit, name: string): void {
  unit.create(
    'server',
    id(name),
    desiredState('server', {
      name,
    }),
  );
}

/** The id that the application's controller gives its first instance. */
const instanceOf = (name: string): string => uuidv5(id(`${name} deployment`), 'slot/0');

/** An application with one instance, as its controllers would have left it. */
function workload(unit: Unit, name: string, on: { project: string; environment: string; server: string }): void {
  const place = { project_id: on.project, environment_id: on.environment, server_id: on.server };
  const app = desiredState('application', { ...place, name, deployment_id: id(`${name} deployment`), run: 'running' });
  unit.create('application', id(name), app);
  unit.create(
    'deployment',
    id(`${name} deployment`),
    desiredState('deployment', {
      ...place,
      application_id: id(name),
      number: 1,
      trigger: 'manual',
      source: app.source,
      config: app.config,
      queued_at: '2030-01-01T00:00:00.000Z',
    }),
  );
  unit.create(
    'assignment',
    instanceOf(name),
    desiredState('assignment', {
      ...place,
      workload_id: id(name),
      workload_name: name,
      version: id(`${name} deployment`),
      spec: serviceSpec({ network: 'sp-x', alias: name }),
    }),
  );
}

/** What the gateway does when an agent says that an instance is gone. */
async function gone(rig: Rig, name: string): Promise<void> {
  const it = (await rig.repo.get('assignment', instanceOf(name)))!;
  expect(it.meta.deletionRequestedAt).toBeDefined();
  await write(rig, (unit) => unit.release(it, 'agent'));
}

describe('a project', () => {
  it('is ready as long as it lives', async () => {
    await using rig = await openRig({ controllers });
    const project = await createProject(rig.repo, 'shop');
    await rig.rest();
    expect(await ready(rig, project)).toMatchObject({ status: 'true', reason: 'Active' });
    const before = rig.store.committed;
    rig.controllers.resync();
    await rig.rest();
    expect(rig.store.committed).toBe(before);
  });

  it('without anything in it goes at once', async () => {
    await using rig = await openRig({ controllers });
    const project = await createProject(rig.repo, 'shop');
    await remove(rig, project);
    expect(await rig.repo.get('project', project)).toBeUndefined();
  });

  it('that is deleted shows what is left and which servers it waits for, until all is gone', async () => {
    await using rig = await openRig({ controllers });
    const project = await createProject(rig.repo, 'shop');
    await write(rig, (unit) => {
      for (const name of ['near', 'far']) server(unit, name);
      for (const name of ['production', 'staging'])
        unit.create('environment', id(name), { project_id: project, name, type: 'production' });
      workload(unit, 'web', { project, environment: id('production'), server: id('near') });
      workload(unit, 'jobs', { project, environment: id('staging'), server: id('far') });
    });
    await see(rig, 'near', 'active');
    await see(rig, 'far', 'offline');
    await remove(rig, project);
    expect(await ready(rig, project)).toMatchObject({
      status: 'false',
      reason: 'Deleting',
      message:
        'Waits for 2 environments, 2 applications, 2 assignments to go; 1 of the assignments are on servers that are away: far',
    });
    await gone(rig, 'web');
    expect((await ready(rig, project))?.message).toBe(
      'Waits for 1 environment, 1 application, 1 assignment to go; 1 of the assignments are on servers that are away: far',
    );
    expect(await rig.repo.get('environment', id('production'))).toBeUndefined();
    await see(rig, 'far', 'active');
    expect((await ready(rig, project))?.message).toBe('Waits for 1 environment, 1 application, 1 assignment to go');
    const before = rig.store.committed;
    rig.controllers.resync();
    await rig.rest();
    expect(rig.store.committed).toBe(before);
    await gone(rig, 'jobs');
    expect(await rig.repo.get('project', project)).toBeUndefined();
    const view = rig.mirror.tenant(rig.repo.tenant);
    for (const kind of ['environment', 'application', 'deployment', 'assignment'] as const)
      expect(view.list(kind)).toEqual([]);
  });
});
