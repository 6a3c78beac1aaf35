import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';

type Person = Client & { id: string };

/** A request that is overtaken begins anew: with the rights of then, not of when it came. */
let world: ApiWorld;
let store: InterruptibleStore;
let root: Client;

beforeAll(async () => {
  world = await startApi({ wrap: (inner) => (store = new InterruptibleStore(inner)) });
  root = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
async function aProject(): Promise<string> {
  return (await root.post('/projects', { name: `project ${(count += 1)}` })).data.id;
}

async function change(project: string): Promise<void> {
  await world.repo.change('project', project, (draft) => void (draft.display_name = `title ${(count += 1)}`));
}

/** Sends a change of the project; just before it is written, the project is changed otherwise and `lose` happens. */
async function overtaken(by: Client, project: string, lose: () => Promise<unknown>): Promise<number> {
  store.beforeTxn = async () => {
    store.beforeTxn = undefined;
    await lose();
    await change(project);
  };
  const { status } = await by.put(`/projects/${project}`, { description: 'late' });
  expect(store.beforeTxn).toBeUndefined();
  expect((await world.repo.get('project', project))?.desired.description).toBe(status === 200 ? 'late' : undefined);
  return status;
}

async function remove(kind: 'session' | 'user' | 'member', id: string): Promise<void> {
  const unit = world.repo.begin();
  unit.requestDelete((await world.repo.get(kind, id))!);
  await commit(unit);
}

describe('SEC-32: a request that is overtaken', () => {
  it('goes on if nothing was lost', async () => {
    const user = await world.user('admin');
    expect(await overtaken(user, await aProject(), async () => undefined)).toBe(200);
  });

  it('is refused if its caller lost the role meanwhile', async () => {
    const [admin, project] = [await world.user('admin'), await aProject()];
    const demote = () => world.repo.change('user', admin.id, (draft) => void (draft.role = 'user'));
    expect(await overtaken(admin, project, demote)).toBe(403);
  });

  it('is refused if its caller was removed from the project meanwhile', async () => {
    const [user, project]: [Person, string] = [await world.user(), await aProject()];
    const { data } = await root.post(`/projects/${project}/members`, { user_id: user.id, role: 'admin' });
    expect(await overtaken(user, project, () => remove('member', data.id))).toBe(403);
  });

  it('is refused if its caller was logged out, disabled or deleted meanwhile', async () => {
    const losses = [
      async (user: Person) => {
        const [session] = world.mirror.tenant('default').by('session', 'user', user.id);
        await remove('session', session!.meta.id);
      },
      (user: Person) => world.repo.change('user', user.id, (draft) => void (draft.disabled = true)),
      (user: Person) => remove('user', user.id),
    ];
    for (const lose of losses) {
      const user = await world.user('admin');
      expect(await overtaken(user, await aProject(), () => lose(user))).toBe(401);
    }
  });

  it('writes to its own account what it would have, over what came first', async () => {
    const user = await world.user();
    store.beforeTxn = async () => {
      store.beforeTxn = undefined;
      await world.repo.change('user', user.id, (draft) => void (draft.last_name = 'First'));
    };
    const { status, data } = await user.put('/auth/me', { first_name: 'Second' });
    expect([status, data.first_name, data.last_name]).toEqual([200, 'Second', 'First']);
  });
});
