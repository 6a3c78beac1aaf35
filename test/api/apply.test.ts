import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { longTag } from '../layer-report.ts';

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const object = (kind: string, name: string, ...spec: string[]): string =>
  [
    'apiVersion: setpoint/v1',
    `kind: ${kind}`,
    `metadata: {name: ${name}}`,
    'spec:',
    ...spec.map((it) => `  ${it}`),
  ].join('\n');

/** A volume, a database and an application that mounts the one and refers to the other. */
const shop = (changes: { image?: string; extra?: readonly string[]; env?: string } = {}): string =>
  [
    object(
      'Application',
      'web',
      `image_url: ${changes.image ?? 'web:1'}`,
      'exposed_port: 8080',
      ...(changes.extra ?? []),
      `env: {${changes.env ?? 'TOKEN: one, DATABASE_URL: "${databases.db.url}"'}}`,
      'volumes: [{volume: files, path: /files}]',
    ),
    object('Database', 'db', 'type: redis'),
    'apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: files}\n',
  ].join('\n---\n');

interface At {
  project: string;
  apply: (content: string, more?: object) => ReturnType<Client['post']>;
}

async function place(): Promise<At> {
  const { project, server } = await world.place(owner);
  await owner.put(`/projects/${project}`, { default_server_id: server });
  return { project, apply: (content, more = {}) => owner.post('/apply', { project_id: project, content, ...more }) };
}

const actions = (plan: { steps: { key: string; action: string }[] }) =>
  Object.fromEntries(plan.steps.map(({ key, action }) => [key, action]));
const idOf = async (kind: string, { project }: At, name: string): Promise<string> =>
  (await owner.get(`/${kind}?projectId=${project}`)).data.find((it: { name: string }) => it.name === name)?.id;

