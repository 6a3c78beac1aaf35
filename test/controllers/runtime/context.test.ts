import { expect, test } from 'vitest';
import type { Context, Controller, Verdict } from '../../../controllers/runtime/controller.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { Store, Txn } from '../../../store/store.ts';
import { settle } from '../../harness/fake-clock.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { overriding } from '../limits/scenes.ts';
import { createProject, id, openRig, tenant, type Rig } from './rig.ts';
import { desiredState } from '../../harness/states.ts';

type Project = ReadonlyResource<'project'>;

const verdict: Verdict<'project'> = {
  observed: { phase: 'active' },
  conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
  next: { settled: true },
};

const environmentOf = (project: string, name = 'production') => ({ project_id: project, name, type: 'production' });
const child = id('env');

/** A rig whose one project is reconciled by `body`, which tests replace as they go. */
async function withProject(wrap?: (store: Store) => Store) {
  const steps: ((it: Project, ctx: Context) => Promise<unknown>)[] = [];
  const errors: unknown[] = [];
  const controller: Controller<'project'> = {
    name: 'project',
    kind: 'project',
    reads: ['environment', 'application'],
    children: ['environment', 'application'],
    wakes: [],
    notifies: ['deployment_failed'],
    async reconcile(it, ctx) {
      try {
        await steps.shift()?.(it, ctx);
      } catch (error) {
        errors.push(error);
        throw error;
      }
      return verdict;
    },
  };
  const rig = await openRig({ controllers: [controller], ...(wrap !== undefined && { wrap }) });
  const project = await createProject(rig.repo, 'one');
  await rig.rest();
  /** Runs the body as the next reconcile. */
  const reconcile = async (body: (it: Project, ctx: Context) => Promise<unknown>): Promise<void> => {
    steps.push(body);
    rig.controllers.resync();
    await rig.rest();
  };
  return { rig, project, reconcile, errors };
}

async function createEnvironment(rig: Rig, project: string, of = child): Promise<void> {
  const unit = rig.repo.begin();
  unit.create('environment', of, environmentOf(project));
  await unit.commit();
  await rig.rest();
}

test('ensuring creates the child with its owner, changes it when it differs, and else writes nothing', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  await reconcile((it, ctx) => ctx.ensure('environment', child, environmentOf(project), it));
  const made = await rig.repo.get('environment', child);
  expect(made?.meta.owners).toEqual([{ kind: 'project', id: project, blocks: true }]);
  expect(made?.meta.finalizers).toEqual(['environment']);
  rig.store.reset();
  await reconcile((it, ctx) => ctx.ensure('environment', child, environmentOf(project), it));
  expect(rig.store.committed).toBe(0);
  await reconcile((it, ctx) => ctx.ensure('environment', child, { ...environmentOf(project), git_branch: 'main' }, it));
  expect((await rig.repo.get('environment', child))?.desired.git_branch).toBe('main');
  await reconcile((it, ctx) => ctx.ensure('environment', child, environmentOf(project), it));
  const reset = await rig.repo.get('environment', child);
  expect(reset?.desired.git_branch).toBeUndefined();
  expect(reset?.meta.generation).toBe(3);
});

test('an owner that the kind does not derive is added as a blocking one', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  await createEnvironment(rig, project);
  await reconcile((it, ctx) =>
    ctx.ensure(
      'application',
      id('app'),
      {
        project_id: project,
        environment_id: child,
        server_id: id('server'),
        name: 'web',
        internal_id: 'web-0a1b2c',
        app_type: 'web',
        source: { type: 'image', image_url: 'example/web:1' },
        config: { env: {}, restart_policy: 'always' },
        autodeploy: false,
        domains: [],
        mounts: [],
        replicas: 1,
        run: 'stopped',
        next_deployment_number: 1,
      },
      it,
    ),
  );
  expect((await rig.repo.get('application', id('app')))?.meta.owners).toEqual([
    { kind: 'environment', id: child, blocks: true },
    { kind: 'project', id: project, blocks: true },
  ]);
});

