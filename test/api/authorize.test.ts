import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { authorize, projectRole, visibleProjects } from '../../api/rights/authorize.ts';
import type { Principal } from '../../api/auth/principal.ts';
import { columns, permissions } from '../../api/rights/permissions.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { KeyScope } from '../../store/kinds/identity.ts';
import { ObjectTable } from '../../store/object-table.ts';
import { object } from '../harness/objects.ts';
import { expectedRoutes } from '../harness/route-table.ts';

type GlobalRole = 'superadmin' | 'admin' | 'user';

function aPrincipal(role: GlobalRole, key?: { scopes?: KeyScope[]; project_id?: string }): Principal {
  const user = object('user', { email: 'a@b.c', role });
  if (key === undefined) {
    const expires_at = '2030-01-01T00:00:00Z';
    return { user, by: { type: 'session', session: object('session', { user_id: user.meta.id, expires_at }) } };
  }
  const desired = { user_id: user.meta.id, name: 'k', prefix: 'sp_', hash: 'h', ...key };
  return { user, by: { type: 'key', key: object('service_key', desired) } };
}

function aProject(owner: string) {
  return object('project', { name: 'p', owner_id: owner, default_environment_id: randomUUID() });
}

type Role = 'admin' | 'member' | 'viewer';

function aMember(of: ReturnType<typeof aProject>, { user }: Principal, role: Role, id: string = randomUUID()) {
  return object('member', { project_id: of.meta.id, user_id: user.meta.id, role }, { id });
}

/** A view that knows these projects and members. */
function viewOf(...known: (ReturnType<typeof aProject> | ReturnType<typeof aMember>)[]): TenantView {
  const tables = {
    project: new ObjectTable('project'),
    member: new ObjectTable('member'),
    settings: new ObjectTable('settings'),
  };
  for (const it of known) tables[it.meta.kind].set(it.meta.id, it as never);
  return {
    get: (kind: keyof typeof tables, id: string) => tables[kind].get(id),
    list: (kind: keyof typeof tables) => tables[kind].list(),
    by: (kind: keyof typeof tables, index: string, value: string) => tables[kind].by(index, value),
  } as unknown as TenantView; // what authorize asks of it
}

const row = (name: string) => permissions.get(name)!;