describe('what is declared', () => {
  it('is planned, made in its order and deployed, and nothing the second time', async () => {
    const at = await place();
    const { data: planned } = await at.apply(shop(), { dry_run: true });
    expect(planned.steps.map(({ key }: { key: string }) => key)).toEqual([
      'volumes.files',
      'databases.db',
      'applications.web',
    ]);
    expect(await idOf('applications', at, 'web')).toBeUndefined();
    const { status, data } = await at.apply(shop());
    expect([status, actions(data)]).toEqual([
      200,
      { 'volumes.files': 'create', 'databases.db': 'create', 'applications.web': 'create' },
    ]);
    const web = await idOf('applications', at, 'web');
    expect((await owner.get(`/applications/${web}/deployments`)).data).toHaveLength(1);
    const { data: before } = await owner.get(`/applications/${web}`);
    const again = await at.apply(shop());
    expect(again.data).toMatchObject({ changes: false });
    expect((await owner.get(`/applications/${web}`)).data.resource_version).toBe(before.resource_version);

    const { data: changed } = await at.apply(shop({ image: 'web:2', env: 'TOKEN: two' }));
    expect(changed.steps.at(-1)).toMatchObject({
      action: 'update',
      fields: [
        { field: 'image_url', before: 'web:1', after: 'web:2', by_hand: false },
        { field: 'env.TOKEN', before: null, after: null, secret: true },
        { field: 'env.DATABASE_URL', secret: true },
      ],
    });
    expect((await owner.get(`/applications/${web}/env`)).data.env).toEqual({ TOKEN: 'two' });
    expect((await owner.get(`/applications/${web}/deployments`)).data).toHaveLength(2);
  });

  it('returns a field that is not declared any more to its default, and leaves alone what others have set', async () => {
    const at = await place();
    await at.apply(shop({ extra: ['memory_limit: 1g'] }));
    const web = await idOf('applications', at, 'web');
    const env = { TOKEN: 'one', DATABASE_URL: '${databases.db.url}', OWN: 'mine' };
    await owner.put(`/applications/${web}`, { cpu_limit: '2', env });
    expect((await at.apply(shop({ extra: ['memory_limit: 1g'] }))).data.changes).toBe(false);
    await at.apply(shop());
    expect((await owner.get(`/applications/${web}`)).data).toMatchObject({ memory_limit: null, cpu_limit: '2' });
    expect((await owner.get(`/applications/${web}/env`)).data.env).toEqual(env);
  });

  it('is reached by its own name again once another host name is not declared any more', async () => {
    const at = await place();
    const hostOf = async () =>
      (await owner.get(`/applications/${await idOf('applications', at, 'web')}`)).data.host_name;
    for (const declared of ['store', 'web']) {
      expect((await at.apply(shop({ extra: [`host_name: ${declared}`] }))).status).toBe(200);
      expect(await hostOf()).toBe(declared);
      expect((await at.apply(shop())).status).toBe(200);
      expect(await hostOf()).toBe('web');
    }
  });

  it.each([
    ['another one gives its name back', 'store', 0, 1],
    ['they had exchanged their names', 'shop', 0, 1],
    ['it is more than one transaction', 'shop', 40, 1],
    ['what gives it back refers to more than one transaction', 'store', 10, 10],
    ['of two that exchange them one refers to more than one transaction', 'shop', 10, 10],
  ])('has its own name again where %s, whichever comes first', async (_, other, others, count) => {
    const apis = Array.from({ length: count }, (_one, n) => `api-${n}`);
    const volumes = Array.from({ length: others }, (_one, n) =>
      ['apiVersion: setpoint/v1', 'kind: Volume', `metadata: {name: data-${n}}`].join('\n'),
    );
    const app = (name: string, ...more: string[]): string => object('Application', name, 'image_url: web:1', ...more);
    for (const isFirst of [true, false]) {
      const at = await place();
      const apply = (web: string, ...rest: string[]) =>
        at.apply([...volumes, ...(isFirst ? [web, ...rest] : [...rest, web])].join('\n---\n'));
      const before = await apply(app('web', `host_name: ${other}`), app('shop', 'host_name: web'));
      expect([before.status, before.body.error?.message]).toEqual([200, undefined]);
      // what gives the name back is made after what it refers to
      const now = [
        app('web'),
        app('shop', `env: {${apis.map((api, n) => `API_${n}: "\${applications.${api}.url}"`).join(', ')}}`),
        ...apis.map((api) => app(api, 'exposed_port: 80')),
      ] as const;
      const { data, body } = await apply(...now);
      expect(body.error?.message).toBeUndefined();
      expect(actions(data)).toMatchObject({
        'applications.web': 'update',
        'applications.shop': 'update',
        ...Object.fromEntries(apis.map((api) => [`applications.${api}`, 'create'])),
      });
      const shown = (await owner.get(`/applications?projectId=${at.project}`)).data;
      expect(
        Object.fromEntries(shown.map((it: { name: string; host_name: string }) => [it.name, it.host_name])),
      ).toEqual(Object.fromEntries(['web', 'shop', ...apis].map((name) => [name, name])));
      expect((await apply(...now)).data.changes).toBe(false);
    }
  });

  it('keeps its host name until the one is gone that goes by its own, and that the same text deletes', async () => {
    const app = (name: string, ...more: string[]): string => object('Application', name, 'image_url: web:1', ...more);
    const at = await place();
    const apply = (...all: string[]) => at.apply(all.join('\n---\n'), { set: 'all', prune: true });
    await apply(app('web', 'host_name: store'), app('shop', 'host_name: web'));
    const [web, shop] = [await idOf('applications', at, 'web'), await idOf('applications', at, 'shop')];
    const hostOf = async () => (await owner.get(`/applications/${web}`)).data.host_name;
    for (let time = 0; time < 2; time++) {
      const { data, body } = await apply(app('web'));
      expect(body.error?.message).toBeUndefined();
      expect(data.steps[0]).toMatchObject({ key: 'applications.web', waits_for: expect.stringContaining('shop') });
      expect(await hostOf()).toBe('store');
    }
    const gone = (await world.repo.get('application', shop))!;
    const unit = world.repo.begin();
    for (const finalizer of gone.meta.finalizers) unit.release(gone, finalizer);
    await unit.commit();
    await world.settled();
    const { data } = await apply(app('web'));
    expect(data.steps[0]).toMatchObject({ action: 'update', waits_for: null });
    expect(await hostOf()).toBe('web');
    expect((await apply(app('web'))).data.changes).toBe(false);
  });

  it('gives its host name to one that is new, and to which the one refers that gives its own back', async () => {
    const app = (name: string, ...more: string[]): string => object('Application', name, 'image_url: web:1', ...more);
    const at = await place();
    await at.apply([app('web', 'host_name: store'), app('shop', 'host_name: web')].join('\n---\n'));
    const now = [app('web'), app('shop', 'env: {API: "${applications.store.url}"}'), app('store', 'exposed_port: 80')];
    expect((await at.apply(now.join('\n---\n'))).body.error?.message).toBeUndefined();
    const shown = (await owner.get(`/applications?projectId=${at.project}`)).data;
    expect(Object.fromEntries(shown.map((it: { name: string; host_name: string }) => [it.name, it.host_name]))).toEqual(
      {
        web: 'web',
        shop: 'shop',
        store: 'store',
      },
    );
  });

  it('is made although its applications mount more volumes than fit into one transaction', async () => {
    const at = await place();
    const names = Array.from({ length: 24 }, (_, n) => `data-${n}`);
    const volumes = names.map((name) => `apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: ${name}}`);
    const apps = ['one', 'two'].map((name, half) => {
      const mounts = names.slice(half * 12, half * 12 + 12).map((volume) => `{volume: ${volume}, path: /${volume}}`);
      return object('Application', name, 'image_url: web:1', `volumes: [${mounts.join(', ')}]`);
    });
    const { status, body } = await at.apply([...volumes, ...apps].join('\n---\n'));
    expect([status, body.error?.message]).toEqual([200, undefined]);
    const shown = (await owner.get(`/volumes?projectId=${at.project}&limit=100`)).data;
    expect(shown.flatMap(({ bindings }: { bindings: unknown[] }) => bindings)).toHaveLength(24);
  });

  it('has no end any more if it is the former volume of a restore, whether it is mounted or declared', async () => {
    const at = await place();
    const expires_at = '2031-01-01T00:00:00.000Z';
    const volume = (name: string): string => `apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: ${name}}`;
    const app = object('Application', 'web', 'image_url: web:1', 'volumes: [{volume: mounted, path: /files}]');
    await at.apply([volume('declared'), volume('mounted')].join('\n---\n'));
    const ids = [await idOf('volumes', at, 'declared'), await idOf('volumes', at, 'mounted')];
    const end = async (): Promise<void> => {
      for (const id of ids) await world.repo.change('volume', id, (draft) => void (draft.expires_at = expires_at));
      await world.settled();
    };
    const ends = async () => Promise.all(ids.map(async (id) => (await owner.get(`/volumes/${id}`)).data.expires_at));
    await end();
    expect((await at.apply(volume('declared'), { dry_run: true })).data.changes).toBe(true);
    expect((await at.apply([volume('declared'), app].join('\n---\n'))).status).toBe(200);
    expect(await ends()).toEqual([null, null]);
    await end();
    expect((await at.apply(app)).status).toBe(200);
    expect(await ends()).toEqual([expires_at, null]);
  });

  it('that somebody else has set is a conflict, until the step is forced', async () => {
    const at = await place();
    await at.apply(shop());
    const web = await idOf('applications', at, 'web');
    await owner.put(`/applications/${web}`, { image_url: 'web:mine' });
    const refused = await at.apply(shop());
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toMatchObject([
      { reason: 'force_needed', message: 'applications.web: somebody else has set image_url' },
    ]);
    expect((await at.apply(shop(), { force: ['applications.web'] })).status).toBe(200);
    expect((await owner.get(`/applications/${web}`)).data.image_url).toBe('web:1');
    const other = object('Application', 'web', 'image_url: web:3');
    expect((await at.apply(other, { manager: 'ci' })).body.error?.message).toContain('image_url');
    await at.apply(other, { manager: 'ci', force: ['applications.web'] });
    expect((await owner.get(`/applications/${web}`)).data).toMatchObject({ image_url: 'web:3', exposed_port: 8080 });
  });

  it('is deleted with its set once it is not declared any more, what uses something first', async () => {
    const at = await place();
    await at.apply(shop(), { set: 'shop' });
    const files = await idOf('volumes', at, 'files');
    const rest = object('Environment', 'staging', 'type: staging');
    const refused = await at.apply(rest, { set: 'shop', prune: true });
    expect(refused.body.error?.details).toMatchObject([
      { message: 'databases.db loses data' },
      { message: 'volumes.files loses data' },
    ]);
    const force = ['databases.db', 'volumes.files'];
    const { data } = await at.apply(rest, { set: 'shop', prune: true, force });
    expect(actions(data)).toEqual({
      'environments.staging': 'create',
      'applications.web': 'delete',
      'databases.db': 'delete',
      'volumes.files': 'delete',
    });
    expect(data.steps.at(-1).waits_for).toContain('apply again');
    expect((await owner.get(`/volumes/${files}`)).data.status).not.toBe('deleting');
    expect((await at.apply(rest, { prune: true })).status).toBe(400);
  });

  it('is deleted from each environment only by the name that it has there', async () => {
    const at = await place();
    const both = [
      object('Environment', 'staging', 'type: staging'),
      object('Database', 'db', 'type: redis'),
      object('Database', 'db', 'type: redis', 'environment: staging'),
    ];
    await at.apply(both.join('\n---\n'), { set: 'all' });
    const rest = { set: 'all', prune: true, force: ['databases.db'] };
    const refused = await at.apply(both[0]!, rest);
    expect(refused.body.error?.details).toMatchObject([{ message: 'databases.staging/db loses data' }]);
    const { data } = await at.apply(both[0]!, { ...rest, force: ['databases.db', 'databases.staging/db'] });
    expect(data.steps.filter(({ action }: { action: string }) => action === 'delete')).toHaveLength(2);
  });

  it('is no template instance whose volume something else mounts, unless that goes with it', async () => {
    const at = await place();
    const content = 'apiVersion: setpoint/v1\nkind: Template\nvolumes: [{name: files}]';
    await owner.post('/templates', { name: 'files', content });
    const site = object('Application', 'site', 'image_url: web:1');
    const set = { set: 'all', prune: true, force: ['template_instances.blog'] };
    expect((await at.apply(`${object('TemplateInstance', 'blog', 'template: files')}\n---\n${site}`, set)).status).toBe(
      200,
    );
    const instance = await world.repo.get('template_instance', await idOf('template-instances', at, 'blog'));
    const child = instance!.desired.children[0]!;
    const unit = world.repo.begin();
    unit.create('volume', child.id, child.desired as DesiredOf<'volume'>); // as its controller makes it
    expect(await unit.commit()).toMatchObject({ committed: true });
    await world.settled();
    const workload_id = await idOf('applications', at, 'site');
    const mount = { workload_type: 'application', workload_id, mount_path: '/files' };
    expect((await owner.post(`/volumes/${child.id}/bind`, mount)).status).toBe(200);
    const refused = await at.apply(site, set);
    expect([refused.status, refused.body.error?.message]).toEqual([
      409,
      expect.stringContaining('volume blog-files (application site)'),
    ]);
    const { data } = await at.apply(object('Environment', 'other', 'description: empty'), set);
    expect(actions(data)).toMatchObject({ 'applications.site': 'delete', 'template_instances.blog': 'delete' });
  });

  it('is deleted together with what refers to it, in either direction', async () => {
    const at = await place();
    const prune = { set: 'all', prune: true };
    const rest = object('Environment', 'staging', 'type: staging');
    const app = (name: string, of?: string) =>
      object('Application', name, 'image_url: web:1', 'exposed_port: 80', ...(of === undefined ? [] : [envOf(of)]));
    const envOf = (name: string) => `env: {OTHER: "\${applications.${name}.url}"}`;
    for (const other of [undefined, 'web']) {
      const both = [app('api'), app('web', 'api')].join('\n---\n');
      expect((await at.apply(both, { set: 'all' })).status).toBe(200);
      if (other !== undefined) await at.apply([app('api', other), app('web', 'api')].join('\n---\n'), { set: 'all' });
      const { body } = await at.apply(rest, { ...prune, dry_run: true });
      expect(body.error?.message).toBeUndefined();
      expect(actions(body.data)).toMatchObject({ 'applications.api': 'delete', 'applications.web': 'delete' });
    }
    // of the two, one stays
    const refused = await at.apply(app('web', 'api'), prune);
    expect([refused.status, refused.body.error?.message]).toEqual([
      409,
      'Variables of web refer to the application api, which is to be deleted: change them first',
    ]);
  });

  it('is deleted once the instances of templates are gone that use it and are deleted, too', async () => {
    const at = await place();
    const template = (spec: string) => `apiVersion: setpoint/v1\nkind: Template\n${spec}`;
    await owner.post('/templates', { name: 'own', content: template('databases: [{name: db, type: redis}]') });
    await owner.post('/templates', {
      name: 'one',
      content: template('applications: [{name: web, image_url: "web:1"}]'),
    });
    const all = [
      object('Database', 'db', 'type: redis'),
      object('TemplateInstance', 'own', 'template: own'),
      object('TemplateInstance', 'one', 'template: one'),
    ].join('\n---\n');
    const made = await at.apply(all, { set: 'all' });
    expect([made.status, made.body.error?.message]).toEqual([200, undefined]);
    const one = await idOf('template-instances', at, 'one');
    const own = await idOf('template-instances', at, 'own');
    const [web, db] = await Promise.all(
      [one, own].map(async (id) => (await world.repo.get('template_instance', id))!.desired.children[0]!),
    );
    const unit = world.repo.begin(); // as their controller makes them
    unit.create('database', db!.id, db!.desired as DesiredOf<'database'>);
    unit.create('application', web!.id, web!.desired as DesiredOf<'application'>);
    expect(await unit.commit()).toMatchObject({ committed: true });
    await world.settled();
    await world.repo.change('application', web!.id, (draft) => {
      draft.config.references = ['${databases.db.url}', '${databases.own-db.url}'];
    });
    await world.settled();

    const rest = object('Environment', 'staging', 'type: staging');
    const force = ['databases.db', 'template_instances.one', 'template_instances.own'];
    const prune = { set: 'all', prune: true, force };
    const waits = async () => {
      const { data, body } = await at.apply(rest, prune);
      expect(body.error?.message).toBeUndefined();
      return Object.fromEntries(
        data.steps.map((it: { key: string; waits_for: string | null }) => [it.key, it.waits_for]),
      );
    };
    const waiting = expect.stringContaining('apply again');
    expect(await waits()).toMatchObject({
      'template_instances.one': null,
      'template_instances.own': waiting,
      'databases.db': waiting,
    });
    expect((await owner.get(`/template-instances/${one}`)).data.status).toBe('deleting');
    const next = world.repo.begin();
    next.requestDelete((await world.repo.get('application', web!.id))!);
    expect(await next.commit()).toMatchObject({ committed: true });
    await world.settled();
    expect(await waits()).toMatchObject({ 'template_instances.own': null, 'databases.db': null });
  });

  it('is no template instance that waits for one that waits for it, as neither would ever go', async () => {
    const at = await place();
    const content =
      'apiVersion: setpoint/v1\nkind: Template\ndatabases: [{name: db, type: redis}]\napplications: [{name: web, image_url: "web:1"}]';
    await owner.post('/templates', { name: 'pair', content });
    const names = ['left', 'right'];
    const both = names.map((name) => object('TemplateInstance', name, 'template: pair')).join('\n---\n');
    expect((await at.apply(both, { set: 'all' })).status).toBe(200);
    const unit = world.repo.begin(); // as their controller makes them
    const webs: string[] = [];
    for (const name of names) {
      const id = await idOf('template-instances', at, name);
      for (const child of (await world.repo.get('template_instance', id))!.desired.children)
        if (child.kind === 'database') unit.create('database', child.id, child.desired as DesiredOf<'database'>);
        else {
          unit.create('application', child.id, child.desired as DesiredOf<'application'>);
          webs.push(child.id);
        }
    }
    expect(await unit.commit()).toMatchObject({ committed: true });
    await world.settled();
    const [left, right] = webs;
    const refer = async (web: string, references: string[]) => {
      await world.repo.change('application', web, (draft) => void (draft.config.references = references));
      await world.settled();
    };
    await refer(left!, ['${databases.right-db.url}']);
    await refer(right!, ['${databases.left-db.url}']);
    const rest = object('Environment', 'staging', 'type: staging');
    const prune = { set: 'all', prune: true, force: names.map((name) => `template_instances.${name}`) };
    const refused = await at.apply(rest, prune);
    expect([refused.status, refused.body.error?.message]).toEqual([
      409,
      expect.stringContaining(
        'template instance left would be deleted with: database left-db (application right-web). ',
      ),
    ]);
    await refer(left!, []);
    const { data } = await at.apply(rest, prune);
    expect(data.steps).toContainEqual(expect.objectContaining({ key: 'template_instances.right', waits_for: null }));
    expect(data.steps).toContainEqual(
      expect.objectContaining({
        key: 'template_instances.left',
        waits_for: 'What uses it to be gone: apply again then',
      }),
    );
  });

  it('is one object by whatever names it is declared', async () => {
    const at = await place();
    const db = object('Database', 'db', 'type: redis');
    for (const other of [
      object('Database', 'db', 'type: redis', 'environment: production'),
      object('Database', 'DB', 'type: redis'),
    ])
      expect((await at.apply(`${db}\n---\n${other}`)).body.error?.message).toMatch(
        /^databases\.db is declared twice$/i,
      );
    expect(await idOf('databases', at, 'db')).toBeUndefined();
  });

  it('as another database replaces it only where that is forced, and by two steps', async () => {
    const at = await place();
    await at.apply(object('Database', 'db', 'type: redis'));
    const db = await idOf('databases', at, 'db');
    const other = object('Database', 'db', 'type: postgres');
    expect((await at.apply(other)).status).toBe(409);
    const { data } = await at.apply(other, { force: ['databases.db'] });
    expect(data.steps).toMatchObject([
      { action: 'replace', id: db, waits_for: expect.stringContaining('apply again') },
    ]);
    expect((await owner.get(`/databases/${db}`)).data.status).toBe('deleting');
    // what goes already needs no force
    expect((await at.apply(other)).data?.needs_force).toEqual([]);
  });

  it('as an instance of a template is made, and changed by the plan of its parts', async () => {
    const at = await place();
    const text = (image: string): string =>
      `apiVersion: setpoint/v1\nkind: Template\nvariables: [{name: MODE, default: plain}]\napplications:\n  - name: web\n    image_url: ${image}\n    env: {MODE: "\${MODE}"}\n`;
    const { data: template } = await owner.post('/templates', { name: 'notes', content: text('notes:1') });
    const blog = object('TemplateInstance', 'blog', 'template: notes', 'variables: {MODE: fancy}');
    expect(actions((await at.apply(blog)).data)).toEqual({ 'template_instances.blog': 'create' });
    expect((await at.apply(blog)).data.changes).toBe(false);
    await owner.put(`/templates/${template.id}`, { content: text('notes:2') });
    const { data } = await at.apply(blog);
    expect(data.steps).toMatchObject([
      { action: 'update', fields: [{ field: 'applications.web.image_url', before: 'notes:1', after: 'notes:2' }] },
    ]);
    expect((await at.apply(object('TemplateInstance', 'x', 'template: none'))).body.error?.message).toContain(
      'template none',
    );
  });

  it('as an instance of a template that another user wrote keeps its text until that is forced', async () => {
    const at = await place();
    const text = (image: string): string =>
      `apiVersion: setpoint/v1\nkind: Template\napplications:\n  - {name: web, image_url: ${image}}\n`;
    const author = await world.user();
    await author.post('/projects', { name: 'own' });
    const { data: template } = await author.post('/templates', { name: 'cache', content: text('cache:1') });
    const cache = object('TemplateInstance', 'cache', 'template: cache');
    expect((await at.apply(cache)).status).toBe(200);
    const unchanged = { 'template_instances.cache': 'unchanged' };
    expect((await author.put(`/templates/${template.id}`, { content: text('evil:1') })).status).toBe(200);
    expect(actions((await at.apply(cache)).data)).toEqual(unchanged);
    // its name is free then, and any user may take it
    expect((await author.delete(`/templates/${template.id}`)).status).toBe(204);
    expect((await author.post('/templates', { name: 'cache', content: text('evil:2') })).status).toBe(201);
    expect(actions((await at.apply(cache)).data)).toEqual(unchanged);
    const { data } = await at.apply(cache, { force: ['template_instances.cache#text'] });
    expect(data.steps).toMatchObject([
      { action: 'update', fields: [{ field: 'applications.web.image_url', before: 'cache:1', after: 'evil:2' }] },
    ]);
  });

  it('as an instance that is forced to lose data takes no text of another user with that', async () => {
    const at = await place();
    const text = (image: string): string =>
      `apiVersion: setpoint/v1\nkind: Template\nvariables: [{name: DB, default: one}]\ndatabases:\n  - {name: db, type: postgres, database_name: "\${DB}"}\napplications:\n  - {name: web, image_url: ${image}}\n`;
    const author = await world.user();
    await author.post('/projects', { name: 'own-ledger' });
    const { data: template } = await author.post('/templates', { name: 'ledger', content: text('ledger:1') });
    const ledger = (db: string): string =>
      object('TemplateInstance', 'ledger', 'template: ledger', `variables: {DB: ${db}}`);
    expect((await at.apply(ledger('one'))).status).toBe(200);
    expect((await author.put(`/templates/${template.id}`, { content: text('evil:1') })).status).toBe(200);
    const key = 'template_instances.ledger';
    const { data: planned } = await at.apply(ledger('two'), { dry_run: true });
    expect(planned.needs_force).toEqual([key]);
    const forced = await at.apply(ledger('two'), { force: [key] });
    expect(forced.status).toBe(200);
    expect(forced.data.steps).toEqual(planned.steps);
  });

  it('loses a variable that is not declared any more, whatever its name has', async () => {
    const at = await place();
    const app = (env: string): string => object('Application', 'web', 'image_url: web:1', `env: ${env}`);
    await at.apply(app('{"feature/x": "on", "a~b": "1", A: "1"}'));
    const { data } = await at.apply(app('{A: "1"}'));
    expect(data.steps[0].fields.map(({ field }: { field: string }) => field).toSorted()).toEqual([
      'env.a~b',
      'env.feature/x',
    ]);
    expect((await owner.get(`/applications/${await idOf('applications', at, 'web')}/env`)).data.env).toEqual({
      A: '1',
    });
  });

  it('with a password for a domain is the same the second time', async () => {
    const at = await place();
    const web = (password: string): string =>
      object(
        'Application',
        'web',
        'image_url: web:1',
        'exposed_port: 8080',
        `domains: [{host: guarded.example.test, basic_auth: [{username: ann, password: ${password}}]}]`,
      );
    expect((await at.apply(web('correct-horse-1'))).status).toBe(200);
    expect((await at.apply(web('correct-horse-1'))).data.changes).toBe(false);
    expect((await at.apply(web('correct-horse-2'))).data.changes).toBe(true);
  });

  it('is done in order where it does not fit into one transaction, and goes on', async () => {
    const at = await place();
    const volume = (n: number): string => `apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: v-${n}}`;
    const many = Array.from({ length: 65 }, (_, n) => volume(n));
    expect((await at.apply(many.join('\n---\n'))).data.steps).toHaveLength(65);
    expect((await owner.get(`/volumes?projectId=${at.project}&limit=100`)).data).toHaveLength(65);
    expect((await at.apply(many.join('\n---\n'))).data.changes).toBe(false);
    // what stays as it is counts as well
    const { status, data } = await at.apply([...many, volume(65)].join('\n---\n'));
    expect([status, data?.steps.at(-1)]).toMatchObject([200, { action: 'create', name: 'v-65' }]);
  });

  it('is nothing new where a new key has sealed an object, and not yet what was deployed of it', async () => {
    const at = await place();
    const text = [
      object('Application', 'web', 'compose_file: "services: {web: {image: web}}"', 'env: {TOKEN: one}'),
      object('Function', 'hello', 'runtime: node20', 'code: "export default () => 1"', 'env: {TOKEN: two}'),
    ].join('\n---\n');
    expect((await at.apply(text)).status).toBe(200);
    const [web, hello] = [await idOf('applications', at, 'web'), await idOf('functions', at, 'hello')];
    await world.keyring.addKey();
    for (const key of [keys.desired('default', 'application', web), keys.desired('default', 'function', hello)]) {
      const { value } = (await world.store.get(key))!;
      const sealed = world.keyring.resealRecord('default', value)!;
      expect(sealed).not.toBe(value);
      await world.store.txn({ if: [], then: [{ put: key, value: sealed }] });
    }
    await world.settled();
    const deployed = async () => [
      (await owner.get(`/applications/${web}`)).data.is_source_deployed,
      (await owner.get(`/applications/${web}/deployments`)).data.length,
      (await owner.get(`/functions/${hello}/versions`)).data.length,
    ];
    expect((await at.apply(text, { dry_run: true })).data).toMatchObject({ changes: false });
    expect((await at.apply(text)).data).toMatchObject({ changes: false });
    expect((await owner.put(`/applications/${web}`, { labels: { team: 'shop' } })).status).toBe(200);
    expect((await owner.post(`/applications/${web}/deploy`)).status).toBeLessThan(300);
    expect(await deployed()).toEqual([true, 1, 1]);
    // another value is still another one
    expect((await owner.put(`/applications/${web}/env`, { env: { TOKEN: 'three' } })).status).toBe(200);
    expect(await deployed()).toEqual([true, 2, 1]);
  });

  it('says where a text is wrong, and does nothing then', async () => {
    const at = await place();
    const wrong = `${shop()}\n---\n${object('Database', 'two', 'type: oracle')}`;
    const { status, body } = await at.apply(wrong);
    expect([status, body.error?.message]).toEqual([
      400,
      expect.stringMatching(/^Line 2\d, column \d+: spec\.type must be one of/),
    ]);
    expect(await idOf('databases', at, 'db')).toBeUndefined();
    for (const [content, words] of [
      ['kind: Server\nmetadata: {name: a}', 'must have a kind that can be declared'],
      ['', 'declares nothing'],
      [object('Application', 'web', 'image_url: web:1', 'server: nowhere'), 'may use no server nowhere'],
      [object('Volume', 'a', 'environment: nowhere'), 'has no environment nowhere'],
      [`${object('Volume', 'a', 'server: x')}\n---\n${object('Volume', 'a', 'server: y')}`, 'declares volumes.a twice'],
      [object('Application', 'web', 'image_url: web:1', 'volumes: [{volume: none, path: /a}]'), 'which is no volume'],
    ] as const)
      expect((await at.apply(content)).body.error?.message).toContain(words);
  });
});