test('the child of another owner is not adopted', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  await createEnvironment(rig, id('another project'));
  await reconcile((it, ctx) => ctx.ensure('environment', child, environmentOf(project, 'stolen'), it));
  expect(String(errors[0])).toContain('belongs to another owner');
  expect((await rig.repo.get('environment', child))?.desired.name).toBe('production');
});

test('no child is born to an owner whose deletion was requested', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  await reconcile(async (it, ctx) => {
    const unit = rig.repo.begin();
    unit.requestDelete(it as ReadonlyResource);
    await unit.commit();
    await ctx.ensure('environment', child, environmentOf(project), it);
  });
  expect(await rig.repo.get('environment', child)).toBeUndefined();
});

test('no child is born to a derived owner that is gone or deleting', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  const attempt = (it: Project, ctx: Context) =>
    ctx.ensure(
      'application',
      id('app'),
      {
        project_id: project,
        environment_id: child,
        server_id: id('server'),
        name: 'web',
        internal_id: 'web-0a1b2c',
        source: { type: 'image', image_url: 'example/web:1' },
        config: {},
      } as never,
      it,
    );
  await reconcile(attempt);
  expect(await rig.repo.get('application', id('app'))).toBeUndefined();
  await createEnvironment(rig, project);
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('environment', child))!);
  await unit.commit();
  await rig.rest();
  await reconcile(attempt);
  expect(await rig.repo.get('application', id('app'))).toBeUndefined();
});

test('several writes of one run to one child build upon each other', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  await reconcile(async (it, ctx) => {
    await ctx.ensure('environment', child, environmentOf(project), it);
    await ctx.amend('environment', child, (draft) => void (draft.git_branch = 'main'));
    await ctx.amend('environment', child, (draft) => void (draft.description = 'Both'));
    await ctx.waive('environment', child, 'environment');
  });
  const stored = await rig.repo.get('environment', child);
  expect(stored?.desired).toMatchObject({ git_branch: 'main', description: 'Both' });
  expect(stored?.meta.finalizers).toEqual([]);
  expect(rig.store.conflicts).toBe(0);
});

test('a second write of one run to one child waits until the mirror shows the first', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  let amended = false;
  const reconciled = reconcile(async (it, ctx) => {
    rig.lag.hold();
    await ctx.ensure('environment', child, environmentOf(project), it);
    await ctx.amend('environment', child, (draft) => void (draft.git_branch = 'main'));
    amended = true;
  });
  await settle(50);
  expect(amended).toBe(false);
  rig.lag.release();
  await reconciled;
  expect(errors).toEqual([]);
  expect((await rig.repo.get('environment', child))?.desired.git_branch).toBe('main');
});

test('amending what is gone answers with nothing, and an equal amendment writes nothing', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  let answer: unknown = 'unset';
  await reconcile(async (_it, ctx) => {
    answer = await ctx.amend('environment', child, (draft) => void (draft.name = 'x'));
  });
  expect(answer).toBeUndefined();
  await createEnvironment(rig, project);
  rig.store.reset();
  await reconcile((_it, ctx) => ctx.amend('environment', child, (draft) => void (draft.name = 'production')));
  expect(rig.store.committed).toBe(0);
});

test('retiring twice requests the deletion once; retiring and waiving what is gone is fine', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  await createEnvironment(rig, project);
  await reconcile((_it, ctx) => ctx.retire('environment', child));
  const first = await rig.repo.get('environment', child);
  expect(first?.meta.deletionRequestedAt).toBeDefined();
  await rig.clock.advance(1000);
  await reconcile((_it, ctx) => ctx.retire('environment', child));
  expect((await rig.repo.get('environment', child))?.meta).toEqual(first?.meta);
  await reconcile((_it, ctx) => ctx.waive('environment', child, 'environment'));
  expect(await rig.repo.get('environment', child)).toBeUndefined();
  await reconcile(async (_it, ctx) => {
    await ctx.retire('environment', child);
    await ctx.waive('environment', child, 'environment');
  });
  expect(errors).toEqual([]);
});

