import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { countLimits } from '../../api/rights/count-limits.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { templateText } from '../harness/states.ts';

const example = readFileSync(join(import.meta.dirname, '../../manifests/examples/template/template.yaml'), 'utf8');
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

const create = async (content = example, name = `t-${randomUUID().slice(0, 8)}`) =>
  (await owner.post('/templates', { name, content })).data;

describe('a template', () => {
  it('has what its text says of it, unless more is sent', async () => {
    const made = await owner.post('/templates', { content: example, display_name: 'Other', color: '#ff0000' });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({
      name: 'notes',
      display_name: 'Other',
      description: 'A page, a worker that fills it, and a database that both use',
      color: '#ff0000',
      tags: ['example'],
      content: example,
      instance_count: 0,
      status: 'unused',
    });
    const path = `/templates/${made.data.id}`;
    expect((await owner.get(path)).data).toMatchObject({ content: example });
    const { data: found } = await owner.get('/templates?q=Other');
    expect(found.map((it: { id: string; content: unknown }) => [it.id, it.content])).toEqual([[made.data.id, null]]);
    const changed = await owner.put(path, { ...(await owner.get(path)).data, description: null, tags: ['a', 'b'] });
    expect(changed.data).toMatchObject({ description: null, tags: ['a', 'b'], content: example });
    expect((await owner.put(path, found[0])).data).toMatchObject({ content: example });
    expect((await owner.delete(path)).status).toBe(204);
    expect((await owner.get(path)).status).toBe(404);
  });

  it('is refused with each fault and its place', async () => {
    const refused = await owner.post('/templates', { name: 'x', content: `${templateText}colour: red\nsize: big\n` });
    expect(refused.status).toBe(400);
    expect(refused.body.error?.details).toEqual([
      { field: 'content', reason: 'invalid', message: 'line 5, column 9: colour is not known' },
      { field: 'content', reason: 'invalid', message: 'line 6, column 7: size is not known' },
    ]);
    expect((await owner.post('/templates', { content: templateText })).body.error?.details?.[0]).toMatchObject({
      field: 'name',
      reason: 'required',
    });
  });

  it('has a name of its own', async () => {
    const { name } = await create();
    expect((await owner.post('/templates', { name: name.toUpperCase(), content: example })).status).toBe(409);
  });

  it('is changed and deleted by its author and by admins alone', async () => {
    const [anna, bob] = [await world.user(), await world.user()];
    for (const one of [anna, bob]) await one.post('/projects', { name: `p-${randomUUID()}` });
    const { data } = await anna.post('/templates', { name: `t-${randomUUID()}`, content: example });
    const path = `/templates/${data.id}`;
    expect((await bob.get(path)).status).toBe(200);
    expect((await bob.put(path, { display_name: 'x' })).status).toBe(403);
    expect((await bob.delete(path)).status).toBe(403);
    const stolen = { ...(await bob.get(`${path}/export`)).data, on_conflict: 'replace' };
    expect((await bob.post('/templates/import', stolen)).status).toBe(403);
    expect((await anna.put(path, { display_name: 'x' })).status).toBe(200);
    expect((await owner.delete(path)).status).toBe(204);
  });
});

describe('an exported template', () => {
  it('is imported as the same', async () => {
    const { id } = await create();
    await owner.put(`/templates/${id}`, { icon: 'notes', labels: { team: 'a' } });
    const { data: file } = await owner.get(`/templates/${id}/export`);
    expect((await owner.post('/templates/import', file)).status).toBe(409);
    await owner.delete(`/templates/${id}`);
    const again = await owner.post('/templates/import', file);
    expect(again.status).toBe(201);
    expect((await owner.get(`/templates/${again.data.id}/export`)).data).toEqual(file);
  });

  it('takes a free name or the place of the one that there is, as asked for', async () => {
    const { id, name } = await create();
    const { data: file } = await owner.get(`/templates/${id}/export`);
    const renamed = await owner.post('/templates/import', { ...file, on_conflict: 'rename' });
    expect(renamed.data.name).toBe(`${name}-2`);
    const replaced = await owner.post('/templates/import', { ...file, content: templateText, on_conflict: 'replace' });
    expect(replaced.data).toMatchObject({ id, name, content: templateText });
  });
});