describe('what is moved from another name', () => {
  /** As `object`, of what had the other name. */
  const moved = (kind: string, name: string, from: string, ...spec: string[]): string =>
    object(kind, name, ...spec).replace(`{name: ${name}}`, `{name: ${name}, moved_from: ${from}}`);
  const before = (url = '${databases.db.url}'): string =>
    [
      object('Environment', 'staging', 'type: staging'),
      object('Volume', 'files', 'environment: staging'),
      object('Database', 'db', 'environment: staging', 'type: redis'),
      object('Function', 'hello', 'environment: staging', 'runtime: node20', 'code: "export default () => 1"'),
      object(
        'Application',
        'web',
        'environment: staging',
        'image_url: web:1',
        `env: {URL: "${url}"}`,
        'volumes: [{volume: files, path: /files}]',
      ),
    ].join('\n---\n');
  const after = (url = '${databases.store.url}'): string =>
    [
      moved('Environment', 'stage', 'staging', 'type: staging'),
      moved('Volume', 'content', 'files', 'environment: stage'),
      moved('Database', 'store', 'db', 'environment: stage', 'type: redis'),
      moved('Function', 'greet', 'hello', 'environment: stage', 'runtime: node20', 'code: "export default () => 1"'),
      moved(
        'Application',
        'shop',
        'web',
        'environment: stage',
        'image_url: web:1',
        `env: {URL: "${url}"}`,
        'volumes: [{volume: content, path: /files}]',
      ),
    ].join('\n---\n');
  const kinds = [
    ['volumes', 'files', 'content'],
    ['databases', 'db', 'store'],
    ['functions', 'hello', 'greet'],
    ['applications', 'web', 'shop'],
  ] as const;

  it('is renamed and keeps what it is, what refers to it by the same text, and nothing the second time', async () => {
    const at = await place();
    expect((await at.apply(before(), { set: 'all' })).status).toBe(200);
    const ids = await Promise.all(kinds.map(([kind, name]) => idOf(kind, at, name)));
    const all = { set: 'all', prune: true };
    const { data: planned } = await at.apply(after(), { ...all, dry_run: true });
    expect([planned.needs_force, planned.steps]).toMatchObject([
      [],
      [
        { action: 'update', key: 'environments.stage', name: 'stage', renamed_from: 'staging' },
        { action: 'update', key: 'volumes.stage/content', renamed_from: 'files', loses_data: null },
        { action: 'update', key: 'databases.stage/store', renamed_from: 'db', loses_data: null, interrupts: null },
        { action: 'update', key: 'applications.stage/shop', renamed_from: 'web' },
        { action: 'update', key: 'functions.stage/greet', renamed_from: 'hello' },
      ],
    ]);
    expect(planned.steps[1].fields).toMatchObject([
      { field: 'name', before: 'files', after: 'content', by_hand: false },
    ]);
    const { status, data, body } = await at.apply(after(), all);
    expect([status, body.error]).toEqual([200, undefined]);
    expect(data.steps.every(({ action }: { action: string }) => action === 'update')).toBe(true);
    expect(await Promise.all(kinds.map(([kind, , name]) => idOf(kind, at, name)))).toEqual(ids);
    const again = await at.apply(after(), all);
    expect([again.data?.changes, again.data?.steps[1]]).toMatchObject([false, { renamed_from: null }]);
  });

  it('is made where there is neither, and refused where there are both', async () => {
    const at = await place();
    const { data } = await at.apply(moved('Volume', 'b', 'a', '{}'));
    expect(data.steps).toMatchObject([{ action: 'create', key: 'volumes.b', renamed_from: null }]);
    await at.apply(object('Volume', 'c', '{}'));
    const both = await at.apply(moved('Volume', 'b', 'c', '{}'));
    expect([both.status, both.body.error?.message]).toEqual([
      409,
      'volumes.b cannot be moved from c, as there are both: delete or rename one of them, or take moved_from away',
    ]);
    // by the name of the environment it is the same one
    const named = [object('Volume', 'c', 'environment: production'), moved('Volume', 'd', 'c', '{}')];
    for (const text of [named, named.toReversed()])
      expect((await at.apply(text.join('\n---\n'))).body.error?.message).toContain(
        'is moved from volumes.c, which is declared',
      );
  });

  it('has to be forced where somebody else made it, and is not where others refer to it by its name', async () => {
    const at = await place();
    await at.apply(object('Database', 'db', 'type: redis'));
    const other = object('Application', 'other', 'image_url: web:1', 'env: {URL: "${databases.db.url}"}');
    await at.apply(other, { manager: 'ci' });
    const text = moved('Database', 'store', 'db', 'type: redis');
    expect((await at.apply(text)).body.error?.message).toBe(
      'Variables of other refer to databases.db, which becomes store: let them refer to that in the same text',
    );
    await at.apply(object('Application', 'other', 'image_url: web:1'), { manager: 'ci' });
    const foreign = await at.apply(text, { manager: 'ci' });
    expect(foreign.body.error?.details).toMatchObject([
      { reason: 'force_needed', message: expect.stringContaining('apply declares name') },
    ]);
    expect((await at.apply(text)).data.steps).toMatchObject([{ action: 'update', renamed_from: 'db' }]);
  });

  it('is replaced where it cannot be renamed, and only where that is forced', async () => {
    const at = await place();
    const content = 'apiVersion: setpoint/v1\nkind: Template\napplications: [{name: web, image_url: "one:1"}]\n';
    await owner.post('/templates', { name: 'moving', content });
    await at.apply(object('TemplateInstance', 'blog', 'template: moving'));
    const blog = await idOf('template-instances', at, 'blog');
    const text = moved('TemplateInstance', 'journal', 'blog', 'template: moving');
    const refused = await at.apply(text);
    expect(refused.body.error?.details).toMatchObject([{ message: 'template_instances.journal loses data' }]);
    const { data, body } = await at.apply(text, { force: ['template_instances.journal'] });
    expect(body.error).toBeUndefined();
    expect(data.steps).toMatchObject([{ action: 'replace', renamed_from: 'blog', name: 'journal' }]);
    expect((await owner.get(`/template-instances/${blog}`)).data.status).toBe('deleting');
    expect((await at.apply(text)).data.changes).toBe(false);
  });
});