describe('authorize', () => {
  it('gives every row to each column as the table says, and denies the rest', () => {
    const owner = aPrincipal('user');
    const project = aProject(owner.user.meta.id);
    const people = {
      superadmin: aPrincipal('superadmin'),
      admin: aPrincipal('admin'),
      owner,
      project_admin: aPrincipal('user'),
      member: aPrincipal('user'),
      viewer: aPrincipal('user'),
      other: aPrincipal('user'),
    };
    const tenant = viewOf(
      project,
      aMember(project, people.project_admin, 'admin'),
      aMember(project, people.member, 'member'),
      aMember(project, people.viewer, 'viewer'),
    );
    for (const [name, { grants }] of expectedRoutes) {
      for (const column of columns) {
        const grant = grants[column];
        const ask = () => authorize(people[column], row(name), { tenant, project });
        if (grant === '-') expect(ask, `${name} ${column}`).toThrow('Not allowed');
        else expect(ask(), `${name} ${column}`).toEqual({ column, grant });
      }
    }
  });

  it('names the role of the caller and the lowest one that may', () => {
    const viewer = aPrincipal('user');
    const project = aProject(randomUUID());
    const tenant = viewOf(project, aMember(project, viewer, 'viewer'));
    expect(() => authorize(viewer, row('POST /applications/:id/deploy'), { tenant, project })).toThrow(
      'Not allowed: your role is project viewer, and this takes at least project member. Ask an owner of the project or an admin of the tenant',
    );
    expect(() => authorize(viewer, row('POST /servers'), { tenant })).toThrow(
      'Not allowed: your role is project viewer, and this takes at least admin of the tenant. Ask an admin of the tenant',
    );
  });

  it('counts the best role in any project where a route is of no project', () => {
    const owner = aPrincipal('user');
    const project = aProject(owner.user.meta.id);
    expect(authorize(owner, row('GET /servers'), { tenant: viewOf(project) }).grant).toBe('m');
    expect(authorize(aPrincipal('user'), row('GET /servers'), { tenant: viewOf(project) }).grant).toBe('f');
    const other = aProject(randomUUID());
    const user = aPrincipal('user');
    const columnWith = (...known: Parameters<typeof viewOf>) =>
      authorize(user, row('GET /servers'), { tenant: viewOf(...known) }).column;
    expect(columnWith(project, aMember(project, user, 'viewer'))).toBe('viewer');
    // members are listed by creation, then by id: the better role once behind the other and once before it
    const [first, second] = ['00000000-0000-4000-8000-000000000000', 'ffffffff-ffff-4fff-8fff-ffffffffffff'] as const;
    for (const [viewer, admin] of [
      [first, second],
      [second, first],
    ] as const)
      expect(
        columnWith(project, other, aMember(project, user, 'viewer', viewer), aMember(other, user, 'admin', admin)),
      ).toBe('project_admin');
    // of a project that is gone nothing is left
    expect(columnWith(aMember(project, user, 'admin'))).toBe('other');
  });

  it('lets a key do what its scopes cover and nothing above them', () => {
    const project = aProject(randomUUID());
    const may = (scopes: KeyScope[], name: string): boolean => {
      try {
        authorize(aPrincipal('admin', { scopes }), row(name), { tenant: viewOf(project), project });
        return true;
      } catch {
        return false;
      }
    };
    const routes = [
      'GET /applications/:id',
      'POST /applications/:id/deploy',
      'PUT /applications/:id',
      'DELETE /projects/:id',
    ];
    expect(routes.map((name) => may(['read'], name))).toEqual([true, false, false, false]);
    expect(routes.map((name) => may(['deploy'], name))).toEqual([true, true, false, false]);
    expect(routes.map((name) => may(['write'], name))).toEqual([true, true, true, false]);
    expect(routes.map((name) => may(['admin'], name))).toEqual([true, true, true, true]);
  });

  it('keeps a key that is narrowed to a project out of others and of the tenant', () => {
    const mine = aProject(randomUUID());
    const other = aProject(randomUUID());
    const key = aPrincipal('superadmin', { project_id: mine.meta.id });
    expect(authorize(key, row('PUT /projects/:id'), { tenant: viewOf(mine), project: mine }).column).toBe('owner');
    expect(() => authorize(key, row('GET /projects/:id'), { tenant: viewOf(other), project: other })).toThrow(
      'Not allowed',
    );
    expect(() => authorize(key, row('POST /servers'), { tenant: viewOf(mine, other) })).toThrow('Not allowed');
    expect(() => authorize(key, row('POST /projects'), { tenant: viewOf(mine, other) })).toThrow('narrowed');
    expect(visibleProjects(key, viewOf(mine, other))).toEqual(new Set([mine.meta.id]));
  });

  it('gives admins the rights of owners, and users the ones of their own projects', () => {
    const owner = aPrincipal('user');
    const project = aProject(owner.user.meta.id);
    const view = viewOf(project);
    expect(projectRole(aPrincipal('admin'), project, view)).toBe('owner');
    expect(projectRole(owner, project, view)).toBe('owner');
    expect(projectRole(aPrincipal('user'), project, view)).toBeUndefined();
    expect(visibleProjects(aPrincipal('admin'), viewOf(project))).toBe('all');
    expect(visibleProjects(aPrincipal('user'), viewOf(project))).toEqual(new Set());
  });

  it('gives members the role that they have in a project, and no other', () => {
    const [one, two] = [aProject(randomUUID()), aProject(randomUUID())];
    const user = aPrincipal('user');
    for (const role of ['admin', 'member', 'viewer'] as const) {
      const view = viewOf(one, two, aMember(one, user, role), aMember(two, aPrincipal('user'), 'admin'));
      expect(projectRole(user, one, view)).toBe(role);
      expect(projectRole(user, two, view)).toBeUndefined();
      expect(visibleProjects(user, view)).toEqual(new Set([one.meta.id]));
    }
  });
});