describe('POST /templates/validate', () => {
  it('says what a text declares', async () => {
    const { status, data } = await owner.post('/templates/validate', { content: example });
    expect(status).toBe(200);
    expect(data).toMatchObject({ valid: true, errors: [], warnings: [] });
    expect(data.variables[1]).toMatchObject({
      name: 'API_TOKEN',
      type: 'secret',
      required: false,
      secret: true,
      generated: true,
    });
    expect(data.resources).toEqual([
      { kind: 'volume', name: 'uploads', wave: 0 },
      { kind: 'database', name: 'db', wave: 1 },
      { kind: 'application', name: 'web', wave: 2 },
      { kind: 'application', name: 'worker', wave: 3 },
    ]);
  });

  it('says what is wrong with it and where, and refuses what is hostile', async () => {
    const { status, data } = await owner.post('/templates/validate', { content: `${templateText}colour: red` });
    expect(status).toBe(200);
    expect(data).toMatchObject({
      valid: false,
      errors: [{ path: 'colour', line: 5, column: 9, message: 'colour is not known' }],
    });
    for (const content of [
      `${templateText}---\n${templateText}`,
      `${templateText}x: !!js/function a`,
      'a'.repeat(300_000),
      'b'.repeat(10_000_000),
    ])
      expect((await owner.post('/templates/validate', { content })).status).toBe(400);
  });
});

describe('a text that no honest author writes', () => {
  let project: string | undefined;
  const bomb = ['a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]']
    .concat(
      ['b', 'c', 'd', 'e', 'f'].map((it, at) => `${it}: &${it} [${Array(9).fill(`*${'abcdef'[at]}`).join(', ')}]`),
    )
    .join('\n');

  it.each([
    ['of aliases of aliases', bomb],
    ['of many aliases', `a: &a 1\nb: [${Array(200).fill('*a').join(', ')}]`],
    ['that has itself', 'a: &a\n  b: *a'],
    ['that merges itself', 'a: &a\n  b: 1\n  <<: *a'],
    ['of deep lists', `a: ${'['.repeat(5000)}${']'.repeat(5000)}`],
    ['of deep maps', `a: ${'{a: '.repeat(40)}${'}'.repeat(40)}`],
    ['of deep lists in blocks', '- '.repeat(100_000)],
    ['of deep keys', '? '.repeat(100_000)],
    ['with a tag of a language', 'a: !!js/function "x"'],
    ['with a binary', 'a: !!binary cm9vdA=='],
    ['with a tag of its own', 'a: !x 1'],
    ['with a key twice', 'a: 1\na: 2'],
    ['with a key twice in a flow', 'a: {b: 1, b: 2}'],
    ['with __proto__', 'a: {__proto__: {b: 1}}'],
    ['with __proto__ at its top', '__proto__: {kind: Template}'],
    ['with a control character', 'a: "\u001b[2J"'],
    ['with half a character', 'a: "\ud800"'],
    ['of many values', `a: [${'1,'.repeat(20_000)}]`],
    ['of ten megabytes', `a: ${'b'.repeat(10_000_000)}`],
    ['of ten megabytes in lines', '- a\n'.repeat(2_500_000)],
  ])('%s is refused wherever a text is read', async (_what, content) => {
    project ??= (await world.place(owner)).project;
    const sent = [
      owner.post('/apply', { project_id: project, content }),
      owner.post('/templates/validate', { content }),
      owner.post('/templates/convert-compose', { content: `${content}\n` }),
    ];
    for (const { status, body } of await Promise.all(sent))
      expect([status, body.error?.code]).toEqual([400, 'BAD_REQUEST']);
  });
});