/** As many objects of all kinds, by shares. */
function population(count: number, template: string): string[] {
  const share = (percent: number, make: (n: number) => string): string[] =>
    Array.from({ length: (count * percent) / 100 }, (_, n) => make(n));
  return [
    ...share(2.5, (n) => object('Environment', `env-${n}`, `description: number ${n}`)),
    ...share(20, (n) => object('Volume', `v-${n}`, ...(n === 0 ? ['environment: env-0'] : ['{}']))),
    ...share(10, (n) => object('Database', `db-${n}`, `type: ${n % 2 === 0 ? 'postgres' : 'redis'}`)),
    ...share(50, (n) =>
      object(
        'Application',
        `web-${n}`,
        `image_url: web:${n}`,
        'exposed_port: 8080',
        `memory_limit: ${128 + n}m`,
        ...(n === 1 ? ['volumes: [{volume: v-1, path: /files}]'] : []),
        `env: {N: "${n}", DATABASE_URL: "\${databases.db-0.url}"}`,
      ),
    ),
    ...share(15, (n) => object('Function', `f-${n}`, 'runtime: node20', `code: "export default () => ${n}"`)),
    ...share(2.5, (n) => object('TemplateInstance', `i-${n}`, `template: ${template}`, `variables: {MODE: m-${n}}`)),
  ];
}

