import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ListEndpoint } from '../../api/endpoint/endpoint.ts';
import { routeName } from '../../api/endpoint/endpoint.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { openRepository } from '../../store/repo.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';
import { examples } from './examples.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld;
let stage: Stage;

beforeAll(async () => {
  world = await startApi();
  stage = await setStage(world, 'superadmin');
  await examples['GET /webhooks/git/:id/deliveries']?.before?.(stage);
  await examples['GET /volumes/:id/backups']?.before?.(stage);
  await examples['GET /databases/:id/backups']?.before?.(stage);
  await examples['GET /functions/:id/versions']?.before?.(stage);
  await examples['GET /template-instances']?.before?.(stage);
  await examples['GET /syncs']?.before?.(stage);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const lists = endpoints.filter((one): one is ListEndpoint => one.list);
const pathOf = (list: ListEndpoint): string => examples[routeName(list)]!.path(stage).split('?')[0]!;
const read = (path: string) => ask(world, { method: 'GET', path }, stage.actor.by.token);
const fields = (answer: Awaited<ReturnType<typeof read>>) => answer.body.error?.details?.map(({ field }) => field);

/** What the contract lets every list of a project's objects take. */
const byProject = [
  'GET /projects',
  'GET /projects/:id/members',
  'GET /projects/:id/invites',
  'GET /me/invites',
  'GET /projects/:projectId/environments',
  'GET /servers',
  'GET /applications',
  'GET /applications/:appId/deployments',
  'GET /applications/:id/runs',
  'GET /volumes',
  'GET /databases',
  'GET /functions',
  'GET /functions/:id/versions',
  'GET /functions/:id/executions',
  'GET /templates',
  'GET /settings/backup-destinations',
  'GET /databases/:id/backups',
  'GET /volumes/:id/backups',
  'GET /applications/:id/volume-backups',
  'GET /backups',
  'GET /backup-schedules',
  'GET /restores',
  'GET /previews',
  'GET /template-instances',
  'GET /syncs',
  'GET /webhooks/git',
  'GET /webhooks/git/:id/deliveries',
  'GET /settings/service-keys',
  'GET /users/:id/service-keys',
  'GET /notifications',
];

describe.each(lists.map((list) => [routeName(list), list] as const))('%s', (_name, list) => {
  it('refuses what is no parameter of it, a wrong order, and a wrong page', async () => {
    for (const query of [
      'nonsense=1',
      'sort=nonsense',
      'sort=__proto__',
      'limit=0',
      'limit=501',
      'limit=x',
      'cursor=x',
    ]) {
      const answer = await read(`${pathOf(list)}?${query}`);
      expect(answer.status, query).toBe(400);
      expect(fields(answer), query).toEqual([query.split('=')[0]]);
    }
  });

  it('refuses a state that its objects cannot be in, and takes several that they can', async () => {
    for (const status of ['nonsense', 'Running', '', 'active,nonsense']) {
      const answer = await read(`${pathOf(list)}?status=${status}`);
      expect(answer.status, status).toBe(400);
      expect(fields(answer)?.[0], status).toMatch(/^status/);
    }
  });
});

// the audit log names the project that it shows, and says so of one that is not there
const ofObjects = lists.filter((list) => routeName(list) !== 'GET /audit');

describe.each(ofObjects.map((list) => [routeName(list), list] as const))(
  'the filter by project of %s',
  (name, list) => {
    it(byProject.includes(name) ? 'finds what is in it' : 'is refused, as there is none', async () => {
      const nowhere = await read(`${pathOf(list)}?projectId=${randomUUID()}`);
      expect(nowhere.status, `Is ${name} to be in \`byProject\` of this file?`).toBe(
        byProject.includes(name) ? 200 : 400,
      );
      expect(nowhere.body.meta?.total ?? 0).toBe(0);
      const wrong = await read(`${pathOf(list)}?projectId=abc`);
      expect(wrong.status).toBe(400);
      expect(fields(wrong)).toEqual(['projectId']);
    });
  },
);

describe('a filter of a list', () => {
  const ids = async (path: string) => (await read(path)).data.map((one: { id: string }) => one.id);

  it('finds what is in a project, an environment, on a server', async () => {
    const { project, environment, emptyEnvironment, server, emptyServer, application } = stage;
    expect(await ids(`/projects?projectId=${project}`)).toEqual([project]);
    expect(await ids(`/servers?projectId=${project}`)).toEqual([server]);
    expect(await ids(`/applications?projectId=${project}`)).toEqual([application]);
    expect(await ids(`/applications?environmentId=${environment}`)).toEqual([application]);
    expect(await ids(`/applications?environmentId=${emptyEnvironment}`)).toEqual([]);
    expect(await ids(`/applications?serverId=${server}`)).toEqual([application]);
    expect(await ids(`/applications?serverId=${emptyServer}`)).toEqual([]);
    expect(await ids(`/applications/${application}/deployments?environmentId=${environment}`)).toHaveLength(3);
    expect(await ids(`/applications/${application}/deployments?serverId=${emptyServer}`)).toEqual([]);
  });

  it('does not show users outside of a project where it runs', async () => {
    const path = `/servers?projectId=${stage.project}`;
    const seen = async (credential: Record<string, string>) => ask(world, { method: 'GET', path }, credential);
    expect((await seen(stage.guest.by.token)).data).toEqual([]);
    expect((await seen(stage.viewer.by.token)).data).toHaveLength(1);
  });

  it('takes several states, by comma or one by one', async () => {
    const path = `/applications/${stage.application}/deployments`;
    expect(await ids(`${path}?status=queued`)).toEqual([stage.deployments.queued]);
    expect(await ids(`${path}?status=queued,succeeded`)).toHaveLength(3);
    expect(await ids(`${path}?status=queued&status=succeeded`)).toHaveLength(3);
    expect(await ids(`${path}?status=failed,cancelled`)).toEqual([]);
  });

  it('is refused where it comes twice', async () => {
    const answer = await read(`/applications?projectId=${stage.project}&projectId=${randomUUID()}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error?.message).toBe('projectId must be sent once');
  });
});

describe('a list of objects of which its reader sees a part', () => {
  const by = async (who: Stage['owner'], path: string) => ask(world, { method: 'GET', path }, who.by.token);
  const common = ['labelSelector=team', 'sort=-updated_at'];
  const parts: [path: string, hidden: string[], shown: string[]][] = [
    ['/servers', common, ['sort=-created_at', 'sort=name', 'status=active']],
    ['/settings/registries', [...common, 'status=used'], ['sort=-created_at', 'sort=name']],
    ['/settings/git-credentials', [...common, 'status=used'], ['sort=-created_at', 'sort=name']],
    ['/settings/backup-destinations', [...common, 'status=pending'], ['sort=-created_at', 'sort=name']],
  ];

  it.each(parts)('%s: nothing else decides what is found, nor in which order', async (path, hidden, shown) => {
    for (const query of hidden) {
      const answer = await by(stage.owner, `${path}?${query}`);
      expect([answer.status, answer.body.error?.details?.[0]?.reason], query).toEqual([400, 'not_shown']);
      expect(fields(answer), query).toEqual([query.split('=')[0]]);
      expect((await read(`${path}?${query}`)).status, query).toBe(200);
    }
    for (const query of shown) expect((await by(stage.owner, `${path}?${query}`)).status, query).toBe(200);
  });

  it.each([
    ['/settings/registries', () => stage.registry],
    ['/settings/git-credentials', () => stage.gitCredential],
  ])('%s: a text that it does not show is not searched', async (path, id) => {
    const found = async (who: Stage['owner'], text: string) =>
      (await by(who, `${path}?q=${encodeURIComponent(text)}`)).data.map((one: { id: string }) => one.id);
    const [{ name }] = (await by(stage.owner, path)).data as [{ name: string }];
    expect(await found(stage.owner, name)).toEqual([id()]);
    expect(await found(stage.actor, 'of the finance team')).toEqual([id()]);
    expect(await found(stage.owner, 'of the finance team')).toEqual([]);
  });
});

describe('pages', () => {
  it('neither repeat nor skip what is equal in the order that was asked for', async () => {
    const at = new Date('2030-01-01T00:00:00.000Z');
    const repo = openRepository(world.store, 'default', { ...world.clock, now: () => at });
    const unit = repo.begin();
    const made = Array.from({ length: 7 }, () => randomUUID());
    for (const id of made)
      unit.create(
        'project',
        id,
        desiredState('project', {
          name: `same time ${id}`,
          owner_id: stage.owner.id,
          default_environment_id: randomUUID(),
        }),
      );
    await commit(unit);
    await world.settled();
    for (const sort of ['updated_at', '-updated_at', 'created_at']) {
      const seen: string[] = [];
      let cursor: string | null = '';
      do {
        const page = await read(
          `/projects?q=same%20time&limit=3&sort=${sort}${cursor === '' ? '' : `&cursor=${cursor}`}`,
        );
        seen.push(...page.data.map((one: { id: string }) => one.id));
        cursor = page.body.meta?.next_cursor ?? null;
      } while (cursor !== null && seen.length < 20);
      expect(seen, sort).toEqual(sort.startsWith('-') ? made.toSorted().toReversed() : made.toSorted());
    }
  });

  it('have cursors of their own order', async () => {
    const first = await read('/projects?limit=1&sort=name');
    const cursor = first.body.meta?.next_cursor;
    expect((await read(`/projects?limit=1&sort=name&cursor=${cursor}`)).status).toBe(200);
    for (const sort of ['-name', '-created_at', 'updated_at']) {
      const other = await read(`/projects?limit=1&sort=${sort}&cursor=${cursor}`);
      expect(other.status, sort).toBe(400);
      expect(fields(other), sort).toEqual(['cursor']);
    }
  });
});