describe('an instance that is asked for', () => {
  const shop = async () => {
    const { project, environment, server } = await world.place(owner);
    return { project_id: project, environment_id: environment, server_id: server };
  };
  const instantiate = async (body: object, content = example) =>
    owner.post(`/templates/${(await create(content)).id}/instantiate`, body);

  it('has the desired states of its children, with secrets that are sealed and made once', async () => {
    const at = await shop();
    const domain = `${randomUUID()}.example.org`;
    const made = await instantiate({ ...at, name: 'notes', variables: { DOMAIN: domain, WORKERS: 2 } });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({ name: 'notes', status: 'pending', waves: 4, ready_children: 0 });
    expect(made.data.children.map((it: { name: string; state: string }) => [it.name, it.state])).toEqual([
      ['notes-uploads', 'waiting'],
      ['notes-db', 'waiting'],
      ['notes-web', 'waiting'],
      ['notes-worker', 'waiting'],
    ]);
    expect(made.data.variables).toContainEqual({ name: 'API_TOKEN', type: 'secret', generated: true });
    const stored = await world.repo.get('template_instance', made.data.id);
    // its text has the prefix, and no value
    expect(JSON.stringify({ ...stored!.desired, content: '' })).not.toContain('sk-');
    const [uploads, , web, worker] = stored!.desired.children;
    expect(web).toMatchObject({
      kind: 'application',
      desired: {
        domains: [{ host: domain }],
        mounts: [{ volume_id: uploads!.id, path: '/srv/uploads' }],
        config: { exposed_port: 8080, healthcheck_path: '/healthz', references: ['${databases.notes-db.url}'] },
        template_instance_id: made.data.id,
      },
    });
    const tokenOf = (child: typeof web) => {
      if (child?.kind !== 'application') throw new Error('It is no application');
      const place = { tenant: 'default', kind: 'application', id: child.id, path: 'config.env.API_TOKEN' };
      return world.keyring.unseal(child.desired.config.env['API_TOKEN']!, place);
    };
    expect(tokenOf(web)).toMatch(/^sk-[A-Za-z0-9_-]{40}$/);
    expect(tokenOf(worker)).toBe(tokenOf(web));
    expect(worker).toMatchObject({ desired: { replicas: 2, app_type: 'worker' } });
  });

  it.each<[what: string, body: object, status: number, words: string]>([
    ['without a variable that is needed', {}, 400, 'DOMAIN needs a value'],
    ['with an unknown variable', { variables: { DOMAIN: 'a.example.org', COLOUR: 'red' } }, 400, 'no variable COLOUR'],
    ['with a wrong value', { variables: { DOMAIN: 'no domain' } }, 400, 'DOMAIN must be a host name'],
    [
      'with a value that a field does not take',
      { variables: { DOMAIN: 'a.example.org', WORKERS: '1.5' } },
      400,
      'applications.worker is not valid',
    ],
    ['in a project that there is not', { project_id: randomUUID() }, 404, 'Project not found'],
  ])('%s is refused', async (_, body, status, words) => {
    const refused = await instantiate({ ...(await shop()), ...body });
    expect([refused.status, refused.body.error?.message]).toEqual([status, expect.stringContaining(words)]);
  });

  it('is refused where a value makes a schedule wrong', async () => {
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'variables: [{name: WHEN, type: string}]',
      'functions: [{name: f, runtime: node20, code: x, trigger_type: cron, schedule: "${WHEN}"}]',
    ].join('\n');
    const refused = await instantiate({ ...(await shop()), variables: { WHEN: 'never' } }, content);
    expect([refused.status, refused.body.error?.message]).toEqual([400, expect.stringContaining('schedule')]);
  });

  it('is refused where two applications would have one domain', async () => {
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'variables: [{name: HOST, type: domain}]',
      'applications:',
      '  - {name: a, image_url: "web:1", exposed_port: 80, domains: [{host: "${HOST}"}]}',
      '  - {name: b, image_url: "web:1", exposed_port: 80, domains: [{host: "${HOST}"}]}',
    ].join('\n');
    const HOST = `${randomUUID()}.example.org`;
    const refused = await instantiate({ ...(await shop()), variables: { HOST } }, content);
    expect([refused.status, refused.body.error?.message]).toEqual([400, expect.stringContaining('lead to a and to b')]);
  });

  it('is refused where values make it longer than may be', async () => {
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'variables: [{name: TEXT}]',
      `applications: [{name: web, image_url: web:1, env: {A: "${'${TEXT}'.repeat(20_000)}"}}]`,
    ].join('\n');
    const refused = await instantiate({ ...(await shop()), variables: { TEXT: 'x'.repeat(30_000) } }, content);
    expect([refused.status, refused.body.error?.message]).toEqual([400, expect.stringContaining('longer than 1024')]);
  });

  it('is refused where others are still to make as many as a project may have', async () => {
    const databases = Array.from({ length: 50 }, (_, index) => `{name: d${index}, type: redis}`).join(', ');
    const { id } = await create(`apiVersion: setpoint/v1\nkind: Template\ndatabases: [${databases}]\n`);
    const at = await shop();
    const ask = async (name: string) => owner.post(`/templates/${id}/instantiate`, { ...at, name });
    for (let made = 0; made < countLimits.databasesPerProject; made += 50)
      expect((await ask(`n${made}`)).status).toBe(201);
    const refused = await ask('more');
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('databases')]);
  });

  it('is refused where names of what it makes are taken', async () => {
    const at = await shop();
    await owner.post('/volumes', { ...at, name: 'Notes-Uploads' });
    const refused = await instantiate({ ...at, name: 'notes', variables: { DOMAIN: 'b.example.org' } });
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toMatchObject([{ field: 'name', reason: 'taken' }]);
  });

  it('is refused to a viewer, and deleted by project admins', async () => {
    const at = await shop();
    const { id: template } = await create(templateText);
    const [viewer, member] = [await world.user(), await world.user()];
    await owner.post(`/projects/${at.project_id}/members`, { user_id: viewer.id, role: 'viewer' });
    await owner.post(`/projects/${at.project_id}/members`, { user_id: member.id, role: 'member' });
    await viewer.post('/projects', { name: `own-${randomUUID()}` });
    const path = `/templates/${template}/instantiate`;
    expect((await viewer.post(path, { ...at, name: 'x' })).status).toBe(403);
    const made = await member.post(path, { ...at, name: 'x' });
    expect(made.status).toBe(201);
    expect((await member.delete(`/template-instances/${made.data.id}`)).status).toBe(403);
    expect((await owner.delete(`/template-instances/${made.data.id}?keep_data=true`)).data.status).toBe('deleting');
  });

  it('keeps what a variable holds from being read as a reference', async () => {
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'variables: [{name: TEXT}]',
      'databases: [{name: db, type: redis}]',
      'applications: [{name: web, image_url: web:1, env: {A: "${TEXT}", B: "x ${databases.db.host}"}}]',
    ].join('\n');
    const made = await instantiate(
      { ...(await shop()), name: 'n', variables: { TEXT: '${databases.other.password}' } },
      content,
    );
    const [, web] = (await world.repo.get('template_instance', made.data.id))!.desired.children;
    if (web?.kind !== 'application') throw new Error('It is no application');
    const valueOf = (name: string) =>
      world.keyring.unseal(web.desired.config.env[name]!, {
        tenant: 'default',
        kind: 'application',
        id: web.id,
        path: `config.env.${name}`,
      });
    expect(valueOf('A')).toBe('$${databases.other.password}');
    expect(valueOf('B')).toBe('x ${databases.n-db.host}');
    expect(web.desired.config.references).toEqual(['${databases.n-db.host}']);
  });
});