describe('many objects of all kinds', () => {
  const all = { set: 'all' };
  const revision = async () => {
    await world.settled();
    return world.store.revision();
  };

  async function keeps(count: number): Promise<void> {
    const at = await place();
    const content =
      'apiVersion: setpoint/v1\nkind: Template\nvariables: [{name: MODE}]\napplications:\n  - name: web\n    image_url: one:1\n    env: {MODE: "${MODE}"}\n';
    const { data: template } = await owner.post('/templates', { name: `one-${count}`, content });
    const objects = population(count, `one-${count}`);
    const text = objects.join('\n---\n');
    const made = await at.apply(text, all);
    expect([made.status, made.body.error, made.data?.steps.length]).toEqual([200, undefined, count]);
    const before = await revision();
    const again = await at.apply(text, all);
    expect([again.data?.changes, again.data?.needs_force]).toEqual([false, []]);
    expect(await revision()).toBe(before);

    // another manager, another type of a database, and what is not declared any more
    const other = objects.map((it) => it.replace('image_url: web:1\n', 'image_url: ci:1\n'));
    const refused = await at.apply(other.join('\n---\n'), { manager: 'ci', deploy: false });
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toEqual([
      { field: 'force', reason: 'force_needed', message: 'applications.web-1: apply declares image_url' },
    ]);
    const fewer = objects.filter((it) => !/name: (v-2|web-3|f-1|i-0)\}/.test(it));
    const replaced = fewer.map((it) =>
      it.replace('name: db-1}\nspec:\n  type: redis', 'name: db-1}\nspec:\n  type: mysql'),
    );
    const prune = { ...all, prune: true };
    const lossy = await at.apply(replaced.join('\n---\n'), prune);
    expect([lossy.status, lossy.body.error?.details?.map((it) => (it as { message?: string }).message)]).toEqual([
      409,
      ['databases.db-1 loses data', 'template_instances.i-0 loses data', 'volumes.v-2 loses data'],
    ]);
    expect(await revision()).toBe(before);
    const force = ['databases.db-1', 'template_instances.i-0', 'volumes.v-2'];
    const forced = await at.apply(replaced.join('\n---\n'), { ...prune, force });
    expect(forced.body.error).toBeUndefined();
    expect(Object.entries(actions(forced.data)).filter(([, action]) => action !== 'unchanged')).toEqual([
      ['databases.db-1', 'replace'],
      ['functions.f-1', 'delete'],
      ['applications.web-3', 'delete'],
      ['template_instances.i-0', 'delete'],
      ['volumes.v-2', 'delete'],
    ]);
    await owner.delete(`/templates/${template.id}`);
  }

  it('are applied, are nothing the second time, and lose nothing that is not forced', () => keeps(40));
  it('are so as many as a text may have', { tags: [longTag] }, () => keeps(200));
});