test('what is retired and waived in one run is gone after it, without a conflict', async () => {
  const { rig, project, reconcile } = await withProject();
  await using _ = rig;
  const many = Array.from({ length: 10 }, (__, n) => id(`env${n}`));
  const unit = rig.repo.begin();
  for (const of of many) unit.create('environment', of, environmentOf(project, of));
  await unit.commit();
  await rig.rest();
  await reconcile(async (_it, ctx) => {
    for (const of of many) {
      await ctx.retire('environment', of);
      await ctx.waive('environment', of, 'environment');
    }
  });
  expect(rig.mirror.tenant(tenant).list('environment')).toEqual([]);
  expect(rig.store.conflicts).toBe(0);
});

test('a write that loses its race is a conflict, and the next run sees what won', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  await createEnvironment(rig, project);
  const seen: (string | undefined)[] = [];
  await reconcile(async (_it, ctx) => {
    const unit = rig.repo.begin();
    unit.change(ctx.view.get('environment', child)!, (draft) => void (draft.description = 'By a user'));
    void unit.commit();
    await ctx.amend('environment', child, (draft) => void (draft.git_branch = 'main'));
  });
  expect(errors).toHaveLength(1);
  await reconcile(async (_it, ctx) => {
    seen.push(ctx.view.get('environment', child)?.desired.description);
  });
  expect(seen).toEqual(['By a user']);
  expect((await rig.repo.get('environment', child))?.desired.git_branch).toBeUndefined();
});

test('notifications reach owner and members of the project and the administrators, once per key', async () => {
  const { rig, reconcile } = await withProject();
  await using _ = rig;
  const unit = rig.repo.begin();
  const user = (name: string, role: 'superadmin' | 'admin' | 'user', disabled = false): void => {
    unit.create(
      'user',
      id(name),
      desiredState('user', {
        email: `${name}@example.org`,
        role,
        disabled,
      }),
    );
  };
  user('owner', 'user');
  user('stranger', 'user');
  user('admin', 'admin');
  user('retired admin', 'admin', true);
  user('root', 'superadmin');
  user('viewer', 'user');
  user('former member', 'user', true);
  for (const name of ['viewer', 'former member'])
    unit.create('member', id(`place of ${name}`), { project_id: id('one'), user_id: id(name), role: 'viewer' });
  unit.create('member', id('elsewhere'), { project_id: id('two'), user_id: id('stranger'), role: 'admin' });
  await unit.commit();
  await rig.rest();
  const notifyUsers = (it: Project, ctx: Context) =>
    ctx.notify(it, 'deployment-1/failed', {
      type: 'deployment_failed',
      severity: 'error',
      title: 'Deployment failed',
      message: 'Image does not exist',
    });
  await reconcile(notifyUsers);
  const stored = rig.mirror.tenant(tenant).list('notification');
  expect(stored.map(({ desired }) => desired.user_id).sort()).toEqual(
    [id('owner'), id('viewer'), id('admin'), id('root')].sort(),
  );
  expect(stored[0]?.desired).toMatchObject({
    severity: 'error',
    read: false,
    resource: { kind: 'project', id: id('one'), name: 'one', project_id: id('one') },
  });
  rig.store.reset();
  await reconcile(notifyUsers);
  expect(rig.store.committed).toBe(0);
});

test.each(['fail-before-commit', 'lose-answer'] as const)(
  'a change of phase is told to each user once, although a notification meets %s',
  async (fault) => {
    const ids = ['ann', 'ben', 'cleo'];
    let store: FaultyStore | undefined;
    const controller: Controller<'project'> = {
      name: 'project',
      kind: 'project',
      reads: [],
      children: [],
      wakes: [],
      notifies: ['deployment_failed'],
      async reconcile(it, ctx) {
        if (it.observed?.phase !== 'active')
          await ctx.notify(it, 'key', { type: 'deployment_failed', severity: 'error', title: '', message: '' });
        return verdict;
      },
    };
    await using rig = await openRig({
      controllers: [controller],
      wrap: (inner) => (store = new FaultyStore(inner)),
    });
    const unit = rig.repo.begin();
    for (const name of ids)
      unit.create('user', id(name), desiredState('user', { email: `${name}@example.org`, role: 'admin' }));
    await unit.commit();
    await rig.rest();
    store?.at(store.transactions + 2, fault);
    await createProject(rig.repo, 'one');
    await rig.rest();
    await rig.clock.advance(1000);
    await rig.rest();
    const told = rig.mirror.tenant(tenant).list('notification');
    expect(told.map(({ desired }) => desired.user_id).toSorted()).toEqual(ids.map(id).toSorted());
    expect(rig.mirror.tenant(tenant).get('project', id('one'))?.observed?.phase).toBe('active');
  },
);