describe('POST /templates/from-workloads', () => {
  it('makes a template that makes the same, with variables in the place of secrets', async () => {
    const { project, environment, server } = await world.place(owner);
    const at = { project_id: project, environment_id: environment, server_id: server };
    await owner.post('/databases', { ...at, name: 'Orders', type: 'postgres', database_name: 'orders' });
    const { data: volume } = await owner.post('/volumes', { ...at, name: 'Files' });
    const fields = {
      source_type: 'image',
      image_url: 'web:1',
      exposed_port: 8080,
      healthcheck_path: '/ready',
      memory_limit: '64m',
    };
    const env = { DATABASE: '${databases.Orders.url}', API_KEY: 'a-very-secret-value', GREETING: 'costs ${5}' };
    const domain = `${randomUUID()}.example.org`;
    const { data: app } = await owner.post('/applications', {
      ...at,
      ...fields,
      name: 'My Shop',
      env,
      domains: [{ host: domain }],
    });
    await owner.post(`/volumes/${volume.id}/bind`, {
      workload_type: 'application',
      workload_id: app.id,
      mount_path: '/data',
    });
    const made = await owner.post('/templates/from-workloads', {
      name: `copy-${randomUUID()}`,
      application_ids: [app.id],
    });
    expect(made.status).toBe(201);
    expect(made.data.content).not.toContain('a-very-secret-value');
    const report = (await owner.post('/templates/validate', { content: made.data.content })).data;
    expect(report).toMatchObject({ valid: true, warnings: [] });
    expect(report.variables.map((it: { name: string }) => it.name).toSorted()).toEqual(['API_KEY', 'MY_SHOP_DOMAIN']);
    const other = await world.place(owner);
    const again = await owner.post(`/templates/${made.data.id}/instantiate`, {
      project_id: other.project,
      environment_id: other.environment,
      server_id: other.server,
      name: 'copy',
      variables: { MY_SHOP_DOMAIN: `${randomUUID()}.example.org`, API_KEY: 'another-secret-value' },
    });
    expect(again.status).toBe(201);
    const children = (await world.repo.get('template_instance', again.data.id))!.desired.children;
    expect(children.map(({ kind, key }) => [kind, key])).toEqual([
      ['volume', 'files'],
      ['database', 'orders'],
      ['application', 'my-shop'],
    ]);
    const copy = children[2]!;
    if (copy.kind !== 'application') throw new Error('It is no application');
    expect(copy.desired).toMatchObject({ source: { type: 'image', image_url: 'web:1' }, mounts: [{ path: '/data' }] });
    const { env: sealed, references, ...config } = copy.desired.config;
    expect(config).toEqual({
      exposed_port: 8080,
      healthcheck_path: '/ready',
      memory_limit: '64m',
      restart_policy: 'always',
    });
    expect(references).toEqual(['${databases.copy-orders.url}']);
    const place = { tenant: 'default', kind: 'application', id: copy.id, path: 'config.env.GREETING' };
    expect(world.keyring.unseal(sealed['GREETING']!, place)).toBe('costs ${5}');
  });

  it('makes one of functions, with their code as it is', async () => {
    const { project, environment, server } = await world.place(owner);
    const at = { project_id: project, environment_id: environment, server_id: server };
    await owner.post('/databases', { ...at, name: 'orders', type: 'redis' });
    const code = 'export default () => new Response(`costs ${5} and $${databases.orders.url}`)';
    const cron = { trigger_type: 'cron', schedule: '30 3 * * *', schedule_config: { timezone: 'Europe/Berlin' } };
    const env = { CACHE: '${databases.orders.url}', API_KEY: 'a-very-secret-value' };
    const fields = { runtime: 'node20', timeout_seconds: 7, dependencies: '{"left-pad":"1.3.0"}', ...cron };
    const made = async (more: object): Promise<string> =>
      (await owner.post('/functions', { ...at, ...fields, name: `Nightly ${randomUUID()}`, ...more })).data.id;
    const templateOf = (id: string) =>
      owner.post('/templates/from-workloads', { name: `copy-${randomUUID()}`, function_ids: [id] });
    const template = await templateOf(await made({ name: 'Nightly', code, env }));
    expect([template.status, template.body.error]).toEqual([201, undefined]);
    expect(template.data.content).not.toContain('a-very-secret-value');
    const other = await world.place(owner);
    const again = await owner.post(`/templates/${template.data.id}/instantiate`, {
      project_id: other.project,
      environment_id: other.environment,
      server_id: other.server,
      name: 'copy',
    });
    expect([again.status, again.body.error]).toEqual([201, undefined]);
    const { children } = (await world.repo.get('template_instance', again.data.id))!.desired;
    expect(children.map(({ kind, key }) => [kind, key])).toEqual([
      ['database', 'orders'],
      ['function', 'nightly'],
    ]);
    expect(children[1]!.desired).toMatchObject({
      code,
      dependencies: fields.dependencies,
      trigger: { type: 'cron', schedule: cron.schedule, timezone: 'Europe/Berlin' },
      timeout_seconds: 7,
      config: { references: ['${databases.copy-orders.url}'] },
    });
    const telling = await templateOf(await made({ code: 'export default "a-very-secret-value"', env }));
    expect([telling.status, telling.body.error?.message]).toEqual([
      409,
      expect.stringContaining('its code has a secret'),
    ]);
    const imports = { oak: 'https://reader:a-very-secret-value@git.example.com/oak.ts' };
    const map = {
      runtime: 'deno',
      dependencies: JSON.stringify({ imports }),
      code: 'export default () => new Response()',
    };
    const fetching = await templateOf(await made(map));
    expect([fetching.status, fetching.body.error?.message]).toEqual([
      409,
      expect.stringContaining('its dependencies have a secret'),
    ]);
  });

  it('shows no secret to those who may not see the application', async () => {
    const { project, environment, server } = await world.place(owner);
    const { data: app } = await owner.post('/applications', {
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'web',
      source_type: 'image',
      image_url: 'web:1',
      start_command: 'serve --key hidden-1-first',
      healthcheck: { type: 'command', command: ['curl', 'http://probe:hidden-2-probe@localhost/'] },
      env: {
        DB_PASSWORD: 'hidden-1-first',
        QUEUE: 'amqp://shop:hidden-3-queue@queue:5672/',
        STRIPE_KEY: 'hidden-4-stripe',
        SENTRY_DSN: 'https://hidden-5-0123456789@sentry.example/1',
        REPORTS: 'https://hidden-6-0123456789@reports.example/1',
        SHELL_LINE: 'cost$hidden-1-first',
        TOKEN_SECONDS: '3600',
      },
    });
    const fields = { name: `copy-${randomUUID()}`, application_ids: [app.id] };
    const made = await owner.post('/templates/from-workloads', fields);
    expect([made.status, made.body.error]).toEqual([201, undefined]);
    const { content } = made.data;
    expect(content.match(/hidden-\d/g)).toBeNull();
    expect(content).toContain('QUEUE: amqp://shop:${QUEUE_PASSWORD}@queue:5672/');
    expect(content).toContain('start_command: serve --key ${DB_PASSWORD}');
    expect(content).toContain('TOKEN_SECONDS: "3600"');
    const { variables } = (await owner.post('/templates/validate', { content })).data;
    expect(
      variables
        .filter((it: { required: boolean }) => it.required)
        .map((it: { name: string }) => it.name)
        .toSorted(),
    ).toEqual(['SENTRY_DSN', 'SHELL_LINE', 'STRIPE_KEY']);
  });

  it('shows no secret of a build and of a path, either', async () => {
    const { project, environment, server } = await world.place(owner);
    const templateOf = async (fields: object) => {
      const made = await owner.post('/applications', {
        project_id: project,
        environment_id: environment,
        server_id: server,
        name: `web-${randomUUID()}`,
        ...fields,
      });
      expect(made.body.error).toBeUndefined();
      return owner.post('/templates/from-workloads', { name: `copy-${randomUUID()}`, application_ids: [made.data.id] });
    };
    const built = {
      source_type: 'git',
      repository_url: 'https://git.example.com/web.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      build_context: '.',
    };
    const told: [Record<string, string>, object?][] = [
      [{ PIP_INDEX_URL: 'https://ci:hidden-1-index@pypi.example/simple' }],
      [{ NPMRC: '//registry.example/:_authToken=hidden-2-token' }],
      [{ BANNER: 'see hidden-3-npm' }, { NPM_TOKEN: 'hidden-3-npm' }],
    ];
    for (const [build_args, env = {}] of told) {
      const refused = await templateOf({ ...built, build_args, env });
      const [name] = Object.keys(build_args);
      expect([refused.status, refused.body.error?.message]).toEqual([
        409,
        expect.stringContaining(`its build argument ${name} looks like a secret`),
      ]);
    }
    const plain = await templateOf({
      ...built,
      build_args: { NODE_ENV: 'production', MIRROR: 'https://npm.example/' },
    });
    expect([plain.status, plain.body.error]).toEqual([201, undefined]);
    const probed = await templateOf({
      source_type: 'image',
      image_url: 'web:1',
      exposed_port: 80,
      healthcheck_path: '/health?key=hidden-4-health',
      env: { HEALTH_KEY: 'hidden-4-health' },
    });
    expect([probed.status, probed.body.error]).toEqual([201, undefined]);
    expect(probed.data.content).toContain('healthcheck_path: /health?key=${HEALTH_KEY}');
    expect(probed.data.content.match(/hidden-\d/g)).toBeNull();
  });

  it('needs the right to change each of them', async () => {
    const { project, environment, server } = await world.place(owner);
    const { data: volume } = await owner.post('/volumes', {
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'v',
    });
    const client = await world.user();
    await client.post('/projects', { name: `own-${randomUUID()}` });
    const body = { name: `copy-${randomUUID()}`, volume_ids: [volume.id] };
    expect((await client.post('/templates/from-workloads', body)).status).toBe(403);
    const { data: added } = await owner.post(`/projects/${project}/members`, { user_id: client.id, role: 'viewer' });
    expect((await client.post('/templates/from-workloads', body)).status).toBe(403);
    await owner.put(`/projects/${project}/members/${added.id}`, { role: 'member' });
    expect((await client.post('/templates/from-workloads', body)).status).toBe(201);
  });
});