describe('an export', () => {
  it('applies back to no change, and names what it leaves out', async () => {
    const at = await place();
    await at.apply(shop({ extra: ['replicas: 1', 'restart_policy: never', 'domains: [{host: shop.example.test}]'] }));
    const { data } = await owner.get(`/projects/${at.project}/export`);
    expect(data.content).toContain('DATABASE_URL: ${databases.db.url}');
    expect(data.content).not.toContain('TOKEN');
    expect(data.left_out).toEqual(['databases.db: password', 'applications.web: env.TOKEN']);
    const back = await at.apply(data.content, { manager: 'other' });
    expect([back.status, back.data?.changes, back.body.error]).toEqual([200, false, undefined]);
  });

  it('has no previews, and names passwords of domains and instances of templates as left out', async () => {
    const at = await place();
    const users = 'basic_auth: [{username: ada, password: correct horse}]';
    const content = 'apiVersion: setpoint/v1\nkind: Template\nvolumes: [{name: files}]';
    await owner.post('/templates', { name: 'exported', content });
    await at.apply(
      [
        object('Application', 'web', 'image_url: web:1', `domains: [{host: ada.example.test, ${users}}]`),
        object('TemplateInstance', 'blog', 'template: exported'),
      ].join('\n---\n'),
    );
    const unit = world.repo.begin();
    const [environment, preview] = [crypto.randomUUID(), crypto.randomUUID()];
    unit.create(
      'environment',
      environment,
      { project_id: at.project, name: 'pr-12', type: 'preview' },
      { owners: [{ kind: 'preview', id: preview, blocks: true }] },
    );
    expect(await unit.commit()).toMatchObject({ committed: true });
    await world.settled();
    const site = object('Application', 'site', 'image_url: web:1', 'environment: pr-12');
    expect((await at.apply(site)).body.error?.message).toBeUndefined();
    const { data } = await owner.get(`/projects/${at.project}/export`);
    expect(data.content).not.toMatch(/pr-12|site/);
    expect(data.left_out).toEqual([
      'applications.web: password of ada for ada.example.test',
      'template_instances.blog: all of it',
    ]);
    const back = await at.apply(data.content, { manager: 'other' });
    expect([back.status, back.data?.changes, back.body.error]).toEqual([200, false, undefined]);
  });
});