test('a notification that cannot be stored for another reason does not fail the reconcile', async () => {
  let refuses = true;
  const { rig, reconcile, errors } = await withProject((inner) =>
    overriding(inner, {
      txn: (it) => (refuses && notifies(it) ? Promise.reject(new TypeError('bug')) : inner.txn(it)),
    }),
  );
  await using _ = rig;
  const unit = rig.repo.begin();
  unit.create('user', id('owner'), desiredState('user', { email: 'o@example.org', role: 'admin' }));
  await unit.commit();
  await rig.rest();
  const notifyUsers = (it: Project, ctx: Context) =>
    ctx.notify(it, 'key', { type: 'deployment_failed', severity: 'error', title: '', message: '' });
  await reconcile(notifyUsers);
  expect(errors).toEqual([]);
  expect(rig.mirror.tenant(tenant).list('notification')).toEqual([]);
  refuses = false;
  await reconcile(notifyUsers);
  expect(rig.mirror.tenant(tenant).list('notification')).toHaveLength(1);
});

function notifies({ then }: Txn): boolean {
  return then.some((it) => 'put' in it && it.put.includes('/notification/'));
}

test('a notification that the controller does not declare is an error, and is not sent', async () => {
  const { rig, reconcile, errors } = await withProject();
  await using _ = rig;
  await reconcile((it, ctx) => ctx.notify(it, 'key', { type: 'of_another', severity: 'info', title: '', message: '' }));
  expect(errors.map(String)).toEqual([
    'Error: Controller project sends a notification that it does not declare: of_another',
  ]);
  expect(rig.mirror.tenant(tenant).list('notification')).toEqual([]);
});

test('a transaction of several children is done whole, and a conflict of one of them undoes none', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  const [one, two] = [id('one'), id('two')];
  await reconcile((it, ctx) =>
    ctx.transact((unit) => {
      unit.require(it as ReadonlyResource); // a project is an object
      unit.create('environment', one, environmentOf(project, 'one'));
      unit.create('environment', two, environmentOf(project, 'two'), { copyOf: { id: one, revision: 7 } });
    }),
  );
  expect((await rig.repo.get('environment', two))?.meta.copyOf).toEqual({ id: one, revision: 7 });
  await reconcile((_it, ctx) =>
    ctx.transact((unit) => {
      unit.requestDelete(ctx.view.get('environment', one) as ReadonlyResource); // as above
      unit.create('environment', two, environmentOf(project, 'again'));
    }),
  );
  expect(errors).toEqual([expect.objectContaining({ message: `Cannot create environment as it exists: ${two}` })]);
  expect((await rig.repo.get('environment', one))?.meta.deletionRequestedAt).toBeUndefined();
});

test('a transaction touches declared children only, and the next write waits until the mirror shows it', async () => {
  const { rig, project, reconcile, errors } = await withProject();
  await using _ = rig;
  await reconcile((_it, ctx) =>
    ctx.transact(
      (unit) => void unit.create('user', id('user'), desiredState('user', { email: 'a@b.test', role: 'user' })),
    ),
  );
  expect(errors.shift()).toMatchObject({ message: expect.stringContaining('a kind that it did not declare: user') });
  await rig.clock.advance(60_000);
  await rig.rest();
  await reconcile(async (_it, ctx) => {
    await ctx.transact((unit) => void unit.create('environment', child, environmentOf(project)));
    await ctx.amend('environment', child, (draft) => void (draft.git_branch = 'main'));
  });
  expect(errors).toEqual([]);
  expect((await rig.repo.get('environment', child))?.desired.git_branch).toBe('main');
});