describe('a database whose connections are pooled', () => {
  const db = (...spec: string[]) => object('Database', 'db', 'type: postgres', ...spec);

  it('is declared so, exported so, and not any more where that is not declared; its engine is not interrupted', async () => {
    const at = await place();
    await at.apply(db('connection_pooling: true'));
    const path = `/databases/${await idOf('databases', at, 'db')}`;
    const shown = async () => (await owner.get(path)).data.connection_pooling;
    expect([await shown(), (await at.apply(db('connection_pooling: true'))).data.changes]).toEqual([true, false]);
    const { data: exported } = await owner.get(`/projects/${at.project}/export`);
    expect(exported.content).toContain('connection_pooling: true');
    const back = await at.apply(exported.content, { manager: 'other', dry_run: true });
    expect(back.data.changes).toBe(false);
    const { data } = await at.apply(db('connection_pooling: false'));
    expect(data.steps[0]).toMatchObject({ action: 'update', interrupts: null, loses_data: null });
    expect(data.steps[0].fields).toMatchObject([{ field: 'connection_pooling', before: true, after: null }]);
    expect(await shown()).toBe(false);
    await at.apply(db('connection_pooling: true'));
    await at.apply(db());
    expect(await shown()).toBe(false);
  });

  it('are not pooled any more once nothing declared takes the pooler, also by the same text', async () => {
    const at = await place();
    const text = (pooling: boolean, url: string): string =>
      [
        db(`connection_pooling: ${pooling}`),
        object('Application', 'web', 'image_url: "web:1"', `env: {URL: "\${databases.db.${url}}"}`),
      ].join('\n---\n');
    expect((await at.apply(text(true, 'pooled_url'))).status).toBe(200);
    const refused = await at.apply(text(false, 'pooled_url'));
    expect([refused.status, refused.body.error?.message]).toEqual([400, expect.stringContaining('not pooled')]);
    const { status, data } = await at.apply(text(false, 'url'));
    expect([status, data?.changes]).toEqual([200, true]);
  });

  it('of a template is what its applications take, and refused where it is not pooled', async () => {
    const at = await place();
    const text = (pooled: string): string =>
      [
        'apiVersion: setpoint/v1\nkind: Template\nmetadata: {name: pooled}',
        `databases: [{name: db, type: postgres${pooled}}]`,
        'applications: [{name: web, image_url: "web:1", env: {URL: "${databases.db.pooled_url}"}, start_command: "run ${databases.db.pooled_host}"}]',
      ].join('\n');
    const instance = { project_id: at.project, variables: {} };
    const make = async (content: string) => {
      const { data } = await owner.post('/templates', { content, name: `pooled-${content.length}` });
      return owner.post(`/templates/${data.id}/instantiate`, { ...instance, name: `it-${content.length}` });
    };
    const refused = await make(text(''));
    expect([refused.status, refused.body.error?.message]).toEqual([
      400,
      expect.stringContaining('database db, whose connections are not pooled: declare connection_pooling: true there'),
    ]);
    const made = await make(text(', connection_pooling: true'));
    expect([made.status, made.body.error]).toEqual([201, undefined]);
    const stored = await world.repo.get('template_instance', made.data.id);
    const [database, web] = stored?.desired.children ?? [];
    expect(database?.desired).toMatchObject({ connection_pooling: true });
    const host = database?.kind === 'database' ? `${database.desired.internal_id}-pooler` : '';
    expect(web?.desired).toMatchObject({ config: { start_command: `run ${host}` } });
  });
});

describe('the schema of what can be declared', () => {
  it('is served for editors', async () => {
    const response = await fetch(`${world.url}/schemas/application.json`);
    expect(response.headers.get('content-type')).toContain('application/schema+json');
    const schema: unknown = await response.json();
    expect(schema).toMatchObject({ properties: { kind: { const: 'Application' } } });
    expect((await fetch(`${world.url}/schemas/setpoint.json`)).status).toBe(200);
    expect((await fetch(`${world.url}/schemas/other.json`)).status).toBe(404);
  });
});

describe('a declared function', () => {
  const hello = (...spec: string[]): string =>
    object('Function', 'hello', 'runtime: node20', 'code: "export default () => new Response(`${1}`)"', ...spec);
  const read = async (id: string) => (await owner.get(`/functions/${id}`)).data;
  const versions = async (id: string) => (await owner.get(`/functions/${id}/versions`)).data.length;

  it('is deployed, gets a version where what it is made of changes, and its export changes nothing', async () => {
    const at = await place();
    const cron = ['trigger_type: cron', 'schedule: "0 4 * * *"'];
    const text = hello('env: {TOKEN: one}', 'timeout_seconds: 5', ...cron);
    expect(actions((await at.apply(text)).data)).toEqual({ 'functions.hello': 'create' });
    const id = await idOf('functions', at, 'hello');
    expect(await read(id)).toMatchObject({ run: 'running', timeout_seconds: 5, schedule: '0 4 * * *' });
    expect([await versions(id), (await at.apply(text)).data.changes]).toEqual([1, false]);

    await owner.put(`/functions/${id}`, { env: { TOKEN: 'one', OWN: 'mine' } });
    const { data } = await at.apply(hello('env: {TOKEN: two}'));
    expect(data.steps[0].fields.map(({ field }: { field: string }) => field).toSorted()).toEqual([
      'env.TOKEN',
      'timeout_seconds',
      'trigger_type',
    ]);
    expect(await read(id)).toMatchObject({
      env: { TOKEN: 'two', OWN: 'mine' },
      timeout_seconds: 30,
      trigger_type: 'http',
    });
    expect(await versions(id)).toBe(2);
    await at.apply(hello('env: {TOKEN: two}', 'max_instances: 2'));
    expect(await versions(id)).toBe(2);

    const { data: exported } = await owner.get(`/projects/${at.project}/export`);
    expect(exported.left_out.toSorted()).toEqual(['functions.hello: env.OWN', 'functions.hello: env.TOKEN']);
    const again = await at.apply(exported.content, { manager: 'other' });
    expect([again.body.error, again.data?.steps?.at(-1)]).toMatchObject([undefined, { action: 'unchanged' }]);
  });

  it('mounts the volumes that it declares, and none that it does not declare any more', async () => {
    const at = await place();
    const files = object('Volume', 'files', '{}');
    const text = [files, hello('volumes: [{volume: files, path: /data}]')].join('\n---\n');
    expect(actions((await at.apply(text)).data)).toEqual({ 'volumes.files': 'create', 'functions.hello': 'create' });
    const [id, volume] = [await idOf('functions', at, 'hello'), await idOf('volumes', at, 'files')];
    const mounts = async () => (await world.repo.get('function', id))?.desired.mounts;
    expect(await mounts()).toEqual([{ volume_id: volume, path: '/data', read_only: false }]);
    expect((await at.apply(text)).data.changes).toBe(false);

    const { data: exported } = await owner.get(`/projects/${at.project}/export`);
    expect([exported.left_out, exported.content]).toEqual([[], expect.stringMatching(/volumes:\n +- volume: files/)]);
    expect((await at.apply(exported.content, { manager: 'other', dry_run: true })).data.changes).toBe(false);

    const unknown = await at.apply(hello('volumes: [{volume: none, path: /data}]'));
    expect(unknown.body.error?.message).toBe('Function hello mounts none, which is no volume of its environment');
    await at.apply([files, hello()].join('\n---\n'));
    expect(await mounts()).toEqual([]);
  });

  it('goes once its set does not declare it any more', async () => {
    const at = await place();
    await at.apply(hello(), { set: 'all', deploy: false });
    const id = await idOf('functions', at, 'hello');
    expect(await read(id)).toMatchObject({ run: 'stopped', version_id: null });
    const pruned = await at.apply(object('Environment', 'other', 'description: empty'), { set: 'all', prune: true });
    expect(pruned.body.error).toBeUndefined();
    expect(actions(pruned.data)).toMatchObject({ 'functions.hello': 'delete' });
    expect((await world.repo.get('function', id))?.meta.deletionRequestedAt).toBeDefined();
  });
});
